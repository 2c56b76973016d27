"""The names of the simulated engine's faults, for the resource and the engine alike.

Apart from the resources, since a simulated engine starts without what validates them.
"""

from enum import StrEnum


class SimFaultKind(StrEnum):
    """What the simulated engine can do wrong."""

    CRASH = "crash"
    """The process is gone at once, without a word."""
    HANG = "hang"
    """Requests are taken, nothing is computed."""
    SLOW = "slow"
    LOST_EVENTS = "lost-events"
    """A batch is not published; replay still has it."""
    FORGOTTEN_EVENTS = "forgotten-events"
    """A batch is not published, and replay has lost it too: a gap that cannot be closed."""
    SILENT_EVENTS = "silent-events"
    """Events are missing from a batch without a gap."""
    WRONG_EVENTS = "wrong-events"
    """Hashes of a batch are others."""
    DUPLICATE_EVENTS = "duplicate-events"
    REORDERED_EVENTS = "reordered-events"
    """A batch comes after its successor."""
    CORRUPT_KV = "corrupt-kv"
    CORRUPT_TRANSFER = "corrupt-transfer"
    REFUSE = "refuse"
    """The connection is reset before an answer."""
    ERROR = "error"
    """The request is answered with `status`."""
    STALLED_START = "stalled-start"
    """The server is not ready for `duration_s`; 0: never."""
