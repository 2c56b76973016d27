"""A pair of SGLang pools, kept as a file: nobody has run it, so a review is all that a change of it gets.

Regenerate: INFERPLANE_REGENERATE_GOLDEN=1 .venv/bin/python -m pytest tests/operator -k golden
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import yaml

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import load_manifests
from inferplane_operator.render import render_service

GOLDEN = Path(__file__).parent / "golden" / "contract" / "sglang.yaml"
MANIFEST = """
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: pair, namespace: inference}
spec:
  model: {name: llama, source: {path: /models/llama}}
  engine: {type: sglang, blockSize: 64, kvCacheDtype: fp8, maxModelLen: 32768, args: [--mem-fraction-static, "0.85"]}
  mode: disaggregated
  prefill: {parallelism: {tensor: 2}}
  decode:
    parallelism: {tensor: 2, data: 2}
    engine: {args: [--disaggregation-decode-enable-radix-cache]}
"""


def test_golden_pair_of_sglang_pools() -> None:
    (service,) = load_manifests(MANIFEST)
    assert isinstance(service, InferenceService)
    found: list[dict[str, Any]] = json.loads(json.dumps([asdict(pool) for pool in render_service(service).pools]))
    if os.environ.get("INFERPLANE_REGENERATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(cast("Any", yaml).safe_dump_all(found, sort_keys=False, width=120))

    assert list(yaml.safe_load_all(GOLDEN.read_text())) == found
