"""Which tokens a sequence says next: one a step, or several when drafts are accepted."""

from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.content import Vocabulary, coin
from inferplane_engine.sim.sequence import Damage, Sequence, Writer


class Voice:
    """Takes tokens from the writers of prefilled sequences."""

    def __init__(self, config: EngineConfig, vocabulary: Vocabulary, damage: Damage) -> None:
        self._config = config
        self._vocabulary = vocabulary
        self._damage = damage
        self._content = config.content
        self._word = (vocabulary.words[0],)

    def draft_tokens(self, sequence: Sequence, new: int) -> int:
        """Count the speculated tokens that need a place in a step that computes `new` tokens."""
        speculation = self._config.speculation
        if speculation is None or sequence.outputs == 0 or sequence.computed + new < sequence.length:
            return 0
        return min(speculation.tokens, self._config.max_model_len - sequence.length)

    def say(self, sequence: Sequence) -> tuple[int, ...]:
        """Say one token, and the drafts that are accepted."""
        if not self._content:
            return self._word
        writer = self.writer_of(sequence)
        most = min(1 + self.draft_tokens(sequence, 0), sequence.max_tokens - sequence.outputs)
        speculation = self._config.speculation
        writer.say(sequence.spoken + 1)
        count = 1
        while speculation is not None and count < most:
            last = writer.said[sequence.spoken + count - 1]
            if writer.ends(last) or not coin(writer.state, sequence.outputs + count, speculation.accept_rate):
                break
            count += 1
            writer.say(sequence.spoken + count)
        said = tuple(writer.said[sequence.spoken : sequence.spoken + count])
        sequence.spoken += len(said)
        return said

    def say_many(self, sequence: Sequence, count: int) -> tuple[int, ...]:
        """Say `count` tokens that `steps_until_end` has prepared."""
        if not self._content:
            return self._word * count
        said = tuple(self.writer_of(sequence).said[sequence.spoken : sequence.spoken + count])
        sequence.spoken += count
        return said

    def steps_until_end(self, sequences: list[Sequence], limit: int) -> int:
        """Count the steps up to and including the first that ends a sequence, at most `limit`."""
        steps = min(limit, *(sequence.max_tokens - sequence.outputs for sequence in sequences))
        if not self._content:
            return steps
        for sequence in sequences:
            writer = self.writer_of(sequence)
            writer.say(sequence.spoken + steps)
            steps = min(steps, len(writer.said) - sequence.spoken)
        return steps

    def stopped(self, sequence: Sequence) -> bool:
        """Tell whether the last token ends the answer."""
        return self._content and self.writer_of(sequence).ends(sequence.tokens[-1])

    def stop_token(self, sequence: Sequence) -> int | None:
        """Return the token that ended an answer, unless it is the model's own end."""
        last = sequence.tokens[-1]
        return None if last == self._vocabulary.eos else last

    def writer_of(self, sequence: Sequence) -> Writer:
        if sequence.writer is None:
            request = sequence.request
            sequence.writer = Writer(
                vocabulary=self._vocabulary,
                block_size=self._config.block_size,
                state=sequence.state,
                tail=sequence.tokens[sequence.folded * self._config.block_size :],
                sample=request.sample,
                stop_tokens=request.stop_tokens,
                ignore_eos=request.ignore_eos,
                min_tokens=request.min_tokens,
                damage=self._damage,
                count=sequence.outputs,
                tail_extra=sequence.media_keys(sequence.folded),
            )
            sequence.spoken = 0
        return sequence.writer
