"""The likely cause of a breach: one rule for each thing that goes wrong, the most direct first.

Where several workers are named, the word of those who know counts before a router's doubt, and what is far less than
the worst is left out: on a busy machine everybody is a little late.
A crash makes hand-offs fail, events stop and queues grow; so whoever explains the others goes first, and before it
whatever began before the breach or right after.  What is left over is named as well: two things may go wrong at once.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from inferplane_observability.incident.breach import Breach, Load, loads
from inferplane_observability.incident.happening import CAME_EARLY, Happening, Kind

BEFORE_S: Final = 120.0
"""A cause is looked for this long before its breach."""
AFTER_S: Final = 15.0
"""What is noticed late: agents and breakers wait before they believe."""
_HANGS: Final = ("hang", "no answer in time", "no sign of work")
"""An agent's words, and a router's doubt: see `_first_said`."""
_DAMAGED: Final = ("damaged", "wrong answer")
_STORED: Final = ("stored block is corrupt",)
_UNREACHED: Final = ("stream lost", "silent for too long")
_LEAVING: Final = "was draining"
"""Who goes as it was told to is not out of reach."""
_STARTS_S: Final = 30.0
"""Who came this long ago and has not been ready since still starts."""
_MORE: Final = 1.5
"""Times as much as before is a flood."""
_LEAST: Final = {"requests": 10.0, "prompt tokens": 2000.0}
"""Less than this in five seconds is none, whatever was usual."""
_FEW: Final = 3
_ANEW: Final = "ended and had to start anew"
_NEAR_WORST: Final = 0.5
"""Who has less than this share of what the worst has is not named beside it."""


class Cause(StrEnum):
    ENGINE_STUCK = "engine stuck"
    DAMAGED = "wrong contents"
    ENGINE_CRASHED = "engine crashed"
    AGENT_CRASHED = "agent crashed"
    PROCESS_CRASHED = "process crashed"
    UNREACHED = "worker out of reach"
    HANDOFF = "hand-offs fail"
    ERRORS = "answers fail"
    SLOW = "worker slow"
    FLOOD = "more requests than capacity"
    FEWER = "fewer workers"
    ROLLOUT = "rollout"
    STARTING = "workers still start"
    STORED = "stored blocks damaged"
    EVENTS = "block events missing"
    UNKNOWN = "unexplained"


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause and why it is thought to be one."""

    cause: Cause
    who: str
    """Worker, or workers; empty: nobody alone."""
    why: str
    since: float
    evidence: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """What a rule looks at: what happened in the window of one breach, and its load before and during it."""

    happenings: Sequence[Happening]
    before: Sequence[Load]
    during: Sequence[Load]
    ended: float
    """When the breach did."""

    def of(self, *kinds: Kind) -> list[Happening]:
        return [it for it in self.happenings if it.kind in kinds and it.bad]


Rule = Callable[[Scene], Finding | None]


def findings(happenings: Sequence[Happening], breach: Breach) -> list[Finding]:
    """Return what explains a breach, the likeliest first; never nothing."""
    scene = _scene(happenings, breach)
    found = [finding for rule in RULES if (finding := rule(scene)) is not None]
    found.sort(key=lambda it: it.since > breach.began + AFTER_S)
    if not found and (doubted := _refused(scene)) is not None:
        return [doubted]
    return found or [Finding(Cause.UNKNOWN, "", "nothing that was recorded explains it", breach.began)]


def _scene(happenings: Sequence[Happening], breach: Breach) -> Scene:
    low, high = breach.began - BEFORE_S, breach.ended + AFTER_S
    near = [it for it in happenings if low <= it.at <= high and it.service in {breach.service, ""}]
    steps = loads(happenings, breach.service)
    return Scene(
        sorted(near, key=lambda it: it.at),
        [it for it in steps if low <= it.at < breach.began],
        [it for it in steps if breach.began <= it.at < breach.ended],
        breach.ended,
    )


def _stuck(scene: Scene) -> Finding | None:
    found = _first_said(scene.of(Kind.ENGINE, Kind.HEALTH), _HANGS)
    return _finding(Cause.ENGINE_STUCK, found, "took requests and did no work")


def _damaged(scene: Scene) -> Finding | None:
    found = [it for it in scene.of(Kind.ENGINE, Kind.HEALTH, Kind.BLOCKS) if _says(it, _DAMAGED)]
    return _finding(Cause.DAMAGED, found, "gave contents that are not what they should be")


def _crashed(scene: Scene) -> Finding | None:
    found = [it for it in scene.of(Kind.ENGINE) if not _says(it, (*_HANGS, *_DAMAGED))]
    found += [it for it in scene.of(Kind.PROCESS) if it.detail.startswith("engine ")]
    found += [it for it in scene.of(Kind.HEALTH) if _says(it, ("is gone", "started anew"))]
    return _finding(Cause.ENGINE_CRASHED, found, _ANEW)


def _agent(scene: Scene) -> Finding | None:
    found = [it for it in scene.of(Kind.PROCESS) if it.detail.startswith("agent ")]
    return _finding(Cause.AGENT_CRASHED, found, f"lost its agent, which {_ANEW}")


def _process(scene: Scene) -> Finding | None:
    found = [it for it in scene.of(Kind.PROCESS) if not it.detail.startswith(("engine ", "agent "))]
    return _finding(Cause.PROCESS_CRASHED, found, _ANEW)


def _unreached(scene: Scene) -> Finding | None:
    found = [it for it in scene.of(Kind.HEALTH) if _says(it, _UNREACHED) and _LEAVING not in it.detail]
    return _finding(Cause.UNREACHED, found, "was not heard of any more: its Pod, its node or the network")


def _handoffs(scene: Scene) -> Finding | None:
    found = _worst(scene.of(Kind.HANDOFF), "count")
    failed = sum(it.number("count") for it in found)
    if failed < _FEW:
        return None
    return _finding(Cause.HANDOFF, found, f"gave nothing to decode with, {failed:.0f} times")


def _erred(scene: Scene) -> Finding | None:
    found = _worst(scene.of(Kind.ERRORS), "count")
    failed = sum(it.number("count") for it in found)
    return _finding(Cause.ERRORS, found, f"failed {failed:.0f} requests") if failed >= _FEW else None


def _refused(scene: Scene) -> Finding | None:
    """Take a router's doubt, which follows whatever is wrong with a worker, for want of anything better."""
    found = [it for it in scene.of(Kind.HEALTH) if _says(it, ("request failed",))]
    return _finding(Cause.ERRORS, found, "did not take requests")


def _slow(scene: Scene) -> Finding | None:
    # A breaker's word is of errors or slowness: of errors there are numbers, which `_erred` has read.
    doubted = [] if scene.of(Kind.ERRORS) else _first_said(scene.of(Kind.HEALTH), ("far slower",))
    compared = [it for it in scene.of(Kind.SLOW) if it.number("peers")]
    return _far_behind(_worst(compared, "times") or doubted)


def _slow_alone(scene: Scene) -> Finding | None:
    """Take who has no peers to be held against: under a flood whoever is alone is late as well."""
    return _far_behind(_worst([it for it in scene.of(Kind.SLOW) if not it.number("peers")], "times"))


def _far_behind(found: Sequence[Happening]) -> Finding | None:
    times = max((it.number("times") for it in found), default=0.0)
    return _finding(Cause.SLOW, found, f"took {times:.0f} times what was predicted" if times else "fell far behind")


def _flood(scene: Scene) -> Finding | None:
    waited = max((it.queued for it in scene.during), default=0.0)
    refused = sum(it.refused for it in scene.during)
    more = [text for name in ("requests", "prompt tokens") if (text := _grown(scene, name))]
    if not scene.before or not more or not (waited or refused):
        return None
    why = f"{' and '.join(more)}; {waited:.0f} waited, {refused:.0f} were refused"
    return Finding(Cause.FLOOD, "", why, scene.during[0].at)


def _grown(scene: Scene, name: str) -> str:
    """Say how much more came in five seconds than was usual; nothing where it was not much more."""
    field = operator.attrgetter("arrived" if name == "requests" else "tokens")
    usual = sum(map(field, scene.before)) / max(1, len(scene.before))
    now = max(map(field, scene.during), default=0.0)
    return f"{now:,.0f} {name} in 5 s where {usual:,.0f} were usual" if now >= max(_MORE * usual, _LEAST[name]) else ""


def _fewer(scene: Scene) -> Finding | None:
    went = scene.of(Kind.WORKERS)
    plans = [it for it in scene.happenings if it.kind is Kind.PLAN]
    why = "went" + (f" after the plan: {plans[-1].detail}" if plans else "")
    return _finding(Cause.FEWER, went, why)


def _rollout(scene: Scene) -> Finding | None:
    found = [it for it in scene.happenings if it.kind is Kind.ROLLOUT]
    return _finding(Cause.ROLLOUT, found, "workers were being replaced")


def _starting(scene: Scene) -> Finding | None:
    """Take who came long before the breach ended and is not ready: capacity that is there only on paper."""
    came = [it for it in scene.happenings if it.detail == CAME_EARLY and it.at < scene.ended - _STARTS_S]
    return _finding(Cause.STARTING, [it for it in came if not _ready_after(scene, it)], "came and is not ready yet")


def _ready_after(scene: Scene, came: Happening) -> bool:
    later = (it for it in scene.happenings if it.worker == came.worker and it.at >= came.at)
    return any(it.kind is Kind.HEALTH and it.detail.startswith("ready") for it in later)


def _stored(scene: Scene) -> Finding | None:
    """No answer is wrong because of such a block; it is computed again, and that takes time."""
    found = [it for it in scene.of(Kind.BLOCKS) if _says(it, _STORED)]
    return _finding(Cause.STORED, found, f"{len(found)} times a block of the KV store did not match its checksum")


def _events(scene: Scene) -> Finding | None:
    found = [it for it in scene.of(Kind.TRUST, Kind.BLOCKS) if not _says(it, (*_DAMAGED, *_STORED))]
    return _finding(Cause.EVENTS, found, "is routed to without knowing its cache")


RULES: Final[tuple[Rule, ...]] = (
    _stuck,
    _damaged,
    _crashed,
    _agent,
    _process,
    _unreached,
    _handoffs,
    _erred,
    _slow,
    _flood,
    _slow_alone,
    _rollout,
    _fewer,
    _starting,
    _stored,
    _events,
)


def _finding(cause: Cause, found: Sequence[Happening], why: str) -> Finding | None:
    if not found:
        return None
    who = ", ".join(dict.fromkeys(it.worker for it in found if it.worker))
    return Finding(cause, who, f"{who} {why}".strip(), min(it.at for it in found), tuple(found))


def _first_said(found: Sequence[Happening], words: Iterable[str]) -> list[Happening]:
    """Return what says the first of these words that anything says."""
    said = ([it for it in found if word in it.detail] for word in words)
    return next(filter(None, said), list[Happening]())


def _worst(found: Sequence[Happening], name: str) -> list[Happening]:
    """Return what is of workers that have about as much of a number as the one that has most."""
    totals: dict[str, float] = {}
    for it in found:
        totals[it.worker] = totals.get(it.worker, 0.0) + it.number(name)
    least = max(totals.values(), default=0) * _NEAR_WORST
    return [it for it in found if totals[it.worker] >= least]


def _says(it: Happening, words: Iterable[str]) -> bool:
    return any(word in it.detail for word in words)
