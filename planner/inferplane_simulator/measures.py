"""What is measured of a run while it goes, in a fixed amount of memory."""

from dataclasses import dataclass, field

from inferplane_simulator.histogram import Histogram
from inferplane_simulator.journey import End, Journey
from inferplane_simulator.scenario import Slo
from inferplane_simulator.timeline import Timeline

TRACKS = ("arrived", "met", "ttft_s", "answered", "prompt_tokens", "cached_tokens", "devices", "in_flight", "looks")
"""Sums that are kept over time; `devices` and `in_flight` are divided by `looks`, `ttft_s` by `answered`."""


@dataclass(slots=True)
class Measures:
    """Requests that arrive before `warm_up_s` count for nothing."""

    slo: Slo
    warm_up_s: float = 0.0
    arrived: int = 0
    ends: dict[End, int] = field(default_factory=lambda: dict.fromkeys(End, 0))
    met: int = 0
    met_ttft: int = 0
    met_tpot: int = 0
    ttft: Histogram = field(default_factory=Histogram)
    tpot: Histogram = field(default_factory=Histogram)
    e2e: Histogram = field(default_factory=Histogram)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    ideal_tokens: int = 0
    output_tokens: int = 0
    device_s: float = 0.0
    retried: int = 0
    timeline: Timeline = field(default_factory=lambda: Timeline(TRACKS))

    def counts(self, journey: Journey) -> bool:
        return journey.request.at_s >= self.warm_up_s

    def begin(self, journey: Journey) -> None:
        if self.counts(journey):
            self.arrived += 1
            self.timeline.add("arrived", journey.request.at_s)

    def end(self, journey: Journey, how: End) -> None:
        """Count a request that got no complete answer."""
        if self.counts(journey):
            self.ends[how] += 1

    def answered(self, journey: Journey, at_s: float, output_tokens: int) -> None:
        """Count a complete answer, whose last token the client had at `at_s`."""
        if not self.counts(journey):
            return
        begun_s = journey.request.at_s
        ttft_s = journey.first_token_s - begun_s
        tpot_s = (at_s - journey.first_token_s) / (output_tokens - 1) if output_tokens > 1 else 0.0
        self._count_times(begun_s, ttft_s, tpot_s, many=output_tokens > 1)
        self.e2e.add(at_s - begun_s)
        self.prompt_tokens += journey.prompt_tokens
        self.cached_tokens += journey.cached_tokens
        self.ideal_tokens += journey.ideal_tokens
        self.output_tokens += output_tokens
        self.timeline.add("prompt_tokens", begun_s, journey.prompt_tokens)
        self.timeline.add("cached_tokens", begun_s, journey.cached_tokens)

    def _count_times(self, begun_s: float, ttft_s: float, tpot_s: float, *, many: bool) -> None:
        self.ends[End.ANSWERED] += 1
        self.ttft.add(ttft_s)
        if many:
            self.tpot.add(tpot_s)
        in_time, at_pace = ttft_s <= self.slo.ttft_s, tpot_s <= self.slo.tpot_s
        self.met_ttft += in_time
        self.met_tpot += at_pace
        self.met += in_time and at_pace
        self.timeline.add("answered", begun_s)
        self.timeline.add("ttft_s", begun_s, ttft_s)
        if in_time and at_pace:
            self.timeline.add("met", begun_s)

    def look(self, at_s: float, *, devices: int, in_flight: int) -> None:
        """Sample what is there."""
        self.timeline.add("looks", at_s)
        self.timeline.add("devices", at_s, devices)
        self.timeline.add("in_flight", at_s, in_flight)
