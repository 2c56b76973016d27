"""Round trips, damage and crashes of the files that runner and command line share."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_operator.local.desired import (
    Desired,
    change_desired,
    dump_desired,
    parse_desired,
    read_desired,
)
from inferplane_operator.local.lock import InstanceRunningError, hold_runner_lock, runner_is_alive, runner_pid
from inferplane_operator.local.statedir import (
    SOCKET_PATH_LIMIT,
    StateDir,
    StateError,
    replace_file,
    socket_dir,
)
from inferplane_operator.local.status import (
    InstancePhase,
    Status,
    WorkerPhase,
    WorkerStatus,
    read_status,
    write_status,
)


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    found = StateDir(tmp_path / "state")
    found.create()
    return found


texts = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
desireds = st.builds(
    Desired,
    manifests=st.lists(st.dictionaries(texts, values, max_size=3), max_size=2),
    generation=st.integers(1, 2**53),
    replicas=st.dictionaries(texts, st.integers(0, 100), max_size=3),
    gateway_port=st.integers(0, 65535),
    engine_python=texts,
    gpus=texts,
    stopped=st.booleans(),
)


@settings(deadline=None)
@given(desireds)
def test_desired_state_survives_a_round_trip(desired: Desired) -> None:
    assert parse_desired(dump_desired(desired)) == desired


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("generation: 0", "generation: Input should be greater than or equal to 1"),
        ("generation: true", "generation: Input should be a valid integer"),
        ("gatewayPort: 70000", "gatewayPort: Input should be less than or equal to 65535"),
        ("enginePython: 3", "enginePython: Input should be a valid string"),
        ("replicas: {d: -1}", "replicas.d: Input should be greater than or equal to 0"),
        ("replicas: [1]", "replicas: Input should be a valid dictionary"),
        ("manifests: [1]", "manifests.0: Input should be a valid dictionary"),
    ],
)
def test_a_damaged_field_is_named_with_the_fix(line: str, problem: str) -> None:
    document = dump_desired(Desired(manifests=[]))
    key = line.partition(":")[0]
    kept = [entry for entry in document.splitlines() if not entry.startswith(f"{key}:")]
    with pytest.raises(StateError, match=problem) as caught:
        parse_desired("\n".join([*kept, line]))

    assert "run `inferplane up -f FILE` again" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "- a\n- b"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(StateError):
        parse_desired(text)


def test_each_change_raises_the_generation(state: StateDir) -> None:
    assert read_desired(state) is None
    first = change_desired(state, lambda _: Desired(manifests=[{"a": 1}]))
    second = change_desired(state, lambda current: current or Desired(manifests=[]))

    assert (first.generation, second.generation) == (1, 2)
    assert read_desired(state) == second


def test_concurrent_changes_are_all_kept(state: StateDir) -> None:
    change_desired(state, lambda _: Desired(manifests=[]))

    def add(pool: str) -> None:
        def change(current: Desired | None) -> Desired:
            assert current is not None
            return Desired(manifests=[], replicas={**current.replicas, pool: 1})

        for _ in range(5):
            change_desired(state, change)

    threads = [threading.Thread(target=add, args=(f"p{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_desired(state)

    assert found is not None
    assert set(found.replicas) == {"p0", "p1", "p2", "p3"}
    assert found.generation == 21


def test_a_damaged_file_is_replaced_with_a_generation_nobody_has_seen(state: StateDir) -> None:
    state.desired.write_text("{")

    given: list[Desired | None] = []

    def change(current: Desired | None) -> Desired:
        given.append(current)
        return Desired(manifests=[])

    assert change_desired(state, change).generation > 1_000_000
    assert given == [None]


def test_a_lost_file_is_replaced_with_a_generation_nobody_has_seen(state: StateDir) -> None:
    change_desired(state, lambda _: Desired(manifests=[]))
    state.status.touch()
    state.desired.unlink()

    assert change_desired(state, lambda _: Desired(manifests=[])).generation > 1_000_000


@pytest.mark.parametrize("lost", ["damaged", "gone"])
def test_a_clock_that_was_set_back_does_not_undercut_what_the_runner_has_seen(state: StateDir, lost: str) -> None:
    seen = 4_000_000_000_000  # milliseconds: when the clock was wrong, it was the year 2096
    write_status(state, Status(service="demo", observed_generation=seen, phase=InstancePhase.READY))
    if lost == "damaged":
        state.desired.write_text("{")
        os.utime(state.desired, (0, 0))

    assert change_desired(state, lambda _: Desired(manifests=[])).generation == seen + 1


def test_a_folder_that_cannot_be_written_is_named(state: StateDir) -> None:
    state.desired_lock.mkdir()

    with pytest.raises(StateError, match=r"cannot be written .*; choose another --state-dir"):
        change_desired(state, lambda _: Desired(manifests=[]))


def test_damaged_yaml_is_told_in_one_line(state: StateDir) -> None:
    state.desired.write_text("{{{")

    with pytest.raises(StateError) as caught:
        read_desired(state)

    assert "\n" not in str(caught.value)


def test_a_replace_that_fails_half_way_leaves_the_old_content_and_no_litter(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file(state.status, "old")

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        replace_file(state.status, "new")

    assert state.status.read_text() == "old"
    assert [path.name for path in state.root.iterdir() if path.name.startswith(".")] == []


def test_a_reader_never_sees_half_a_file_while_its_writer_is_killed(state: StateDir) -> None:
    """kill -9 in the middle of a busy writer, ten times: the file is always whole."""
    program = (
        "import pathlib, sys\n"
        "from inferplane_operator.local.statedir import replace_file\n"
        "path, number = pathlib.Path(sys.argv[1]), 0\n"
        "while True:\n"
        "    number += 1\n"
        "    replace_file(path, '[' + ','.join([str(number)] * 5000) + ']')\n"
        "    if number == 1: print('up', flush=True)\n"
    )
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", program, str(state.status)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "up\n"
        whole = [len(set(json.loads(state.status.read_text()))) for _ in range(50)]
        writer.kill()
        writer.wait(timeout=170)
        writer.stdout.close()

        assert set(whole) == {1}
        assert len(json.loads(state.status.read_text())) == 5000


def test_status_survives_a_round_trip_and_ignores_newer_fields(state: StateDir) -> None:
    worker = WorkerStatus(name="d-0", pool="d", role="decode", revision="a", phase=WorkerPhase.READY)
    status = Status(service="demo", observed_generation=3, phase=InstancePhase.READY, workers=(worker,))
    write_status(state, status)
    assert read_status(state) == status

    document = json.loads(state.status.read_text())
    assert document["observedGeneration"] == 3
    state.status.write_text(json.dumps({**document, "fromTheFuture": 1}))

    assert read_status(state) == status


def test_a_damaged_status_names_file_and_field(state: StateDir) -> None:
    assert read_status(state) is None
    state.status.write_text('{"service": 3}')
    with pytest.raises(StateError, match=r"status.json: service: .*`inferplane up` writes it again"):
        read_status(state)


def test_one_runner_a_folder(state: StateDir) -> None:
    assert not runner_is_alive(state)
    with hold_runner_lock(state):
        assert runner_is_alive(state)
        assert runner_pid(state) == os.getpid()
        with pytest.raises(InstanceRunningError, match=f"pid {os.getpid()}"), hold_runner_lock(state):
            pass

    assert not runner_is_alive(state)
    assert runner_pid(state) is None


def test_the_lock_of_a_killed_runner_is_free(state: StateDir) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from inferplane_operator.local.lock import hold_runner_lock\n"
        "from inferplane_operator.local.statedir import StateDir\n"
        "with hold_runner_lock(StateDir(pathlib.Path(sys.argv[1]))):\n"
        "    print('up', flush=True)\n"
        "    time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(state.root)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    assert runner_is_alive(state)
    holder.kill()
    holder.wait(timeout=170)
    holder.stdout.close()

    assert not runner_is_alive(state)
    with hold_runner_lock(state):
        assert runner_pid(state) == os.getpid()


def test_sockets_lie_in_the_state_folder_while_their_paths_are_short_enough(tmp_path: Path) -> None:
    short = Path("/tmp") / f"ip-{os.getpid()}"  # noqa: S108  tmp_path may itself be too deep
    try:
        assert socket_dir(StateDir(short), runtime_root=tmp_path) == short / "sockets"
    finally:
        (short / "sockets").rmdir()
        short.rmdir()


def test_a_deep_state_folder_borrows_a_short_private_one(tmp_path: Path) -> None:
    root = Path("/tmp") / f"ip-run-{os.getpid()}"  # noqa: S108  see above
    root.mkdir()
    deep = StateDir(tmp_path / ("x" * 100))
    try:
        found = socket_dir(deep, runtime_root=root)
        assert len(os.fsencode(found)) + 41 <= SOCKET_PATH_LIMIT
        assert found.stat().st_mode & 0o777 == 0o700
        assert socket_dir(deep, runtime_root=root) == found
        assert socket_dir(StateDir(tmp_path / ("y" * 100)), runtime_root=root) != found

        found.chmod(0o755)
        with pytest.raises(StateError, match="mode 700"):
            socket_dir(deep, runtime_root=root)
    finally:
        for path in sorted(root.rglob("*"), reverse=True):
            path.rmdir()
        root.rmdir()
