"""What the processes of a router have in common, made before they are forked."""

import os
from dataclasses import dataclass
from typing import Final

from inferplane_router.app import draw_epoch
from inferplane_router.config import RouterConfig
from inferplane_router.core.arena import Arena
from inferplane_router.front import served_certificate
from inferplane_router.processes.rendezvous import Rendezvous
from inferplane_router.processes.seat_map import SeatMap

_LARGEST: Final = 1 << 37
_SMALLEST: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Shared:
    """Memory, sockets and names."""

    config: RouterConfig
    """With the ports that were got."""
    epoch: int
    """All processes know each other's requests by it, as one router's."""
    arena: Arena
    seat_map: SeatMap
    rendezvous: Rendezvous

    @classmethod
    def make(cls, config: RouterConfig) -> "Shared":
        return cls(config, draw_epoch(), roomy_arena(), SeatMap(), Rendezvous())

    def check(self) -> None:
        """Read what every gateway will read: what is wrong is said once."""
        served_certificate(self.config)
        for path in (self.config.ext_proc.certificate, self.config.ext_proc.key):
            if path is not None:
                os.close(os.open(path, os.O_RDONLY))


def roomy_arena() -> Arena:
    """Return the largest arena that this machine gives addresses for; memory is only what will be written."""
    size = _LARGEST
    while size > _SMALLEST:
        try:
            return Arena(size)
        except OSError:
            size //= 2
    return Arena(size)
