"""Whether the two pools of a service can hand KV blocks to each other, as far as the spec can tell.

An engine that meets a peer with another block size or KV type refuses the transfer, or worse, at the first request;
here it is an error before anything starts.
"""

from inferplane_api.catalogue import RoutingMode
from inferplane_api.v1alpha1.engine import EngineSpec, EngineType, block_size_findings
from inferplane_api.v1alpha1.model import ModelSpec
from inferplane_api.v1alpha1.pool_template import PoolTemplate
from inferplane_api.v1alpha1.wire import Finding


def pairing_findings(
    *,
    mode: RoutingMode,
    engine: EngineSpec,
    model: ModelSpec,
    prefill: PoolTemplate | None,
    decode: PoolTemplate,
) -> list[Finding]:
    """Return what is wrong between mode, model, engine and the two pools."""
    findings: list[Finding] = []
    if model.source is None and engine.type is not EngineType.SIM:
        findings.append(
            Finding("model.source", f"engine {engine.type} needs weights", "add one of source.hf, pvc, path, oci")
        )
    if mode is RoutingMode.AGGREGATED and prefill is not None:
        findings.append(
            Finding("prefill", "mode aggregated has no prefill pool", "remove it, or use mode disaggregated or auto")
        )
    if mode is RoutingMode.DISAGGREGATED and prefill is None:
        findings.append(
            Finding("prefill", "mode disaggregated needs a prefill pool", "add prefill, or use mode aggregated or auto")
        )
    findings += block_size_findings(engine, decode.engine.block_size, "decode.engine.blockSize")
    if prefill is not None:
        findings += block_size_findings(engine, prefill.engine.block_size, "prefill.engine.blockSize")
        findings += _pair_findings(engine, prefill, decode)
    return findings


def _pair_findings(engine: EngineSpec, prefill: PoolTemplate, decode: PoolTemplate) -> list[Finding]:
    findings: list[Finding] = []
    sizes = [pool.engine.block_size or engine.effective_block_size for pool in (prefill, decode)]
    if sizes[0] != sizes[1]:
        findings.append(
            Finding(
                "prefill.engine.blockSize",
                f"prefill has blocks of {sizes[0]} tokens and decode of {sizes[1]}",
                "set engine.blockSize once for both",
            )
        )
    types = [pool.engine.kv_cache_dtype or engine.kv_cache_dtype for pool in (prefill, decode)]
    if types[0] != types[1]:
        findings.append(
            Finding(
                "prefill.engine.kvCacheDtype",
                f"prefill keeps KV as {types[0]} and decode as {types[1]}",
                "set engine.kvCacheDtype once for both",
            )
        )
    narrow, wide = sorted((prefill.parallelism.tensor, decode.parallelism.tensor))
    if wide % narrow:
        findings.append(
            Finding(
                "prefill.parallelism.tensor",
                f"{prefill.parallelism.tensor} and decode's {decode.parallelism.tensor} do not divide each other",
                "make one a multiple of the other: KV heads are regrouped whole",
            )
        )
    return findings
