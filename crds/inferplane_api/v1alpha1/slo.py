"""The objective: one object that drives routing, admission, planning, alerts and status."""

from itertools import pairwise
from typing import Self

from pydantic import Field, model_validator

from inferplane_api.v1alpha1.units import Duration
from inferplane_api.v1alpha1.wire import INT32_MAX, Finding, WireModel, counted_in, invalid, keyed_by

_MAX_TTFT_S = 3600.0
_MAX_TPOT_S = 60.0


def _limits(ttft_s: float | None, tpot_s: float | None) -> list[Finding]:
    findings: list[Finding] = []
    if ttft_s is not None and not 0 < ttft_s <= _MAX_TTFT_S:
        findings.append(Finding("ttft", f"{ttft_s:g} s cannot be met or means nothing", 'use 1ms to 1h, such as "2s"'))
    if tpot_s is not None and not 0 < tpot_s <= _MAX_TPOT_S:
        findings.append(Finding("tpot", f"{tpot_s:g} s cannot be met or means nothing", 'use up to 1m, such as "50ms"'))
    return findings


class PromptClass(WireModel):
    """A TTFT limit for prompts up to a length."""

    max_prompt_tokens: int = Field(
        ge=1,
        le=INT32_MAX,
        description="Applies to prompts of at most this many tokens.",
        json_schema_extra=counted_in("tokens"),
    )
    ttft_s: Duration = Field(description="Limit of the time to the first token.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if findings := _limits(self.ttft_s, None):
            raise invalid(*findings)
        return self


class PriorityObjective(WireModel):
    """Other limits for requests of one priority."""

    priority: int = Field(ge=-1000, le=1000, description="Priority of the request; higher goes first.")
    ttft_s: Duration | None = Field(
        default=None, description="Limit of the time to the first token; default: the SLO's."
    )
    tpot_s: Duration | None = Field(default=None, description="Limit of the time per output token; default: the SLO's.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        findings = _limits(self.ttft_s, self.tpot_s)
        if self.ttft_s is None and self.tpot_s is None:
            findings.append(Finding("", "it changes nothing", "give ttft, tpot or both"))
        if findings:
            raise invalid(*findings)
        return self


class Slo(WireModel):
    ttft_s: Duration = Field(default=2.0, description="Time to the first token within which the percentile must be.")
    tpot_s: Duration = Field(default=0.1, description="Time per output token within which the percentile must be.")
    percentile: float = Field(
        default=99.0,
        gt=0,
        lt=100,
        description="Percent of requests that must be within limits.",
        json_schema_extra=counted_in("percent"),
    )
    window_s: Duration = Field(default=300.0, description="Span over which the percentile is taken.")
    ttft_by_prompt_length: tuple[PromptClass, ...] = Field(
        default=(),
        max_length=16,
        description="TTFT limits by prompt length, ascending; longer prompts have the general limit.",
    )
    priorities: tuple[PriorityObjective, ...] = Field(
        default=(),
        max_length=16,
        description="Limits of single priorities.",
        json_schema_extra=keyed_by("priority"),
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        findings = _limits(self.ttft_s, self.tpot_s)
        if not 1 <= self.window_s <= 30 * 86400:
            findings.append(Finding("window", f"{self.window_s:g} s is out of range", 'use 1s to 720h, such as "5m"'))
        for index, (shorter, longer) in enumerate(pairwise(self.ttft_by_prompt_length), start=1):
            if longer.max_prompt_tokens <= shorter.max_prompt_tokens:
                findings.append(
                    Finding(
                        f"ttftByPromptLength.{index}.maxPromptTokens",
                        f"{longer.max_prompt_tokens} does not exceed the class before",
                        "sort the classes by rising maxPromptTokens",
                    )
                )
        seen = [entry.priority for entry in self.priorities]
        twice = sorted({priority for priority in seen if seen.count(priority) > 1})
        findings += [
            Finding("priorities", f"priority {priority} appears twice", "merge the two entries") for priority in twice
        ]
        if findings:
            raise invalid(*findings)
        return self
