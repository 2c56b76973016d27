"""Does a worker's cache hold what its events make us expect?  If not: why, and what to do about it.

Problem: routing by KV events fails silently: hashes that never match look like an empty cache, lost events like a
full one.  Idea: every finished request is a test.  Its prompt's blocks must be in the worker's index shortly after,
and the engine's own count of cached tokens must be what we predicted.  What differs names the cause.
Trade-off: single differences happen (a block evicted between decision and prefill), so only repeated ones count, and
a cause is named from what fails and what does not (salted requests, adapters), not proven.
Invariant: a worker in approximate mode is still tested in the shadow, and goes back by itself when its events are
right again; a state that the agent itself announces (events off or suspect) holds exactly as long as it announces it.
"""

from dataclasses import dataclass, field
from typing import Final

from inferplane_api.proto import worker_pb2
from inferplane_router.core.values import KvMode, Mismatch

_ENOUGH: Final = 3.0
"""Evidence that convicts; a success halves what there is."""
_SOFT: Final = 0.6
"""Weight of evidence that a legitimate eviction could explain."""
_RECOVERY: Final = 5
"""Tests in a row that must pass before events are believed again."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One finished request on one worker, some time after its end; tokens unless said otherwise."""

    prompt_tokens: int
    reported_prompt_tokens: int
    """0 when the engine did not say."""
    block_size: int
    indexed_tokens: int
    """Cached prefix by the index alone, when the request was routed."""
    predicted_tokens: int
    """What was predicted for it, from whatever source."""
    observed_tokens: int
    expected_blocks: int
    """Full blocks of the prompt."""
    held_blocks: int
    """How many of those are in the index now."""
    salted: bool = False
    adapter: bool = False
    templated: bool = False


def classify(  # noqa: PLR0911  # a decision table, one answer a line
    evidence: Evidence, *, ever_stored: bool, plain_works: bool
) -> Mismatch:
    """Name what is wrong with one worker's cache view, as far as one request can tell."""
    if evidence.reported_prompt_tokens not in {0, evidence.prompt_tokens}:
        return Mismatch.TEMPLATE if evidence.templated else Mismatch.TOKENIZER
    ragged = evidence.observed_tokens % evidence.block_size != 0
    if ragged and evidence.observed_tokens < evidence.prompt_tokens - 1:
        return Mismatch.BLOCK_SIZE
    if evidence.expected_blocks and not evidence.held_blocks:
        if not ever_stored:
            return Mismatch.EVENTS_OFF
        if plain_works and evidence.adapter:
            return Mismatch.ADAPTER
        return Mismatch.SALT if plain_works and evidence.salted else Mismatch.HASH_SEED
    if evidence.observed_tokens not in {evidence.indexed_tokens, evidence.predicted_tokens}:
        return Mismatch.LOST_EVENTS
    return Mismatch.NONE


@dataclass(slots=True)
class KvTrust:
    """How far one worker's events are believed."""

    mode: KvMode = KvMode.EXACT
    cause: Mismatch = Mismatch.NONE
    detail: str = ""
    ever_stored: bool = False
    """Some block event has arrived since the engine started."""
    predictions: int = 0
    exact_predictions: int = 0
    predicted_tokens: int = 0
    observed_tokens: int = 0
    _announced: bool = False
    _plain_works: bool = False
    _passed: int = 0
    _against: dict[Mismatch, float] = field(default_factory=dict[Mismatch, float])

    def announce(self, state: worker_pb2.KvEventsState) -> bool:
        """Take the agent's word for its events; return whether the mode changed."""
        causes = {
            worker_pb2.KV_EVENTS_OFF: (Mismatch.EVENTS_OFF, "the engine publishes no KV events"),
            worker_pb2.KV_EVENTS_SUSPECT: (Mismatch.LOST_EVENTS, "events were lost and could not be replayed"),
        }
        if state in causes:
            self._announced = True
            return self._convict(*causes[state])
        if state == worker_pb2.KV_EVENTS_OK and self._announced:
            self._announced = False
            return self._acquit()
        return False

    def test(self, evidence: Evidence) -> bool:
        """Weigh one finished request; return whether the mode changed."""
        self.predictions += 1
        self.exact_predictions += evidence.predicted_tokens == evidence.observed_tokens
        self.predicted_tokens += evidence.predicted_tokens
        self.observed_tokens += evidence.observed_tokens
        cause = classify(evidence, ever_stored=self.ever_stored, plain_works=self._plain_works)
        if cause is Mismatch.NONE:
            return self._pass(evidence)
        self._passed = 0
        weight = _SOFT if cause is Mismatch.LOST_EVENTS else 1.0
        self._against[cause] = self._against.get(cause, 0.0) + weight
        if self._against[cause] < _ENOUGH or self._announced:
            return False
        return self._convict(cause, _describe(cause, evidence))

    def restart(self) -> bool:
        """Forget everything: the engine has started anew; return whether the mode changed."""
        self.ever_stored, self._plain_works, self._passed = False, False, 0
        self._against.clear()
        return False if self._announced else self._acquit()

    def _pass(self, evidence: Evidence) -> bool:
        if not evidence.expected_blocks:
            return False  # too short to prove anything
        self._plain_works = self._plain_works or not (evidence.salted or evidence.adapter)
        for cause in self._against:
            if _speaks_for(cause, evidence):
                self._against[cause] /= 2
        self._passed += _speaks_for(self.cause, evidence)
        if self.mode is KvMode.EXACT or self._announced or self._passed < _RECOVERY:
            return False
        return self._acquit()

    def _convict(self, cause: Mismatch, detail: str) -> bool:
        changed = self.mode is KvMode.EXACT
        self.mode, self.cause, self.detail, self._passed = KvMode.APPROXIMATE, cause, detail, 0
        return changed

    def _acquit(self) -> bool:
        changed = self.mode is KvMode.APPROXIMATE
        self.mode, self.cause, self.detail = KvMode.EXACT, Mismatch.NONE, ""
        self._against.clear()
        return changed


def _speaks_for(cause: Mismatch, evidence: Evidence) -> bool:
    """Whether a passed test says anything against this cause."""
    if cause is Mismatch.SALT:
        return evidence.salted
    return evidence.adapter if cause is Mismatch.ADAPTER else True


def _describe(cause: Mismatch, evidence: Evidence) -> str:
    match cause:
        case Mismatch.TOKENIZER | Mismatch.TEMPLATE:
            return f"the engine counts {evidence.reported_prompt_tokens} prompt tokens, we {evidence.prompt_tokens}"
        case Mismatch.BLOCK_SIZE:
            return f"{evidence.observed_tokens} cached tokens are no multiple of the block size {evidence.block_size}"
        case Mismatch.EVENTS_OFF:
            return "KV events are configured, but none has ever arrived"
        case Mismatch.LOST_EVENTS:
            return f"the index says {evidence.indexed_tokens} cached tokens, the engine {evidence.observed_tokens}"
        case _:
            return f"none of {evidence.expected_blocks} expected blocks was announced, though others were"
