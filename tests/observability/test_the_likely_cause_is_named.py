"""Happenings in, causes out: a table of what goes wrong, each with the noise that it makes."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_observability.incident.breach import breaches
from inferplane_observability.incident.causes import Cause
from inferplane_observability.incident.happening import CAME_EARLY, Happening, Kind, read, written
from inferplane_observability.incident.report import report

S = "default/chat"
T = 1_800_000_000.0


def load(at: float, *, missed: float = 0, arrived: float = 20, **numbers: float) -> Happening:
    told = {"met": arrived - missed, "missed": missed, "arrived": arrived, **numbers}
    return Happening(T + at, Kind.LOAD, S, numbers=told)


def calm(since: float, until: float) -> list[Happening]:
    return [load(float(at)) for at in range(int(since), int(until), 5)]


def missed(since: float, until: float, **numbers: float) -> list[Happening]:
    return [load(float(at), missed=10, **numbers) for at in range(int(since), int(until), 5)]


def bad(at: float, kind: Kind, worker: str, detail: str, **numbers: float) -> Happening:
    return Happening(T + at, kind, S, worker, detail, bad=True, numbers=numbers)


AROUND = [*calm(-120, 0), *missed(0, 30), *calm(30, 120)]
CRASH = [
    bad(-1, Kind.PROCESS, "d0", "engine exited with status 1"),
    bad(-1, Kind.HEALTH, "d0", "failed, was ready: said failed; the engine is gone"),
    bad(0, Kind.HANDOFF, "p0", "gave nothing to decode with", count=5),
    bad(3, Kind.TRUST, "d0", "cache known approximate: lost_events"),
]
STUCK = [
    bad(10, Kind.HEALTH, "d1", "suspect, was ready: request failed"),
    bad(25, Kind.ENGINE, "d1", "the engine hangs: it took requests and did no work"),
    bad(26, Kind.PROCESS, "d1", "engine ended by signal 9"),
]
SLOW = [bad(2, Kind.SLOW, "d2", "far slower than predicted", times=12.0, peers=2)]
HANDOFF = [bad(float(at), Kind.HANDOFF, "p1", "gave nothing to decode with", count=2) for at in range(0, 9, 3)]
EVENTS = [bad(-20, Kind.TRUST, "d3", "cache known approximate: lost_events")]
DAMAGED = [
    bad(-3, Kind.BLOCKS, "p0", "its blocks arrive damaged at d0: it is not used"),
    bad(-2, Kind.BLOCKS, "p0", "is not asked: its blocks arrive damaged", count=9),
]
WRONG = [
    bad(
        -3,
        Kind.HEALTH,
        "d0",
        "failed, was ready: said failed; the canary prompt got a wrong answer: 'x' instead of 'y'",
    ),
    bad(-1, Kind.PROCESS, "d0", "engine ended by signal 15"),
]
UNANSWERED = [bad(-3, Kind.HEALTH, "d0", "failed: said failed; the canary prompt got no answer in time")]
STORED = [bad(float(at), Kind.BLOCKS, "", "a stored block is corrupt: ssd") for at in range(3)]
ERRORS = [
    bad(2, Kind.ERRORS, "d1", "failed", count=12),
    bad(2, Kind.ERRORS, "d0", "failed", count=1),
    bad(3, Kind.HEALTH, "d1", "suspect, was ready: too many errors, or far slower than its peers"),
]
REFUSED = [bad(2, Kind.HEALTH, "d1", "suspect, was ready: request failed")]
LATE_TOO = [bad(4, Kind.SLOW, "d0", "far slower than predicted", times=3.5, peers=2), *SLOW]
DOUBTED_TOO = [bad(9, Kind.HEALTH, "d0", "suspect, was ready: no sign of work"), *STUCK]
AGENT = [
    bad(-1, Kind.PROCESS, "d0", "agent ended by signal 9"),
    bad(-1, Kind.HEALTH, "d0", "suspect, was ready: stream lost"),
]
ROUTER = [bad(-1, Kind.PROCESS, "router", "router ended by signal 9")]
UNREACHED = [
    bad(1, Kind.HEALTH, "d1", "suspect, was ready: stream lost"),
    bad(2, Kind.ERRORS, "d1", "failed", count=12),
    bad(20, Kind.HEALTH, "d1", "failed, was suspect: silent for too long"),
]
LEFT = [bad(-5, Kind.HEALTH, "d2", "failed, was draining: stream lost")]
STARTS = [Happening(T - 40, Kind.WORKERS, S, "d3", CAME_EARLY)]
STARTED = [*STARTS, Happening(T - 20, Kind.HEALTH, S, "d3", "ready, was starting: said ready")]
ROLLED = [Happening(T - 10, Kind.ROLLOUT, S, "d4", "revision r2 after r1"), *STARTS]
FEWER = [
    Happening(T - 12, Kind.PLAN, detail="decode from 3 to 1: little to do"),
    bad(-8, Kind.WORKERS, "d2", "went"),
]


@pytest.mark.parametrize(
    ("noise", "cause", "who"),
    [
        pytest.param(CRASH, Cause.ENGINE_CRASHED, "d0", id="crash, with failed hand-offs and lost events"),
        pytest.param(STUCK, Cause.ENGINE_STUCK, "d1", id="stuck, noticed late, restarted"),
        pytest.param(SLOW, Cause.SLOW, "d2", id="slow"),
        pytest.param(HANDOFF, Cause.HANDOFF, "p1", id="hand-offs"),
        pytest.param(EVENTS, Cause.EVENTS, "d3", id="events"),
        pytest.param(ERRORS, Cause.ERRORS, "d1", id="errors, of one worker above all"),
        pytest.param(REFUSED, Cause.ERRORS, "d1", id="requests not taken"),
        pytest.param(LATE_TOO, Cause.SLOW, "d2", id="slow, and another one a little late"),
        pytest.param(DOUBTED_TOO, Cause.ENGINE_STUCK, "d1", id="stuck, and another one doubted"),
        pytest.param(DAMAGED, Cause.DAMAGED, "p0", id="damaged blocks, of whoever sends them"),
        pytest.param(WRONG, Cause.DAMAGED, "d0", id="wrong answers, restarted for it"),
        pytest.param(UNANSWERED, Cause.ENGINE_STUCK, "d0", id="a canary without an answer"),
        pytest.param(STORED, Cause.STORED, "", id="damaged blocks of a store"),
        pytest.param([*STORED, *SLOW], Cause.SLOW, "d2", id="what is computed again does not hide a slow worker"),
        pytest.param(AGENT, Cause.AGENT_CRASHED, "d0", id="agent crash, with a lost stream"),
        pytest.param(ROUTER, Cause.PROCESS_CRASHED, "router", id="a process that is nobody's worker"),
        pytest.param(UNREACHED, Cause.UNREACHED, "d1", id="out of reach, with failed answers"),
        pytest.param(LEFT, Cause.UNKNOWN, "", id="who drained and went is not out of reach"),
        pytest.param(STARTS, Cause.STARTING, "d3", id="a worker that does not get ready"),
        pytest.param(STARTED, Cause.UNKNOWN, "", id="a worker that got ready"),
        pytest.param(ROLLED, Cause.ROLLOUT, "d4", id="a rollout, whose workers start"),
        pytest.param(FEWER, Cause.FEWER, "d2", id="scaled down"),
        pytest.param([*EVENTS, *SLOW], Cause.SLOW, "d2", id="missing events do not hide a slow worker"),
        pytest.param([], Cause.UNKNOWN, "", id="nothing"),
    ],
)
def test_a_breach_is_explained(noise: Sequence[Happening], cause: Cause, who: str) -> None:
    found = report([*AROUND, *noise], at=T, around_s=60)

    (explained,) = found.explained
    assert (explained.findings[0].cause, explained.findings[0].who) == (cause, who)
    assert (explained.breach.began, explained.breach.ended) == (T, T + 30)
    assert explained.breach.share == pytest.approx(0.5)


def test_more_requests_than_usual_that_wait_are_a_flood() -> None:
    flood = [*calm(-120, 0), *missed(0, 30, arrived=90, queued=40)]
    busy = [*calm(-120, 0), *missed(0, 30, arrived=90)]

    assert [report(it, at=T, around_s=60).explained[0].findings[0].cause for it in (flood, busy)] == [
        Cause.FLOOD,
        Cause.UNKNOWN,
    ]


def test_longer_prompts_are_a_flood_as_well() -> None:
    calmly = [load(float(at), tokens=1000) for at in range(-120, 0, 5)]
    longer = [*calmly, *missed(0, 30, tokens=9000, queued=3)]

    (finding,) = report(longer, at=T, around_s=60).explained[0].findings

    assert finding.why == "9,000 prompt tokens in 5 s where 1,000 were usual; 3 waited, 0 were refused"


@pytest.mark.parametrize(("peers", "first"), [(0, Cause.FLOOD), (2, Cause.SLOW)])
def test_a_worker_without_peers_is_not_blamed_for_a_flood(peers: int, first: Cause) -> None:
    flood = [*calm(-120, 0), *missed(0, 30, arrived=90, queued=40)]
    late = bad(2, Kind.SLOW, "d0", "far slower than predicted", times=4.0, peers=peers)

    found = report([*flood, late], at=T, around_s=60).explained[0].findings

    assert [it.cause for it in found] == sorted([Cause.FLOOD, Cause.SLOW], key=lambda it: it is not first)


def test_what_began_long_after_the_breach_is_not_its_first_cause() -> None:
    late = [bad(28, Kind.PROCESS, "d0", "engine exited with status 1")]
    flood = [*calm(-120, 0), *missed(0, 60, arrived=90, queued=40)]

    found = report([*flood, *late], at=T, around_s=60).explained[0].findings

    assert [it.cause for it in found] == [Cause.FLOOD, Cause.ENGINE_CRASHED]


def test_what_goes_wrong_without_a_breach_is_told_too() -> None:
    found = report([*calm(-120, 120), *CRASH], at=T, around_s=60)

    assert found.explained == ()
    assert found.suspects[0].cause is Cause.ENGINE_CRASHED


def test_another_services_troubles_explain_nothing() -> None:
    others = [Happening(it.at, it.kind, "default/other", it.worker, it.detail, bad=True) for it in CRASH]

    found = report([*AROUND, *others], at=T, around_s=60)

    assert found.explained[0].findings[0].cause is Cause.UNKNOWN


def test_what_several_processes_tell_is_told_once_and_their_loads_are_one() -> None:
    halves = [Happening(it.at, it.kind, it.service, numbers=it.numbers) for it in AROUND]
    found = report([*AROUND, *halves, *SLOW, *SLOW], at=T, around_s=60)

    assert len(found.timeline) == 1
    assert found.explained[0].breach.missed == 2 * 60


def test_breaches_apart_are_two_and_a_pause_does_not_split_one() -> None:
    apart = [*missed(0, 10), *calm(10, 60), *missed(60, 70)]
    paused = [*missed(0, 10), *calm(10, 20), *missed(20, 30)]

    assert [len(breaches(it)) for it in (apart, paused)] == [2, 1]


def test_a_tenth_may_be_missed() -> None:
    assert breaches([load(0.0, missed=2)]) == []
    assert len(breaches([load(0.0, missed=3)])) == 1


def happenings() -> st.SearchStrategy[Happening]:
    names = st.sampled_from(["count", "times", "met"])
    return st.builds(
        Happening,
        st.floats(0, 4e9).map(lambda it: round(it, 3)),
        st.sampled_from(Kind),
        st.text(max_size=8),
        st.text(max_size=8),
        st.text(max_size=30),
        bad=st.booleans(),
        numbers=st.dictionaries(names, st.floats(0, 1e6), max_size=3),
    )


@settings(max_examples=25)
@given(happenings())
def test_what_is_written_is_read_and_one_line(it: Happening) -> None:
    line = written(it)

    assert read(line) == it
    assert "\n" not in line


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '{"at":1}', '{"at":"x","kind":"load"}', '{"at":1,"kind":"x"}'])
def test_a_line_that_is_no_happening_is_none(line: str) -> None:
    assert read(line) is None


def everything() -> Iterator[list[Happening]]:
    yield from ([*AROUND, *noise] for noise in (CRASH, STUCK, SLOW, HANDOFF, EVENTS))


@settings(max_examples=25)
@given(st.sampled_from(list(everything())).flatmap(st.permutations))
def test_the_order_of_lines_does_not_matter(shuffled: list[Happening]) -> None:
    ordered = sorted(shuffled, key=lambda it: (it.at, it.kind, it.worker))

    assert report(shuffled, at=T, around_s=60).explained[0].findings[0].cause is (
        report(ordered, at=T, around_s=60).explained[0].findings[0].cause
    )
