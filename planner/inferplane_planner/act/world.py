"""Where a service lives, as far as planning it goes: what is wanted and there, and a way to change it."""

from dataclasses import dataclass, field
from typing import Protocol

from inferplane_planner.core.contract import NOBODY, Plan, Spec, Workers


@dataclass(frozen=True, slots=True)
class Sight:
    """One look; `start_ups_s` are of workers that became ready since the look before."""

    service: str
    spec: Spec
    decode: Workers
    prefill: Workers = NOBODY
    routers: tuple[str, ...] = ()
    """host:port of the Router service of each router."""
    acting: bool = False
    """Whether plans are to be carried out; otherwise they are told only."""
    window_s: float = 300.0
    start_ups_s: tuple[float, ...] = field(default=())


class WorldError(Exception):
    """The world cannot be seen or changed at present; says why."""


class World(Protocol):
    async def look(self) -> Sight:
        """Return what is wanted and there.  Raises WorldError."""
        ...

    async def scale(self, role: str, replicas: int) -> None:
        """Ask for another number of `prefill` or `decode` workers.  Raises WorldError."""
        ...

    async def tell(self, plan: Plan, sight: Sight) -> None:
        """Show a plan to whoever looks.  Raises WorldError."""
        ...
