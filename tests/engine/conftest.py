"""One service with real engines for all tests of this folder: one prefill and two decode workers, as `up` starts them.

Starting vLLM takes longer than most tests together, so the service is started as soon as it is known that a test needs
it, and other tests run meanwhile (`lanes`).  Tests share it by using cache salts of their own; those that break
something say `engine(last=True)` and come after the others.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from bare_engine import ENGINE_PYTHON, REPOSITORY
from engine_probe import EngineProbe, Engines
from lanes import is_a_lane
from local_service import LocalService, command_line

MANIFEST = Path(__file__).parent / "tiny.yaml"
MODEL = REPOSITORY / ".cache" / "models" / "tiny-llama"
ADAPTERS = REPOSITORY / ".cache" / "models" / "tiny-adapters"
READY_LIMIT_S = 600.0
ONLY_TESTS_ASK = {"INFERPLANE_CANARY_INTERVAL": "24h", "INFERPLANE_TRANSFER_CHECK": "off"}
"""Tests compare counters of engines, where the agents' own questions would show."""
_SERVICE = pytest.StashKey[LocalService]()


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = any("service" in getattr(item, "fixturenames", ()) for item in session.items)
    elsewhere = is_a_lane(session.config)  # one lane gets these tests, and begins with them
    if wanted and not elsewhere and why_not() is None and not session.config.option.collectonly:
        session.config.stash[_SERVICE] = _start()


def pytest_unconfigure(config: pytest.Config) -> None:
    _stop(config)


def _start() -> LocalService:
    folder = Path(tempfile.mkdtemp(prefix="inferplane-"))
    return LocalService.start(MANIFEST, folder, settings=ONLY_TESTS_ASK)


def _stop(config: pytest.Config) -> None:
    service = config.stash.get(_SERVICE, None)
    if service is not None:
        del config.stash[_SERVICE]
        service.stop()
        shutil.rmtree(service.state.root, ignore_errors=True)


def why_not() -> str | None:
    if not ENGINE_PYTHON.exists() or not MODEL.exists() or not ADAPTERS.exists():
        return "no engine on this machine: make engine"
    return None


@pytest.fixture(scope="session")
def engine_here() -> None:
    """Skip where there is no engine; in CI that is a failure."""
    reason = why_not()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="package")
def service(pytestconfig: pytest.Config, engine_here: None) -> Iterator[LocalService]:
    """The running service, which ends with the last test of this folder."""
    del engine_here
    if _SERVICE not in pytestconfig.stash:
        pytestconfig.stash[_SERVICE] = _start()
    started = pytestconfig.stash[_SERVICE]
    started.wait_ready(READY_LIMIT_S)
    yield started
    _stop(pytestconfig)


@pytest.fixture(scope="package")
def engines(service: LocalService) -> Iterator[Engines]:
    """Its engines, asked directly."""
    probes = [_probe(service, name) for name in ("prefill-0", "decode-0", "decode-1")]
    yield Engines(*probes)
    for probe in probes:
        probe.close()


def _probe(service: LocalService, name: str) -> EngineProbe:
    worker = service.worker(name)
    assert worker.agent is not None
    assert worker.agent.pid is not None
    told = command_line(worker.agent.pid)  # the engine's sockets are what its agent was told
    return EngineProbe(worker.engine_url, told[told.index("--kv-replay") + 1], model="tiny")


@pytest.fixture
def salt(request: pytest.FixtureRequest) -> str:
    """A cache salt that no other test uses; vLLM takes at most 128 characters and not every one."""
    return hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Twenty pieces of real English, each of a few hundred tokens: the documentation inside every Python."""
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    return [" ".join(topics[name].split())[:1500] for name in sorted(topics) if len(topics[name]) > 2000][:20]


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The served model's files."""
    return MODEL
