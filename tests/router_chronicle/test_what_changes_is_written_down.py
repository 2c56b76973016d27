from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from inferplane_api.catalogue import Catalogue, CatalogueService
from inferplane_api.proto.worker_pb2 import (
    OUTCOME_BAD_REQUEST,
    OUTCOME_CLIENT_GONE,
    OUTCOME_ENGINE_ERROR,
    OUTCOME_ENGINE_LOST,
    OUTCOME_OK,
    ROLE_DECODE,
    ROLE_PREFILL,
    Outcome,
    RequestReport,
    Role,
)
from inferplane_observability.incident.happening import CAME_EARLY, Happening, Kind, read
from inferplane_router.chronicle.chronicle import Chronicle
from inferplane_router.chronicle.comparing import already_ill, failed_answers, failed_handoffs, happened
from inferplane_router.chronicle.ended import Ended
from inferplane_router.chronicle.pacing import Paces
from inferplane_router.chronicle.rolled_file import RolledFile
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import Health, KvMode, Mismatch, RefusalReason, Statistics, WorkerView
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.metrics.instruments import Instruments

D0 = WorkerView(
    worker_id="d0",
    namespace="ns",
    service="s",
    pool="decode",
    role="decode",
    revision="r1",
    health=Health.READY,
    detail="",
    kv_mode=KvMode.EXACT,
    mismatch=Mismatch.NONE,
    mismatch_detail="",
    in_flight=0,
    uncached_tokens=0,
    blocks=0,
    predictions=0,
    exact_predictions=0,
    predicted_tokens=0,
    observed_tokens=0,
    transport="",
    transport_degraded=False,
    address="10.0.0.1:8100",
)
FAILED = replace(D0, health=Health.FAILED, because="said failed", detail="the engine is gone")
DOUBTED = replace(D0, kv_mode=KvMode.APPROXIMATE, mismatch=Mismatch.LOST_EVENTS)


def statistics(*workers: WorkerView) -> Statistics:
    return Statistics(workers, (), 0, 0, dict.fromkeys(RefusalReason, 0), 0, {}, 0, 0, 0, 0)


def seen(before: Sequence[WorkerView], after: Sequence[WorkerView]) -> list[tuple[Kind, str, bool]]:
    return [(it.kind, it.detail, it.bad) for it in happened(statistics(*before), statistics(*after), 1.0)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([D0], [D0], []),
        ([D0], [replace(D0, in_flight=9, blocks=7)], []),
        ([D0], [FAILED], [(Kind.HEALTH, "failed, was ready: said failed; the engine is gone", True)]),
        ([FAILED], [D0], [(Kind.HEALTH, "ready, was failed: ", False)]),
        ([D0], [DOUBTED], [(Kind.TRUST, "cache known approximate: lost_events", True)]),
        ([DOUBTED], [D0], [(Kind.TRUST, "cache known exact", False)]),
        ([D0], [], [(Kind.WORKERS, "went", True)]),
        ([FAILED], [], [(Kind.WORKERS, "went", False)]),
        ([], [D0], [(Kind.WORKERS, "came", False)]),
        ([], [replace(D0, health=Health.STARTING)], [(Kind.WORKERS, CAME_EARLY, False)]),
        (
            [D0],
            [D0, replace(D0, worker_id="d1", revision="r2")],
            [(Kind.WORKERS, "came", False), (Kind.ROLLOUT, "revision r2 after r1", False)],
        ),
    ],
)
def test_two_looks_make_what_happened(
    before: list[WorkerView], after: list[WorkerView], expected: list[tuple[Kind, str, bool]]
) -> None:
    assert seen(before, after) == expected


def test_who_is_ill_when_it_is_seen_first_is_told() -> None:
    came = seen([], [replace(FAILED, worker_id="d1")])
    first = [(it.kind, it.worker, it.detail) for it in already_ill(statistics(D0, FAILED, DOUBTED), 1.0)]

    assert came == [(Kind.WORKERS, "came", False), (Kind.HEALTH, "failed: said failed; the engine is gone", True)]
    assert first == [
        (Kind.HEALTH, "d0", "failed: said failed; the engine is gone"),
        (Kind.TRUST, "d0", "cache known approximate: lost_events"),
    ]


def request(worker: str, *, times: float = 1.0, failed: Sequence[str] = ()) -> Ended:
    report = RequestReport(
        outcome=OUTCOME_OK, streamed=True, ttft_s=times, tpot_s=float("nan"), failed_prefill_workers=failed
    )
    return Ended("ns/s", worker, 1.0, 0.01, [report])


def test_failed_hand_offs_are_counted_by_the_worker_at_that_address() -> None:
    requests = [request("d9", failed=["10.0.0.1:8100"]), request("d9", failed=["10.0.0.1:8100", "10.9.9.9:1"])]

    found = list(failed_handoffs(requests, statistics(D0), 1.0))

    assert [(it.worker, it.number("count")) for it in found] == [("d0", 2.0), ("10.9.9.9:1", 1.0)]


def test_who_is_not_asked_for_its_damaged_blocks_is_told_apart() -> None:
    found = request("d9", failed=["10.0.0.1:8100", "10.9.9.9:1"])
    found.reports[0].damaged_prefill_workers.append("10.0.0.1:8100")

    told = list(failed_handoffs([found], statistics(D0), 1.0))

    assert [(it.kind, it.worker) for it in told] == [(Kind.BLOCKS, "d0"), (Kind.HANDOFF, "10.9.9.9:1")]


def answered(worker: str, side: Role, outcome: Outcome, status: int) -> Ended:
    return Ended("ns/s", worker, 1.0, 0.01, [RequestReport(outcome=outcome, status=status, side=side)])


def test_failed_answers_are_counted_by_the_worker_that_gave_them() -> None:
    requests = [
        answered("d0", ROLE_DECODE, OUTCOME_ENGINE_ERROR, 500),
        answered("d0", ROLE_DECODE, OUTCOME_ENGINE_LOST, 200),
        answered("d1", ROLE_DECODE, OUTCOME_OK, 200),
        answered("d1", ROLE_DECODE, OUTCOME_CLIENT_GONE, 200),
        answered("d1", ROLE_DECODE, OUTCOME_BAD_REQUEST, 400),
        answered("d1", ROLE_PREFILL, OUTCOME_ENGINE_ERROR, 500),
    ]

    found = list(failed_answers(requests, 1.0))

    assert [(it.kind, it.worker, it.number("count"), it.bad) for it in found] == [(Kind.ERRORS, "d0", 2.0, True)]


def test_a_worker_is_slow_among_others_that_are_not_and_recovers() -> None:
    paces = Paces()
    fair = [request("d1"), request("d2")]
    early = list(paces.take([request("d0", times=20), request("d0", times=20), *fair], 1.0))
    slow = list(paces.take([request("d0", times=20)], 2.0))
    again = list(paces.take([request("d0", times=20)], 3.0))
    fast = list(paces.take([request("d0") for _ in range(12)], 4.0))

    assert (early, again) == ([], [])
    assert [(it.worker, it.bad) for it in (*slow, *fast)] == [("d0", True), ("d0", False)]


def test_when_all_are_late_nobody_is_slow() -> None:
    paces = Paces()
    late = [request(name, times=20) for name in ("d0", "d1", "d2")]

    found = [it for _ in range(6) for it in paces.take(late, 1.0)]

    assert found == []


def test_a_folder_stays_within_its_bound_and_keeps_the_newest(tmp_path: Path) -> None:
    most = 8_000
    first, second = (RolledFile(tmp_path, "events", most_bytes=most, pid=pid) for pid in (1, 2))
    for number in range(400):
        first.append([f"first {number} {'x' * 50}"])
        second.append([f"second {number} {'x' * 50}"])

    total = sum(file.stat().st_size for file in tmp_path.iterdir())
    text = "".join(file.read_text() for file in tmp_path.iterdir())
    assert total <= most + 2 * (most // 8 + 100)
    assert "first 399 " in text
    assert "second 399 " in text
    assert "first 0 " not in text


class Account:
    """A chronicle of a core without workers, on a clock that stands."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.core = RouterCore(epoch=1, rng=Random(1), wall_clock=self.clock.wall)
        self.core.apply_catalogue(Catalogue(services=(CatalogueService(name="s", served_names=("m",)),)), 0.0)
        self.meters = GatewayMeters(Instruments())
        self.folder = folder
        self.chronicle = Chronicle(self.core, self.meters, self.clock, folder, most_bytes=1 << 20)

    def look(self, after_s: float = 0.0) -> None:
        self.clock.advance(after_s)
        self.chronicle.look()

    @property
    def kept(self) -> list[Happening]:
        lines = [line for file in sorted(self.folder.glob("events-*")) for line in file.read_text().splitlines()]
        return [it for line in lines if (it := read(line)) is not None]


def test_load_is_sampled_every_five_seconds_as_what_came_since(tmp_path: Path) -> None:
    account = Account(tmp_path)
    account.look()
    meters = account.meters.of(("default", "s"))
    meters.duration.observe(0.1)
    meters.ended("chat", "refused")
    account.look(1.0)
    account.look(4.0)
    account.look(5.0)

    numbers = [(it.number("arrived"), it.number("refused")) for it in account.kept]
    assert numbers == [(0.0, 0.0), (1.0, 1.0), (0.0, 0.0)]
    assert {(it.kind, it.service) for it in account.kept} == {(Kind.LOAD, "default/s")}


def test_a_disk_that_cannot_be_written_costs_lines_only(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    account = Account(blocked)
    account.look()
    account.look(5.0)

    assert blocked.read_text() == "in the way"
