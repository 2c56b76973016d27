"""Scalers to compare the planner with, after the descriptions of other projects, with their defaults.

Each sees what its original sees (metrics of engines, or arrivals and answers), and is given targets that are right for
the engines and the lengths at hand.  All have the same bounds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from inferplane_api.catalogue import WorkerRole
from inferplane_planner.core.predict import Pair
from inferplane_planner.core.solve import Objective
from inferplane_simulator.scalers import band, panic_window, queue_length, saturation
from inferplane_simulator.scalers.by_role import ByRole, Span
from inferplane_simulator.scalers.capacity import Capacity
from inferplane_simulator.scalers.static import Static
from inferplane_simulator.scalers.throughput import Throughput
from inferplane_simulator.scaling import Scaler

__all__ = ["SCALERS", "Setting"]

_LOADED: Final = 0.7
"""Share of what a worker carries that is aimed at: Knative's default, room for the next one to start."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What scalers are made for."""

    pair: Pair
    objective: Objective
    span: Span
    carries: Mapping[WorkerRole, Capacity]
    """One worker's capacity, for the lengths of the workload."""
    peak: Mapping[WorkerRole, int]
    """Workers that the peak takes."""

    def target(self, role: WorkerRole) -> float:
        return max(1.0, _LOADED * self.carries[role].concurrency)


def _static(setting: Setting) -> Scaler:
    return Static(setting.peak)


def _queue(setting: Setting) -> Scaler:
    return ByRole(queue_length.PERIOD_S, setting.span, lambda _: queue_length.QueueLength())


def _kpa(setting: Setting) -> Scaler:
    rule = panic_window.PanicWindow
    return ByRole(panic_window.PERIOD_S, setting.span, lambda role: rule(setting.target(role)))


def _apa(setting: Setting) -> Scaler:
    return ByRole(band.PERIOD_S, setting.span, lambda role: band.Band(setting.target(role)))


def _wva(setting: Setting) -> Scaler:
    return ByRole(saturation.PERIOD_S, setting.span, lambda _: saturation.Saturation())


def _throughput(setting: Setting) -> Scaler:
    return Throughput(setting.pair, setting.objective, setting.span)


SCALERS: Final = MappingProxyType[str, Callable[[Setting], Scaler]](
    {
        "static": _static,
        "hpa-queue": _queue,
        "kpa": _kpa,
        "apa": _apa,
        "wva": _wva,
        "throughput": _throughput,
    }
)
