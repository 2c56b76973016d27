"""What a run came to: a value that can be written down and compared."""

import math
from dataclasses import asdict, dataclass
from typing import Any, cast

from inferplane_simulator.histogram import Histogram
from inferplane_simulator.journey import End
from inferplane_simulator.measures import Measures


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds; NaN where nothing was measured."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float

    @classmethod
    def of(cls, histogram: Histogram) -> "Percentiles":
        return cls(histogram.mean, *(histogram.percentile(share) for share in (0.5, 0.9, 0.95, 0.99)))


@dataclass(frozen=True, slots=True)
class Track:
    """One quantity over time: a value for each interval."""

    width_s: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rates are per second of arrivals, shares 0 to 1; whoever got no complete answer missed the SLO."""

    policy: str
    seed: int
    requests: int
    rate_per_s: float
    attainment: float
    """Share of all requests that kept both limits."""
    attainment_ttft: float
    attainment_tpot: float
    goodput_per_s: float
    ttft: Percentiles
    tpot: Percentiles
    e2e: Percentiles
    hit_rate: float
    """Prompt tokens of complete answers that came from a cache, as a share."""
    ideal_hit_rate: float
    output_tokens_per_s: float
    gpu_hours: float
    scale_events: int
    retried: int
    ended: dict[str, int]
    seconds: float
    """Simulated time."""
    steps: int
    """Steps that engines computed."""
    ideal_forgot: bool
    tracks: dict[str, Track]

    @property
    def hit_share(self) -> float:
        """What was hit of what a cache without end would have hit; 1 where there was nothing to hit."""
        return self.hit_rate / self.ideal_hit_rate if self.ideal_hit_rate > 0 else 1.0

    def document(self) -> dict[str, Any]:
        """Return the same as plain values; what is not a number is None."""
        value: dict[str, Any] = _plain(asdict(self))
        value["hit_share"] = self.hit_share
        return value


@dataclass(frozen=True, slots=True)
class Frame:
    """What an outcome says beside its measures."""

    policy: str
    seed: int
    seconds: float
    arrivals_s: float
    """Time in which counted requests arrived."""
    steps: int
    scale_events: int
    ideal_forgot: bool


def outcome_of(measures: Measures, frame: Frame) -> Outcome:
    arrived, seconds = max(1, measures.arrived), max(1e-9, frame.arrivals_s)
    prompt = max(1, measures.prompt_tokens)
    return Outcome(
        policy=frame.policy,
        seed=frame.seed,
        requests=measures.arrived,
        rate_per_s=measures.arrived / seconds,
        attainment=measures.met / arrived,
        attainment_ttft=measures.met_ttft / arrived,
        attainment_tpot=measures.met_tpot / arrived,
        goodput_per_s=measures.met / seconds,
        ttft=Percentiles.of(measures.ttft),
        tpot=Percentiles.of(measures.tpot),
        e2e=Percentiles.of(measures.e2e),
        hit_rate=measures.cached_tokens / prompt,
        ideal_hit_rate=measures.ideal_tokens / prompt,
        output_tokens_per_s=measures.output_tokens / seconds,
        gpu_hours=measures.device_s / 3600.0,
        scale_events=frame.scale_events,
        retried=measures.retried,
        ended={end.value: measures.ends[end] for end in End},
        seconds=frame.seconds,
        steps=frame.steps,
        ideal_forgot=frame.ideal_forgot,
        tracks=_tracks(measures),
    )


def _tracks(measures: Measures) -> dict[str, Track]:
    line = measures.timeline

    def ratio(above: str, below: str) -> Track:
        pairs = zip(line.values(above), line.values(below), strict=True)
        return Track(line.width_s, tuple(one / other if other else math.nan for one, other in pairs))

    rate = Track(line.width_s, tuple(count / line.width_s for count in line.values("arrived")))
    return {
        "rate_per_s": rate,
        "attainment": ratio("met", "arrived"),
        "ttft_s": ratio("ttft_s", "answered"),
        "hit_rate": ratio("cached_tokens", "prompt_tokens"),
        "devices": ratio("devices", "looks"),
        "in_flight": ratio("in_flight", "looks"),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("list[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
