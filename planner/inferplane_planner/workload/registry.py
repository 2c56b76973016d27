"""Workloads by name, each at a load: what `--workload NAME` means."""

from collections.abc import Callable, Mapping
from typing import Final

from inferplane_planner.workload.arrivals import Constant, Poisson, check_positive
from inferplane_planner.workload.errors import WorkloadError
from inferplane_planner.workload.lengths import Fixed, LogNormal
from inferplane_planner.workload.open_loop import Ends, OpenLoop
from inferplane_planner.workload.sessions import Sessions, Talk
from inferplane_planner.workload.shapes import FlashCrowd, SharedPrefix, Unshared
from inferplane_planner.workload.source import Workload

Maker = Callable[[float, int, Ends], Workload]
"""Requests (or, in a closed loop, sessions) per second, seed, end."""

_SAAS = SharedPrefix(groups=150, prefix=LogNormal(6000, 0.2), question=LogNormal(1200, 0.4))


def _saas(per_s: float, seed: int, ends: Ends) -> Workload:
    """Play customers with a long prompt each, and many users behind it."""
    return OpenLoop(Poisson(Constant(per_s)), _SAAS, LogNormal(400, 0.6), seed=seed, ends=ends)


def _code(per_s: float, seed: int, ends: Ends) -> Workload:
    """Play editors that send a file again and again with a little more in it, and want a few lines."""
    talk = Talk(
        turns=LogNormal(12, 0.6),
        question=LogNormal(180, 0.8),
        answer=LogNormal(24, 0.9),
        pause_s=4.0,
        system=LogNormal(3000, 0.5),
        systems=400,
        skew=0.8,
    )
    return Sessions(Poisson(Constant(per_s)), talk, seed=seed, ends=ends)


def _reasoning(per_s: float, seed: int, ends: Ends) -> Workload:
    """Play short questions that nobody else asks, and long answers."""
    return OpenLoop(Poisson(Constant(per_s)), Unshared(LogNormal(300, 0.6)), LogNormal(4000, 0.7), seed=seed, ends=ends)


def _agents(per_s: float, seed: int, ends: Ends) -> Workload:
    """Play agents that wait for tools between turns and fork now and then."""
    talk = Talk(
        turns=LogNormal(15, 0.7),
        question=LogNormal(700, 1.0),
        answer=LogNormal(150, 0.8),
        pause_s=8.0,
        system=LogNormal(4000, 0.3),
        systems=20,
        skew=1.0,
        fork=0.08,
    )
    return Sessions(Poisson(Constant(per_s)), talk, seed=seed, ends=ends)


def _crowd(per_s: float, seed: int, ends: Ends) -> Workload:
    """Play customers as in `saas`, and for five minutes half of the world with one document."""
    shape = FlashCrowd(_SAAS, hot_tokens=8000, share=0.5, begin_s=600.0, end_s=900.0)
    return OpenLoop(Poisson(Constant(per_s)), shape, LogNormal(300, 0.6), seed=seed, ends=ends)


def _shift(per_s: float, seed: int, ends: Ends) -> Workload:
    """Play customers of whom few are busy at a time, and every ten minutes they are others."""
    shape = SharedPrefix(groups=500, prefix=Fixed(4096), question=LogNormal(400, 0.5), skew=1.1, shift_s=600.0)
    return OpenLoop(Poisson(Constant(per_s)), shape, LogNormal(250, 0.6), seed=seed, ends=ends)


WORKLOADS: Final[Mapping[str, Maker]] = {
    "saas": _saas,
    "code": _code,
    "reasoning": _reasoning,
    "agents": _agents,
    "flash-crowd": _crowd,
    "zipf-shift": _shift,
}


def workload(name: str, per_s: float, *, seed: int, ends: Ends | None = None) -> Workload:
    """Make a workload by name.  Raises WorkloadError."""
    check_positive("rate", per_s)
    maker = WORKLOADS.get(name)
    if maker is None:
        raise WorkloadError("workload", f"{name!r} is unknown", f"use one of {', '.join(WORKLOADS)}")
    return maker(per_s, seed, ends or Ends())
