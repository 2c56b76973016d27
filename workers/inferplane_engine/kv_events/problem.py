"""What an event can say that does not fit what was said before."""

from enum import StrEnum


class Problem(StrEnum):
    """Counted by the block map, judged by whoever feeds it."""

    UNKNOWN_PARENT = "unknown parent"  # events were lost: the blocks are there, their names are not known
    UNKNOWN_REMOVAL = "removal of a block that was never stored"  # events were lost, or counted twice
    BLOCK_SIZE = "block size differs from the worker's"
    MALFORMED = "tokens do not fill the blocks"
    UNKNOWN_MEDIUM = "unknown medium"
    OVERFLOW = "more blocks than the engine can hold"  # the map was cleared
