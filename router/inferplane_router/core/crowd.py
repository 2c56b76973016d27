"""Who there is, as one value that a decision can keep: it is replaced as a whole and never written to."""

from collections.abc import Mapping

from inferplane_engine.identity import Adapter
from inferplane_router.core.score_kernels import Slots
from inferplane_router.core.values import Health, TargetRef
from inferplane_runtime.values import value


@value(frozen=True, slots=True)
class Standing:
    """One target."""

    decodes: bool
    health: Health
    adapters: frozenset[Adapter]
    heard: bool = True
    """Its stream stands: it is in doubt for how its requests ended alone."""

    def has(self, adapter: Adapter) -> bool:
        return adapter in self.adapters


@value(frozen=True, slots=True)
class Crowd:
    """All targets of a service, by slot."""

    refs: tuple[TargetRef | None, ...]
    standings: Mapping[int, Standing]
    limits: Slots
    """Most requests at once."""
    revisions: Slots
