"""Compile the kernels before somebody waits for them: a quarter of a minute, once for each version of them."""

import numpy as np

from inferplane_engine.profiles import CPU_TEST
from inferplane_engine.sim.config import EngineConfig, LoadFailurePolicy
from inferplane_engine.sim.events import EngineRequest, Outline, RemoteSource
from inferplane_engine.sim.outlined.engine import OutlinedEngine


def warm() -> None:
    """Serve two small requests, one of which gets its prompt from elsewhere and then does not."""
    config = EngineConfig(
        max_model_len=64, load_failure=LoadFailurePolicy.RECOMPUTE, content=False, every_token=False, exact=False
    )
    engine = OutlinedEngine(config, CPU_TEST)
    names = np.arange(1, 5, dtype=np.uint64)
    source = RemoteSource("producer", "other", "", 0, ((1, 2),))
    engine.submit(EngineRequest("own", (), 4, outline=Outline(20, names)), 0.0)
    for name in ("pulled", "failed"):
        engine.submit(EngineRequest(name, (), 4, source=source, outline=Outline(20, names)), 0.0)
    engine.advance(0.001)
    engine.pulled("pulled", ((0, 0),), 0.002)
    engine.pull_failed("failed", 0.002, "it is gone")
    engine.abort("own", 0.003)
    while (due := engine.next_event_at()) is not None:
        engine.advance(due)
