"""What a gateway that joins later must be told of one worker: who it is, how it fares, what it has to do.

The index process passes messages on as they come; this keeps the few of them that still say something.  Blocks are not
among them, since gateways read the table, apart from the fact that there were any.
Invariant: a core that hears `told` knows of the worker what one knows that has heard every message.
"""

from collections.abc import Iterator
from typing import Final

from inferplane_api.proto import worker_pb2 as wire

_HASH: Final = 8


class Mirror:
    """One worker's stream, as far as it still counts."""

    def __init__(self) -> None:
        self.connected = False
        self.identity: wire.WorkerMessage | None = None
        self._status: wire.WorkerMessage | None = None
        self._stored: wire.WorkerMessage | None = None
        self._load: dict[tuple[int, int, str, int], wire.LoadEntry] = {}

    def connect(self) -> None:
        """Begin a stream: it will say everything anew, and until then what was said stands."""
        self.connected = True
        self._load.clear()

    def lose(self) -> None:
        """Forget the load; who the worker is stays."""
        self.connected = False
        self._load.clear()

    def hear(self, message: wire.WorkerMessage) -> wire.WorkerMessage | None:
        """Take one message; return what gateways must hear of it."""
        match message.WhichOneof("body"):
            case "identity":
                if self.identity is not None and self.identity.identity.engine_start != message.identity.engine_start:
                    self._stored = None
                self.identity = message
            case "status":
                self._status = message
            case "load_snapshot":
                self._load = {_key(entry): entry for entry in message.load_snapshot.entries}
            case "load_delta":
                self._change(message.load_delta)
            case "block_snapshot":
                return self._first_stored(message.block_snapshot.hashes)
            case "block_delta":
                return self._without_blocks(message.block_delta)
            case "heartbeat":
                return None
            case _:
                pass  # reports; bodies of later protocol versions
        return message

    def told(self) -> Iterator[wire.WorkerMessage]:
        """Yield what is to be said after the identity."""
        if self._status is not None:
            yield self._status
        if self._stored is not None:
            yield self._stored
        if self.connected and self.identity is not None:
            yield wire.WorkerMessage(load_snapshot=wire.LoadSnapshot(entries=self._load.values()))

    def _change(self, delta: wire.LoadDelta) -> None:
        for entry in delta.entries:
            if entry.phase == wire.LOAD_PHASE_FINISHED:
                self._load.pop(_key(entry), None)
            else:
                self._load[_key(entry)] = entry

    def _first_stored(self, hashes: bytes) -> wire.WorkerMessage | None:
        """Say once that the engine's events arrive, by one block."""
        if self._stored is not None or not hashes:
            return None
        delta = wire.BlockDelta(plane=wire.PLANE_DEVICE, stored=hashes[:_HASH])
        self._stored = wire.WorkerMessage(block_delta=delta)
        return self._stored

    def _without_blocks(self, delta: wire.BlockDelta) -> wire.WorkerMessage | None:
        emptied = delta.cleared and delta.plane == wire.PLANE_DEVICE
        first = self._first_stored(delta.stored)
        if not emptied and not delta.expected:
            return first
        short = wire.BlockDelta(
            dp_rank=delta.dp_rank,
            plane=delta.plane,
            cleared=emptied,
            stored=first.block_delta.stored if first is not None else b"",
            expected=delta.expected,
            expected_by=delta.expected_by,
        )
        return wire.WorkerMessage(block_delta=short)


def _key(entry: wire.LoadEntry) -> tuple[int, int, str, int]:
    return entry.dp_rank, entry.router_epoch, entry.request_id, entry.nonce
