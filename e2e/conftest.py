"""Tests against a real Kubernetes; run by name: `make e2e`, or pytest e2e.

One cluster for all tests of a lane, one namespace for each test.  The cluster is made here (`e2e.cluster`), unless
INFERPLANE_E2E_KUBECONFIG names one, which takes one lane alone; then INFERPLANE_E2E_IMAGE names the image that its
nodes can pull, and tests that have to break parts of a cluster are skipped.
"""

import importlib
import os
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lanes
from e2e.cluster.access import Access
from e2e.cluster.binaries import CLIENTS, MissingError, build_missing, path_of
from e2e.cluster.machine import GIVEN, lacks, told
from e2e.cluster.one_node import OneNode
from e2e.cluster.packages import NEEDED, NEEDED_FOR_IMAGES, install_missing
from e2e.cluster.places import REPOSITORY, RUNS
from e2e.images.built import built_before, e2e_image
from e2e.support.cluster import Cluster
from e2e.support.counted import Counted
from e2e.support.evidence import gather, gather_components
from e2e.support.figures import add, note, noted
from e2e.support.namespaces import name_for, namespace_of
from e2e.support.order import put_in_order
from e2e.support.release import Release

TEST_LIMIT_S = 300
_COUNTING_LIMIT_S = 900
LOGS = RUNS / "logs"
_FAILED = pytest.StashKey[bool]()
_FIGURES = "e2e figures"


def pytest_sessionstart(session: pytest.Session) -> None:
    """End at once where no cluster can run; have its programs before any lane begins: tests/helm uses one of them."""
    config = session.config
    if lanes.is_a_lane(config) or config.option.collectonly:
        return
    if os.environ.get(GIVEN):
        _have_clients()
        return
    if missing := lacks():
        pytest.exit(told(missing), returncode=pytest.ExitCode.USAGE_ERROR)
    try:
        install_missing(NEEDED)
        build_missing()
    except MissingError as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)


def _have_clients() -> None:
    """End at once where somebody's cluster cannot be spoken to."""
    if absent := [name for name in CLIENTS if not path_of(name).exists()]:
        why = f"{GIVEN} needs {' and '.join(absent)}: put them on PATH, or let `make cluster` build them"
        pytest.exit(why, returncode=pytest.ExitCode.USAGE_ERROR)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests the time that a cluster needs; what a session's fixtures take is bounded where it is waited for."""
    for item in items:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TEST_LIMIT_S, func_only=True))
    put_in_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return lanes.scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what is in the cluster as soon as a test has failed, before anything of it is taken down."""
    report = yield
    if report.failed:
        item.session.stash[_FAILED] = True
        cluster = getattr(item, "funcargs", {}).get("cluster")
        if cluster is not None:
            gather(cluster.access, LOGS / name_for(item.name))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the figures of this lane to the process that prints them."""
    told: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if told is not None:
        told[_FIGURES] = [list(each) for each in noted()]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    add(getattr(node, "workeroutput", {}).get(_FIGURES, ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, value in noted():
        terminalreporter.write_line(f"{what}: {value:.2f}")


@pytest.fixture(scope="session", autouse=True)
def _counting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted | None]:
    """Begin first what takes long beside other tests, if one of those that were chosen wants it; one lane does."""
    if not any("counted" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield None
        return
    counting = Counted.begin(_of_all_lanes(request.config, tmp_path_factory) / "counted")
    yield counting
    counting.end(patience_s=_COUNTING_LIMIT_S if lanes.is_a_lane(request.config) else 0)  # another lane may want it


def _of_all_lanes(config: pytest.Config, folders: pytest.TempPathFactory) -> Path:
    """Return the run's temporary folder, which lanes have theirs in."""
    own = folders.getbasetemp()
    return own.parent if lanes.is_a_lane(config) else own


@pytest.fixture(scope="session")
def counted(_counting: Counted | None) -> Counted:
    """Give the operator's writes, counted beside the other tests."""
    assert _counting is not None
    return _counting


@pytest.fixture(scope="session")
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give a running cluster; from here on this process is in its network."""
    if given := os.environ.get(GIVEN):
        yield Cluster.of(Access(Path(given)))
        return
    node = OneNode.start()
    try:
        yield Cluster.of(node.access, node)
    finally:
        if request.session.stash.get(_FAILED, False):
            gather_components(node, LOGS / f"cluster{_lane(request.config)}")
        node.close()


def _lane(config: pytest.Config) -> str:
    """Return what tells this lane from the others in a name."""
    return f"-{config.workerinput['workerid']}" if lanes.is_a_lane(config) else ""  # type: ignore[attr-defined]  # xdist's


@pytest.fixture(scope="session")
def coming_image(request: pytest.FixtureRequest, running: Cluster) -> Iterator[Callable[[], str]]:
    """Begin to bring the image while tests run that need none; give what waits for it."""
    wanted = any("image" in getattr(item, "fixturenames", ()) for item in request.session.items)
    with ThreadPoolExecutor(1) as beside:
        coming = beside.submit(_brought, running) if wanted else None
        yield lambda: coming.result() if coming is not None else ""


@pytest.fixture(scope="session")
def cluster(running: Cluster, coming_image: Callable[[], str]) -> Cluster:
    """Give the cluster of this run."""
    assert callable(coming_image)
    return running


@pytest.fixture(scope="session")
def image(coming_image: Callable[[], str]) -> str:
    """Give the name of an image with every component that nodes have or can pull."""
    return coming_image()


def _brought(cluster: Cluster) -> str:
    given = os.environ.get("INFERPLANE_E2E_IMAGE", "")
    if cluster.own is None:
        if given:
            return given
        raise pytest.UsageError("set INFERPLANE_E2E_IMAGE to the image that the cluster's nodes can pull")
    if given:
        built = built_before(given)
    else:
        with cluster.own.enclosure.outside():
            install_missing(NEEDED_FOR_IMAGES)
            built = e2e_image()
    cluster.own.import_image(built.archive)
    return built.name


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    """Let the cluster know our resources, from the checked-in definitions."""
    manifests = str(REPOSITORY / "crds" / "manifests")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename", manifests)
    cluster.kubectl("wait", "--for=condition=Established", "--filename", manifests, "--timeout=60s")


@pytest.fixture(scope="session")
def release(cluster: Cluster, image: str) -> Iterator[Release]:
    """Give the installed chart, which serves all namespaces."""
    installed = Release(cluster, "inferplane", "inferplane-system", image)
    began = time.monotonic()
    try:
        installed.install()
    except BaseException:
        gather(cluster.access, LOGS / installed.namespace)
        raise
    note("chart install to ready, s", time.monotonic() - began)
    yield installed
    if cluster.own is None:  # else it ends with the cluster
        installed.uninstall()


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Any:
    """Give `kubernetes.client`, ready to use: a client that the product does not use, and that has no types."""
    kubernetes: Any = importlib.import_module("kubernetes")
    kubernetes.config.load_kube_config(str(cluster.access.kubeconfig))
    return kubernetes.client


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Give a namespace of the test's own."""
    with namespace_of(cluster, name_for(request.node.name)) as name:
        yield name
