"""Where a service lives, as far as planning it goes: what is wanted and there, and a way to change it."""

from dataclasses import dataclass, field
from typing import Protocol

from inferplane_planner.core.contract import NOBODY, Measured, Plan, Spec, Workers
from inferplane_planner.observe.trust import Trust


@dataclass(frozen=True, slots=True)
class Sight:
    """One look; `start_ups_s` are of workers that became ready since the look before."""

    service: str
    """Its name; in a cluster with the namespace before it."""
    spec: Spec
    decode: Workers
    prefill: Workers = NOBODY
    routers: tuple[str, ...] = ()
    """host:port of the Router service of each router."""
    planned: bool = True
    """Whether there are plans; otherwise it is only measured what the service gives."""
    acting: bool = False
    """Whether plans are to be carried out; otherwise they are told only."""
    window_s: float = 300.0
    start_ups_s: tuple[float, ...] = field(default=())
    namespace: str = "default"

    @property
    def place(self) -> tuple[str, str]:
        """The service's namespace, and its name without it."""
        return self.namespace, self.service.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Findings:
    """What a round found out: what there is to say of a service."""

    plan: Plan | None = None
    """None: the service is not planned."""
    measured: Measured | None = None
    """None: no request of the window has ended."""
    trust: Trust = field(default_factory=Trust)


class WorldError(Exception):
    """The world cannot be seen or changed at present; says why."""


class World(Protocol):
    async def look(self) -> Sight:
        """Return what is wanted and there.  Raises WorldError."""
        ...

    async def scale(self, role: str, replicas: int) -> None:
        """Ask for another number of `prefill` or `decode` workers.  Raises WorldError."""
        ...

    async def tell(self, findings: Findings, sight: Sight) -> None:
        """Show what was found to whoever looks.  Raises WorldError."""
        ...
