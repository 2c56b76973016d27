"""Block tables over one pool: finding prefixes, growing, windows, contents.

The problem: full-attention and sliding-window layers share physical blocks but keep different parts of a sequence.
The idea: one table per group.  A hit is the longest prefix that the full group holds and for which every window is
there; blocks that fall out of a window become the null block and are free for others.
The invariant: `needed` counts exactly what `admit` and `grow` then take, so a step that fits never fails half-way.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass

from inferplane_engine.sim.blocks import NULL_BLOCK, BlockPool
from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.content import block_content, fold
from inferplane_engine.sim.sequence import Damage, Sequence

Contents = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """Blocks found per group, all tables of one length."""

    tables: tuple[tuple[int, ...], ...]
    tokens: int


class KvCache:
    """All KV of one engine core."""

    def __init__(self, config: EngineConfig, damage: Damage) -> None:
        self._config = config
        self._size = config.block_size
        self._damage = damage
        self.pool = BlockPool(config.blocks, prefix_caching=config.prefix_caching, events=config.cache_events)

    def find(self, sequence: Sequence) -> Hit:
        """Longest usable prefix; the last token is never part of it, because its logits are needed."""
        nothing = Hit(tuple(() for _ in self._config.groups), 0)
        if not self._config.prefix_caching:
            return nothing
        hashes = sequence.block_hashes(self._size)[: (sequence.length - 1) // self._size]
        full = self.pool.find_run(hashes)
        speculation = self._config.speculation
        if speculation is not None and speculation.drop_block and full:
            full.pop()
        length = len(full)
        while True:
            windows = {
                group: self._find_window(hashes[:length], group, spec.window)
                for group, spec in enumerate(self._config.groups)
                if spec.window is not None
            }
            shortest = min((len(table) for table in windows.values()), default=length)
            if shortest == length:
                break
            length = shortest
        tables = tuple(
            tuple(windows[group]) if group in windows else self._find_full(full, hashes, group, length)
            for group in range(len(self._config.groups))
        )
        return Hit(tables, length * self._size)

    def _find_full(self, first: list[int], hashes: Items[int], group: int, length: int) -> tuple[int, ...]:
        if group == 0:
            return tuple(first[:length])
        found = [self.pool.find((value, group)) for value in hashes[:length]]
        return tuple(block for block in found if block is not None)

    def _find_window(self, hashes: Items[int], group: int, window: int) -> list[int]:
        """Search from the right for enough consecutive blocks; a run that reaches block 0 is enough at any length."""
        enough = -(-(window - 1) // self._size)
        table = [NULL_BLOCK] * len(hashes)
        run = 0
        for index in range(len(hashes) - 1, -1, -1):
            block = self.pool.find((hashes[index], group))
            if block is None:
                run = 0
                continue
            table[index] = block
            run += 1
            if run >= enough:
                return table[: index + run]
        return table[:run]

    def needed(self, sequence: Sequence, tokens: int, hit: Hit | None = None, *, whole: bool = False) -> int:
        """Free blocks that holding `tokens` tokens takes; `whole`: over the sequence's prefill, not at once."""
        wanted = -(-tokens // self._size)
        total = 0
        for group, spec in enumerate(self._config.groups):
            held = len(hit.tables[group]) if hit is not None else len(sequence.tables[group])
            fresh = max(0, wanted - held)
            if whole:
                fresh = min(fresh, self._config.blocks_for(spec, tokens))
            total += fresh
            if hit is not None:
                total += sum(self.pool.is_free(block) for block in hit.tables[group])
        return total

    def admit(self, sequence: Sequence, hit: Hit) -> None:
        """Hold the blocks of a hit and take their contents into the state."""
        for group, table in enumerate(hit.tables):
            self.pool.touch(table)
            sequence.tables[group] = list(table)
            sequence.stored[group] = len(table)
        sequence.computed = hit.tokens
        self._fold_held(sequence, hit.tokens // self._size)

    def drop_outside_window(self, sequence: Sequence) -> None:
        """Let go of blocks that no later token attends to."""
        for group, spec in enumerate(self._config.groups):
            if spec.window is None:
                continue
            skipped = max(0, sequence.computed - spec.window + 1) // self._size
            table = sequence.tables[group]
            gone: list[int] = []
            for index in range(min(skipped, len(table)) - 1, -1, -1):
                if table[index] == NULL_BLOCK:
                    break
                gone.append(table[index])
                table[index] = NULL_BLOCK
            self.pool.release(gone)

    def grow(self, sequence: Sequence, tokens: int) -> None:
        """Take blocks until `tokens` tokens have a place."""
        wanted = -(-tokens // self._size)
        for table in sequence.tables:
            if wanted > len(table):
                table.extend(self.pool.take(wanted - len(table)))

    def commit(self, sequence: Sequence, tokens: int) -> None:
        """Write contents for `tokens` computed tokens and make the full blocks among them findable."""
        if not self._config.content:
            sequence.folded = tokens // self._size
        while (sequence.folded + 1) * self._size <= tokens:
            index = sequence.folded
            content = self._written(sequence, index)
            for table in sequence.tables:
                if table[index] != NULL_BLOCK:
                    self.pool.contents[table[index]] = content
            sequence.state = fold(sequence.state, content)
            sequence.folded += 1
        self.store_full(sequence, tokens)

    def _written(self, sequence: Sequence, index: int) -> int:
        tokens = sequence.tokens[index * self._size : (index + 1) * self._size]
        return self._damage(block_content(sequence.state, tokens, sequence.media_keys(index)))

    def store_full(self, sequence: Sequence, tokens: int) -> None:
        """Announce full blocks up to `tokens` that are not findable yet."""
        full = tokens // self._size
        if not self._config.prefix_caching or all(stored >= full for stored in sequence.stored):
            return
        hashes = sequence.block_hashes(self._size)
        for group, spec in enumerate(self._config.groups):
            first = sequence.stored[group]
            if first >= full:
                continue
            self.pool.store(
                group=group,
                spec=spec,
                blocks=sequence.tables[group][first:full],
                hashes=hashes[first:full],
                parent=hashes[first - 1] if first else None,
                tokens=tuple(sequence.tokens[first * self._size : full * self._size]),
                block_size=self._size,
                adapter=sequence.request.adapter,
                adapter_id=sequence.request.adapter_id,
                extra_keys=[sequence.extra_keys(index) for index in range(first, full)],
            )
            sequence.stored[group] = full

    def reserve_external(self, sequence: Sequence, tokens: int) -> None:
        """Take blocks for tokens that will be transferred, except where they would be outside a window."""
        wanted = -(-tokens // self._size)
        for group, spec in enumerate(self._config.groups):
            table = sequence.tables[group]
            skipped = 0 if spec.window is None else max(0, tokens - spec.window + 1) // self._size
            table.extend([NULL_BLOCK] * (min(skipped, wanted) - len(table)))
            table.extend(self.pool.take(wanted - len(table)))

    def accept_external(self, sequence: Sequence, contents: Contents, tokens: int) -> None:
        """Contents of the blocks after the local ones have arrived, per group and from the same first block on."""
        first = sequence.folded
        for group, values in enumerate(contents):
            for index, content in enumerate(values, start=first):
                if sequence.tables[group][index] != NULL_BLOCK:
                    self.pool.contents[sequence.tables[group][index]] = content
        full = tokens // self._size
        self._fold_held(sequence, full)
        if tokens % self._size and self._config.content:
            tail = sequence.tokens[full * self._size : tokens]
            received = contents[0][full - first]
            if received != block_content(sequence.state, tail, sequence.media_keys(full)):
                sequence.state = fold(sequence.state, received)
        self.store_full(sequence, tokens)

    def read(self, tables: Items[Items[int]]) -> Contents:
        """Contents of blocks, as a consumer pulls them."""
        return tuple(tuple(self.pool.contents[block] for block in table) for table in tables)

    def write_tail(self, sequence: Sequence) -> None:
        """Give the last, incomplete block its content, so that a consumer can pull it."""
        tail = sequence.tokens[sequence.folded * self._size : sequence.computed]
        if not tail or not self._config.content:
            return
        content = self._damage(block_content(sequence.state, tail, sequence.media_keys(sequence.folded)))
        for table in sequence.tables:
            self.pool.contents[table[sequence.folded]] = content

    def release(self, sequence: Sequence) -> None:
        """Let go of everything; the end of the sequence is taken first."""
        for table in sequence.tables:
            self.pool.release(table[::-1])
        sequence.forget()

    def _fold_held(self, sequence: Sequence, blocks: int) -> None:
        """Take the contents of held blocks into the state; a window that disagrees with the full group shows."""
        contents = self.pool.contents
        for index in range(sequence.folded, blocks if self._config.content else 0):
            content = contents[sequence.tables[0][index]]
            sequence.state = fold(sequence.state, content)
            for table in sequence.tables[1:]:
                other = table[index]
                if other != NULL_BLOCK and contents[other] != content:
                    sequence.state = fold(sequence.state, contents[other])
        sequence.folded = blocks
