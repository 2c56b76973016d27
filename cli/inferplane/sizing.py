"""What `plan` says: a sizing in words, rows and JSON, and how a simulation of it came out.  Pure."""

import math
from dataclasses import dataclass
from typing import Any

from inferplane.table import Table
from inferplane_planner.core.contract import Spec
from inferplane_planner.core.engine_model import CALIBRATED
from inferplane_planner.core.predict import Candidate
from inferplane_planner.core.sizing import STATED_ERROR, STATED_USE, Expected, Range, Sizing
from inferplane_simulator import Outcome
from inferplane_simulator.load import Load


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """One way to serve a load: the pools of the file, or aggregated workers alone."""

    name: str
    spec: Spec
    load: Load
    """With the hits that this shape is taken to have."""
    sizing: Sizing
    played: Outcome | None = None
    """How a simulation of it came out; None: none was asked for."""

    @property
    def held(self) -> bool:
        """Whether as many requests kept both limits in the simulation as the objective wants."""
        return self.played is None or self.played.attainment >= self.spec.objective.percentile


def load_line(named: str, load: Load) -> str:
    demand = load.demand
    return (
        f"load: {named}: {demand.rate_per_s:.3g} requests/s at the busiest, {load.mean_per_s:.3g} on average "
        f"({load.requests} requests in {load.seconds:.0f} s); "
        f"prompts of {demand.prompt.mean():.0f} tokens, answers of {demand.output.mean():.0f}"
    )


def objective_line(spec: Spec) -> str:
    wanted = spec.objective
    return (
        f"objective: TTFT {_time(wanted.ttft_s)}, TPOT {_time(wanted.tpot_s)}, for {wanted.percentile:.4g} of requests"
    )


def shapes_table(shapes: list[Shape]) -> Table:
    heads = ("shape", "workers", "devices", "cost/h", "cached", "verdict", "with room")
    rows = [
        [
            each.name,
            str(each.sizing.candidate),
            str(each.sizing.devices),
            f"{each.sizing.cost_per_hour:.4g}",
            f"{each.load.cached_share:.0%}",
            each.sizing.verdict.value,
            str(each.sizing.spare or "beyond the limits"),
        ]
        for each in shapes
    ]
    return Table(heads, rows, frozenset({2, 3, 4}))


def expected_table(shape: Shape) -> Table:
    """Set what is expected at each percentile beside what was simulated."""
    heads = ("at", "ttft", "within", "tpot", "within", *(("ttft simulated", "tpot simulated") if shape.played else ()))
    return Table(heads, [_row(each, shape.played) for each in shape.sizing.expected], frozenset(range(1, len(heads))))


def _row(expected: Expected, played: Outcome | None) -> list[str]:
    name = f"p{expected.percentile * 100:.3g}"
    row = [name, *_cells(expected.ttft), *_cells(expected.tpot)]
    if played is not None:
        row += [_time(getattr(played.ttft, name)), _time(getattr(played.tpot, name))]
    return row


def _cells(found: Range) -> list[str]:
    return [_time(found.expected_s), f"{_time(found.low_s)} to {_time(found.high_s)}"]


def error_line(shape: Shape) -> str:
    deviation = shape.spec.prior.deviation
    engines = (
        "the engines' times are calibrated"
        if deviation <= CALIBRATED
        else f"the engines' times are a table's, and may be {deviation:.0%} off: measure one and give --calibration"
    )
    beyond = f"; above {STATED_USE:.0%} of capacity it may be more" if shape.sizing.use > STATED_USE else ""
    return f"doubt: {STATED_ERROR:.0%} of the queueing estimate{beyond}; {engines}"


def played_line(shape: Shape) -> str:
    """Tell how the simulation came out.  Needs one."""
    played = shape.played
    if played is None:
        return ""
    verdict = "kept" if shape.held else "missed"
    return (
        f"simulated: {played.attainment:.1%} of {played.requests} requests within both limits, the objective is "
        f"{verdict}; {played.hit_rate:.0%} of prompt tokens cached, of {played.ideal_hit_rate:.0%} that could be"
    )


def document(named: str, load: Load, shapes: list[Shape]) -> dict[str, Any]:
    demand = load.demand
    return {
        "load": {
            "source": named,
            "ratePerSecond": demand.rate_per_s,
            "meanPerSecond": load.mean_per_s,
            "burst": load.burst,
            "requests": load.requests,
            "seconds": load.seconds,
            "promptTokens": float(demand.prompt.mean()),
            "outputTokens": float(demand.output.mean()),
        },
        "plans": [_plan(each) for each in shapes],
    }


def _plan(shape: Shape) -> dict[str, Any]:
    sizing = shape.sizing
    value: dict[str, Any] = {
        "shape": shape.name,
        **_workers(sizing.candidate),
        "cachedShare": shape.load.cached_share,
        "devices": sizing.devices,
        "costPerHour": sizing.cost_per_hour,
        "verdict": sizing.verdict.value,
        "reason": sizing.reason,
        "ttftAttainment": sizing.attainment,
        "use": _number(sizing.use),
        "expected": [
            {"percentile": each.percentile * 100, "ttft": _range(each.ttft), "tpot": _range(each.tpot)}
            for each in sizing.expected
        ],
        "idle": {"ttft": _number(sizing.idle.ttft_s), "tpot": _number(sizing.idle.tpot_s)},
        "withRoom": sizing.spare and _workers(sizing.spare),
        "wouldTake": sizing.would_take and _workers(sizing.would_take),
    }
    return value if shape.played is None else {**value, "simulated": shape.played.document(), "held": shape.held}


def _workers(candidate: Candidate) -> dict[str, int]:
    return {"prefill": candidate.prefill, "decode": candidate.decode}


def _range(found: Range) -> dict[str, float | None]:
    return {"expected": _number(found.expected_s), "low": _number(found.low_s), "high": _number(found.high_s)}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return ""
    if math.isinf(seconds):
        return "no end"
    return f"{seconds:.2f}s" if seconds >= 1.0 else f"{seconds * 1000:.3g}ms"
