"""What the processes of a router say to each other: frames on a stream of bytes.

A frame is its length, its kind and a body.  Both sides are forked from one program, so there are no versions.
Invariant: however the bytes are cut, the frames that come out are those that went in.
"""

import struct
from enum import IntEnum
from typing import Final

from inferplane_router.processes.errors import BrokenFrameError

_HEAD: Final = struct.Struct("<IB")
_NAME: Final = struct.Struct("<H")
_NUMBER: Final = struct.Struct("<I")
_SEAT: Final = struct.Struct("<II")
MOST_BYTES: Final = 256 << 20
"""Of one frame: a catalogue of ten thousand workers takes a hundredth of it."""


class Kind(IntEnum):
    """Who sends it, and what its body is."""

    HELLO = 1
    """Gateway: JSON, its name."""
    STATE = 2
    """Gateway: JSON of `pod_state.Report`.  Index process: JSON of `pod_state.Whole`."""
    CATALOGUE = 3
    """Index process: JSON."""
    CONNECTED = 4
    """Index process: a worker's name; so are those that follow, with something behind it."""
    LOST = 5
    MESSAGE = 6
    """WorkerMessage."""
    IDENTITY = 7
    """First slot and place, WorkerMessage."""
    SYNCED = 8
    """Index process: what it knows of workers has been sent."""
    EXPECT = 9
    """Both ways: a worker's name and Expects, of requests that a gateway has routed there."""
    OBSERVATION = 10
    """Both ways: Observation, for who follows them in another gateway."""
    COMPLETE = 11
    """Both ways: CompleteRequest, of a request that another gateway may have routed."""
    ASK = 12
    """Both ways: number, kind of question, question."""
    ANSWER = 13
    """Both ways: number of the question, answer."""
    PLANNED = 14
    """Both ways: PlanNotice, for the consoles of the other gateways."""


class Question(IntEnum):
    METRICS = 1
    """Of a gateway: what it counts, see `merging`."""
    EXPLAIN = 2
    """Of the index process, and by it of all other gateways: a request's id; the answer is a DecisionRecord."""
    CONSOLE = 3
    """Of the index process, and by it of all other gateways: what they have to show; it answers with a JSON list."""


def frame(kind: Kind, body: bytes = b"") -> bytes:
    return _HEAD.pack(len(body), kind) + body


class Framer:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[Kind, bytes]]:
        """Return the frames that are whole now."""
        data = self._rest + data if self._rest else data
        frames: list[tuple[Kind, bytes]] = []
        at = 0
        while len(data) - at >= _HEAD.size:
            length, kind = _HEAD.unpack_from(data, at)
            if length > MOST_BYTES:
                raise BrokenFrameError(f"a frame of {length} bytes; at most {MOST_BYTES} are expected")
            end = at + _HEAD.size + length
            if end > len(data):
                break
            frames.append((Kind(kind), data[at + _HEAD.size : end]))
            at = end
        self._rest = data[at:]
        return frames


def named(name: str, rest: bytes = b"") -> bytes:
    """Put a worker's name before something."""
    encoded = name.encode()
    return _NAME.pack(len(encoded)) + encoded + rest


def split_name(body: bytes) -> tuple[str, bytes]:
    (length,) = _NAME.unpack_from(body)
    end = _NAME.size + length
    return body[_NAME.size : end].decode(), body[end:]


def seated(first_slot: int, place: int, rest: bytes) -> bytes:
    """Put where a worker stands before what it says of itself."""
    return _SEAT.pack(first_slot, place) + rest


def split_seat(body: bytes) -> tuple[int, int, bytes]:
    first_slot, place = _SEAT.unpack_from(body)
    return first_slot, place, body[_SEAT.size :]


def numbered(number: int, rest: bytes) -> bytes:
    return _NUMBER.pack(number) + rest


def split_number(body: bytes) -> tuple[int, bytes]:
    (number,) = _NUMBER.unpack_from(body)
    return number, body[_NUMBER.size :]
