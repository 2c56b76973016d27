"""What can be known to be missing before anything is started: weights, the engine's interpreter, sources we lack.

An engine would say the same minutes later, deep in a log.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from inferplane.manifest import Manifest
from inferplane_api.v1alpha1.engine import EngineType
from inferplane_api.v1alpha1.inference_service import InferenceService
from inferplane_api.v1alpha1.lora_adapter import LoRAAdapter

_PROBE = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('vllm') else 3)"
_NO_VLLM = 3
_PROBE_TIMEOUT_S = 60.0


def findings(manifest: Manifest, *, engine_python: str) -> list[str]:
    """Return what is in the way of running this service here, as field: problem; fix."""
    adapters = [each for each in manifest.resources if isinstance(each, LoRAAdapter)]
    return [
        *_source_findings(manifest.service),
        *_engine_findings(manifest.service, engine_python),
        *(finding for adapter in adapters for finding in _adapter_findings(adapter)),
    ]


def _source_findings(service: InferenceService) -> Iterator[str]:
    source = service.spec.model.source
    if source is None:
        return
    if source.pvc is not None or source.oci is not None:
        kind = "pvc" if source.pvc is not None else "oci"
        yield f"spec.model.source.{kind}: exists in a cluster only; use spec.model.source.path or hf locally"
    if source.path is not None:
        yield from _folder_findings(Path(source.path))


def _folder_findings(folder: Path) -> Iterator[str]:
    field = "spec.model.source.path"
    if not folder.is_dir():
        yield f"{field}: {folder} is not a folder on this machine; put the weights there or correct the path"
    elif not (folder / "config.json").is_file():
        yield f"{field}: {folder} holds no config.json; give the folder that directly holds the model's files"


def _adapter_findings(adapter: LoRAAdapter) -> Iterator[str]:
    path = adapter.spec.source.path
    if path is None:
        return
    field = f"LoRAAdapter {adapter.metadata.name}: spec.source.path"
    if not Path(path).is_dir():
        yield f"{field}: {path} is not a folder on this machine; put the adapter there or correct the path"
    elif not (Path(path) / "adapter_config.json").is_file():
        yield f"{field}: {path} holds no adapter_config.json; give the folder that directly holds the adapter's files"


def _engine_findings(service: InferenceService, engine_python: str) -> Iterator[str]:
    engine = service.spec.engine
    if engine.command or engine.type is EngineType.SIM:
        return
    if engine.type is not EngineType.VLLM:
        yield f"spec.engine.type: {engine.type.value} cannot be run locally yet; use vllm or sim"
        return
    fix = "pass --engine-python PATH (or INFERPLANE_ENGINE_PYTHON) of an environment with vLLM, or use type: sim"
    if not engine_python:
        yield f"spec.engine.type: vllm needs an interpreter that has vLLM, and .venv-engine is not here; {fix}"
        return
    problem = _probe(engine_python)
    if problem:
        yield f"--engine-python: {engine_python} {problem}; {fix}"


def _probe(engine_python: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  the user's own interpreter
            [engine_python, "-c", _PROBE], capture_output=True, text=True, check=False, timeout=_PROBE_TIMEOUT_S
        )
    except OSError as error:
        return f"cannot be started ({error.strerror})"
    except subprocess.TimeoutExpired:
        return "does not answer"
    if done.returncode == _NO_VLLM:
        return "has no vLLM"
    return f"fails: {done.stderr.strip()[-300:]}" if done.returncode else ""
