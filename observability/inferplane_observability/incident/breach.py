"""When a service missed its objective: from the first bad sample to the last.

A sample of load has the numbers `met`, `missed`, `arrived`, `refused`, `tokens` (since the sample before), and
`queued`, `in_flight` (at its moment).  Samples of several router processes are added up by time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from inferplane_observability.incident.happening import Happening, Kind

STEP_S: Final = 5.0
_BAD_SHARE: Final = 0.1
GAP_S: Final = 30.0
"""Bad samples this close are one breach."""


@dataclass(frozen=True, slots=True)
class Load:
    """What was counted in one step."""

    at: float
    met: float = 0.0
    missed: float = 0.0
    arrived: float = 0.0
    tokens: float = 0.0
    """Of all prompts that came."""
    refused: float = 0.0
    queued: float = 0.0
    in_flight: float = 0.0

    @property
    def bad(self) -> bool:
        """A tenth of what was judged was missed; `missed` counts refusals of streams too."""
        return self.missed > _BAD_SHARE * (self.met + self.missed)


@dataclass(frozen=True, slots=True)
class Breach:
    """One stretch in which the objective was missed."""

    service: str
    began: float
    ended: float
    met: int
    missed: int

    @property
    def share(self) -> float:
        return self.missed / (self.met + self.missed)


def loads(happenings: Iterable[Happening], service: str) -> list[Load]:
    """Add samples of one service up by steps, in order of time."""
    samples = [it for it in happenings if it.kind is Kind.LOAD and it.service == service]
    samples.sort(key=_step)
    return [_sum(step, list(each)) for step, each in groupby(samples, key=_step)]


def breaches(happenings: Sequence[Happening]) -> list[Breach]:
    """Return every breach of every service, in order of time."""
    services = sorted({it.service for it in happenings if it.kind is Kind.LOAD})
    found = [breach for service in services for breach in stretches(service, loads(happenings, service))]
    return sorted(found, key=lambda it: it.began)


def stretches(service: str, steps: Sequence[Load]) -> Iterator[Breach]:
    """Yield the breaches of one service, oldest first."""
    bad: list[Load] = []
    for step in (it for it in steps if it.bad):
        if bad and step.at - bad[-1].at > GAP_S:
            yield _breach(service, bad, steps)
            bad = []
        bad.append(step)
    if bad:
        yield _breach(service, bad, steps)


def _breach(service: str, bad: Sequence[Load], steps: Sequence[Load]) -> Breach:
    began, ended = bad[0].at, bad[-1].at + STEP_S
    inside = [it for it in steps if began <= it.at < ended]
    return Breach(service, began, ended, int(sum(it.met for it in inside)), int(sum(it.missed for it in inside)))


def _step(it: Happening) -> float:
    return it.at // STEP_S * STEP_S


def _sum(step: float, samples: Sequence[Happening]) -> Load:
    def total(name: str) -> float:
        return sum(it.number(name) for it in samples)

    return Load(
        step,
        met=total("met"),
        missed=total("missed"),
        arrived=total("arrived"),
        tokens=total("tokens"),
        refused=total("refused"),
        queued=total("queued"),
        in_flight=total("in_flight"),
    )
