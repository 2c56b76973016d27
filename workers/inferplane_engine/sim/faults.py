"""Seeded failures, chosen by value: what goes wrong, how often, from when on.

The problem: every failure that a fleet shows once a month must be had on demand, and again in the same order.
The idea: a fault is a value; a `FaultPlan` draws from one seeded generator each time an opportunity arises (a step, a
request, an event batch, a transfer).  A fault without a probability happens once, at its time or at its nth request.
The invariant: without faults nothing is drawn, and damage to contents is a function of seed and content alone, so it
does not depend on batching.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import cast

import orjson

from inferplane_api.sim_faults import SimFaultKind
from inferplane_engine.sim.cache import Contents
from inferplane_engine.sim.sequence import Damage


@dataclass(frozen=True, slots=True)
class Fault:
    kind: SimFaultKind
    probability: float = 0.0
    """Chance per opportunity; 0: once, at `after_s` or at request `at_request`."""
    after_s: float = 0.0
    """Engine time before which it does not happen."""
    duration_s: float = 0.0
    """How long a hang, slowness or stall lasts; 0: for ever."""
    factor: float = 1.0
    """How many times slower."""
    at_request: int | None = None
    """The nth request that is taken, from 1."""
    status: int = 500


_NUMBERS = {"probability", "after_s", "duration_s", "factor"}
_WHOLE = {"at_request", "status"}


def parse_fault(text: str) -> Fault:
    """Read one fault from JSON; the error names the field."""
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"a fault is a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(  # noqa: TRY004  one kind of error for whatever is wrong with the text
            'a fault is a JSON object such as {"kind": "crash", "at_request": 3}'
        )
    given = cast("dict[str, object]", value)
    known = [field.name for field in fields(Fault)]
    for name, entry in given.items():
        if name not in known:
            raise ValueError(f"{name}: unknown field of a fault; known: {', '.join(known)}")
        if name in _NUMBERS and (isinstance(entry, bool) or not isinstance(entry, int | float) or entry < 0):
            raise ValueError(f"{name}: a number of at least 0, not {entry!r}")
        if name in _WHOLE and entry is not None and (isinstance(entry, bool) or not isinstance(entry, int)):
            raise ValueError(f"{name}: a whole number, not {entry!r}")
    kind = given.pop("kind", None)
    try:
        fault = Fault(SimFaultKind(str(kind)), **given)  # type: ignore[arg-type]  # checked field by field above
    except ValueError:
        raise ValueError(f"kind: one of {', '.join(SimFaultKind)}, not {kind!r}") from None
    if fault.probability > 1:
        raise ValueError(f"probability: 0 to 1, not {fault.probability}")
    if fault.factor <= 0:
        raise ValueError("factor: more than 0")
    return fault


class SeededDamage(Damage):
    """Changes a share of the contents written while it is `active`."""

    def __init__(self, seed: int, probability: float) -> None:
        self._seed = seed
        self._below = int(probability * (1 << 32))
        self.active = True

    def __call__(self, content: int) -> int:
        drawn = (content ^ (self._seed * 0x9E3779B97F4A7C15)) * 0xD6E8FEB86659FD93 & (1 << 64) - 1
        return content ^ 1 if self.active and drawn >> 32 < self._below else content


class FaultPlan:
    """Decides, opportunity by opportunity."""

    def __init__(self, faults: Sequence[Fault], seed: int) -> None:
        self._faults = tuple(faults)
        self._rng = Random(seed)  # noqa: S311  reproducible, not secret
        self._once: set[int] = set()
        corrupt = self.named(SimFaultKind.CORRUPT_KV)
        self.damage = SeededDamage(seed, max((fault.probability or 1.0 for fault in corrupt), default=0.0))
        self._damage_after = min((fault.after_s for fault in corrupt), default=math.inf)
        self.damage.active = self._damage_after <= 0

    def named(self, kind: SimFaultKind) -> list[Fault]:
        return [fault for fault in self._faults if fault.kind is kind]

    def tick(self, now: float) -> None:
        """Time has come to `now`: damage may begin."""
        self.damage.active = now >= self._damage_after

    def on_steps(self, steps: int, now: float) -> list[Fault]:
        """Crash, hang and slowness after `steps` more steps."""
        kinds = (SimFaultKind.CRASH, SimFaultKind.HANG, SimFaultKind.SLOW)
        return [fault for index, fault in self._candidates(kinds, now) if self._happens(index, fault, steps)]

    def on_request(self, number: int, now: float) -> list[Fault]:
        """Return what the nth request meets."""
        met: list[Fault] = []
        for fault in self._faults:
            if fault.at_request is not None:
                hit = fault.at_request == number
            else:
                hit = fault.kind in (SimFaultKind.REFUSE, SimFaultKind.ERROR) and self._draw(fault.probability)
            if hit and now >= fault.after_s:
                met.append(fault)
        return met

    def chance(self, kind: SimFaultKind, now: float) -> bool:
        """One opportunity for an event batch or a transfer."""
        return any(self._happens(index, fault, 1) for index, fault in self._candidates((kind,), now))

    def corrupt(self, contents: Contents, now: float) -> Contents:
        """Return what a transfer delivers."""
        if not self.chance(SimFaultKind.CORRUPT_TRANSFER, now):
            return contents
        victim = self._rng.randrange(len(contents[0]))
        return (tuple(value ^ (index == victim) for index, value in enumerate(contents[0])), *contents[1:])

    def _candidates(self, kinds: tuple[SimFaultKind, ...], now: float) -> list[tuple[int, Fault]]:
        return [
            (index, fault)
            for index, fault in enumerate(self._faults)
            if fault.kind in kinds and fault.at_request is None and now >= fault.after_s
        ]

    def _happens(self, index: int, fault: Fault, opportunities: int) -> bool:
        if fault.probability:
            return self._draw(1.0 - (1.0 - fault.probability) ** opportunities)
        if index in self._once:
            return False
        self._once.add(index)
        return True

    def _draw(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability
