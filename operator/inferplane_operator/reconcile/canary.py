"""Judges the first workers of a new revision against those that serve beside them: pure.

Problem.  A new worker's cache is cold, so its prompts take longer for a reason that says nothing about the revision;
and a service with little traffic never gives enough requests to compare.
Idea.  Both sides are read over the same window and compared at equal uncached tokens.  A prompt costs something fixed
and something per token, and sums do not tell how much of each; so the new side is slow only if it is slow under both
extremes.  Errors and wrong answers to the canary prompt fail at once.  Where traffic is too little after a minimum
time, the canary prompt's agreement alone decides.
Trade-off.  A revision that is slower by less than the tolerance passes, and so does one whose slowness no objective
notices: where a token takes a millisecond, a busy machine makes it two.  Objectives are for the planner to watch.
Invariant.  More time with the same counters never turns a PASS or a FAIL into WAIT.
"""

from dataclasses import dataclass
from typing import Self

from inferplane_operator.reconcile.values import CanaryVerdict, Judgement


@dataclass(frozen=True, slots=True)
class Counters:
    """What the agents of some workers counted over the window, as differences of their metrics.

    `prefill_s` is the sum of `agent_prefill_seconds`, `decode_s` that of `agent_request_duration_seconds` less that of
    `agent_ttft_seconds`; uncached tokens are `agent_prompt_tokens_total` less `agent_cached_tokens_total`.
    """

    requests: int = 0
    errors: int = 0
    prefills: int = 0
    uncached_tokens: float = 0.0
    prefill_s: float = 0.0
    output_tokens: float = 0.0
    decode_s: float = 0.0
    canary_failures: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """When there is enough to say something, and how much worse is worse."""

    least_s: float = 10.0
    quiet_after_s: float = 30.0
    """After this time, too little traffic is no reason to wait any longer."""
    least_requests: int = 20
    least_errors: int = 3
    tolerance: float = 1.5
    """How many times slower a prompt or an output token may be."""
    least_slower_prompt_s: float = 0.0
    """A prompt that takes no more than so much longer is not slow, whatever the tolerance says."""
    least_slower_token_s: float = 0.0
    """The same of an output token."""
    error_margin: float = 0.02
    """Share of requests that may fail more than before."""

    @classmethod
    def within(cls, watched_s: float) -> Self:
        """Return limits that wait so long for traffic, and no longer in any case."""
        return cls(least_s=min(cls().least_s, watched_s), quiet_after_s=watched_s)

    def left_s(self, elapsed_s: float) -> float:
        """Return when the judge may say something else without new counters, in seconds from now."""
        return next((limit - elapsed_s for limit in (self.least_s, self.quiet_after_s) if limit > elapsed_s), 0.0)


def judge(
    old: Counters, new: Counters, *, revision: str, elapsed_s: float, limits: Limits | None = None
) -> CanaryVerdict:
    """Compare the new workers' counters with the old ones'; `elapsed_s` is how long the window is open."""
    given = limits or Limits()
    if problem := _wrong(old, new, given):
        return CanaryVerdict(revision, Judgement.FAIL, problem)
    if elapsed_s < given.least_s:
        return CanaryVerdict(revision, Judgement.WAIT, f"watched for {given.least_s:g} s at least")
    if min(old.requests, new.requests) < given.least_requests:
        return _without_traffic(new, revision, elapsed_s, given)
    if problem := _slow(old, new, given):
        return CanaryVerdict(revision, Judgement.FAIL, problem)
    return CanaryVerdict(revision, Judgement.PASS, f"as good as before in {new.requests} requests")


def _without_traffic(new: Counters, revision: str, elapsed_s: float, limits: Limits) -> CanaryVerdict:
    if elapsed_s < limits.quiet_after_s:
        message = f"{new.requests} of {limits.least_requests} requests, or {limits.quiet_after_s:g} s"
        return CanaryVerdict(revision, Judgement.WAIT, message)
    return CanaryVerdict(revision, Judgement.PASS, "the canary prompt's answer is right; too little traffic to compare")


def _wrong(old: Counters, new: Counters, limits: Limits) -> str:
    if new.canary_failures:
        return "the canary prompt got a wrong answer"
    before, after = _share(old.errors, old.requests), _share(new.errors, new.requests)
    if new.errors >= limits.least_errors and after > before + limits.error_margin:
        return f"{new.errors} of {new.requests} requests failed, {before:.1%} did before"
    return ""


def _slow(old: Counters, new: Counters, limits: Limits) -> str:
    if old.prefills and new.prefills and old.prefill_s > 0:
        mean, expected = new.prefill_s / new.prefills, _expected_prefill_s(old, new)
        if mean > max(limits.tolerance * expected, expected + limits.least_slower_prompt_s):
            return f"a prompt takes {_spoken(mean)}, {_spoken(expected)} at as many uncached tokens before"
    if old.decode_s > 0 and old.output_tokens and new.output_tokens:
        mean, expected = new.decode_s / new.output_tokens, old.decode_s / old.output_tokens
        if mean > max(limits.tolerance * expected, expected + limits.least_slower_token_s):
            return f"an output token takes {_spoken(mean)}, {_spoken(expected)} before"
    return ""


def _expected_prefill_s(old: Counters, new: Counters) -> float:
    """Return the longest time that a prompt of the new side's length may take, whatever part of it is fixed."""
    before, after = old.uncached_tokens / old.prefills, new.uncached_tokens / new.prefills
    longer = after / before if before > 0 else 1.0
    return old.prefill_s / old.prefills * max(1.0, longer)


def _spoken(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
