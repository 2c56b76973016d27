"""One set of real engines for all tests of this folder: one prefill and two decode workers.

Starting vLLM takes longer than most tests together, so the set is started as soon as it is known that a test needs it,
these tests run last, and the others run meanwhile.  Tests share it by using cache salts of their own.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest

from bare_engine import ENGINE_PYTHON, REPOSITORY, BareEngine, EngineSpec, Role
from engine_probe import EngineProbe, Engines

MODEL = REPOSITORY / ".cache" / "models" / "tiny-llama"
SERVED_NAMES = ("tiny", "tiny-alias")
KV_CACHE_BYTES = 8 * 1024 * 1024  # 256 blocks of 32 tokens: small enough to see evictions
READY_LIMIT_S = 300.0
ROLES: Mapping[str, Role] = {"prefill-0": "prefill", "decode-0": "decode", "decode-1": "decode"}
SPECS = tuple(EngineSpec(name, role, MODEL, SERVED_NAMES, KV_CACHE_BYTES) for name, role in ROLES.items())


class EnginePool:
    """The engines from their start to their end; started without waiting."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="inferplane-engines-"))
        self.engines: list[BareEngine] = []

    def start(self) -> None:
        self.engines += [BareEngine.start(spec, self.folder) for spec in SPECS]

    def stop(self) -> None:
        for engine in self.engines:
            engine.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


_POOL = pytest.StashKey[EnginePool]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("engine") is not None)


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = any(item.get_closest_marker("engine") for item in session.items)
    if wanted and why_not() is None and not session.config.option.collectonly:
        pool = session.config.stash[_POOL] = EnginePool()
        pool.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    pool = config.stash.get(_POOL, None)
    if pool is not None:
        pool.stop()


def why_not() -> str | None:
    if not ENGINE_PYTHON.exists() or not MODEL.exists():
        return "no engine on this machine: make engine"
    return None


@pytest.fixture(scope="session")
def engines(pytestconfig: pytest.Config) -> Iterator[Engines]:
    reason = why_not()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    running = pytestconfig.stash[_POOL].engines
    for engine in running:
        engine.wait_ready(READY_LIMIT_S)
    probes = [EngineProbe(engine.url, engine.replay, model=SERVED_NAMES[0]) for engine in running]
    yield Engines(*probes)
    for probe in probes:
        probe.close()


@pytest.fixture
def salt(request: pytest.FixtureRequest) -> str:
    """A cache salt that no other test uses; vLLM takes at most 128 characters and not every one."""
    return hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Twenty pieces of real English, each of a few hundred tokens: the documentation inside every Python."""
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    return [" ".join(topics[name].split())[:1500] for name in sorted(topics) if len(topics[name]) > 2000][:20]
