"""The seam of discovery: whoever watches something hands over whole catalogues, each replacing the one before.

What every implementation holds (the conformance suite runs against each): the newest catalogue is applied once, equal
ones need not be applied again, what cannot be read is reported and leaves the last good catalogue in force, and a good
one after that is applied.
"""

from typing import Protocol


class Discovery(Protocol):
    """Made with `apply` (takes a catalogue) and `failed` (something could not be read)."""

    async def watch(self) -> None:
        """Follow the source until cancelled."""
        ...
