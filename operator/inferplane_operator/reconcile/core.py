"""The pure functions with the operator's settings: what the shell calls."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from inferplane_operator.reconcile.kv_store import kv_store
from inferplane_operator.reconcile.route import route
from inferplane_operator.reconcile.scene import Settings
from inferplane_operator.reconcile.service import service
from inferplane_operator.reconcile.values import Observed, ObservedKVStore, ObservedRoute, Outcome


@dataclass(frozen=True, slots=True)
class PureCore:
    settings: Settings = field(default_factory=Settings)
    draw_key: Callable[[], str] = secrets.token_hex
    """Gives a new random key, 32 bytes in hex."""

    def service(self, observed: Observed, /) -> Outcome:
        return service(observed, self.settings)

    def kv_store(self, observed: ObservedKVStore, /) -> Outcome:
        return kv_store(observed, self.draw_key)

    def route(self, observed: ObservedRoute, /) -> Outcome:
        return route(observed)
