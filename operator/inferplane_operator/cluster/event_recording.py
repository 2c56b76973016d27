"""Events about objects: said once, and never a reason to fail.

An Event's name is made from what it says, so saying it again, by this operator or the next one, is refused by the API
server as existing already.  Events expire there after an hour; then the same words may be said anew.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from inferplane_operator.cluster.applied import digest
from inferplane_operator.cluster.errors import ClusterError, ConflictError, TerminatingError
from inferplane_operator.cluster.field_owners import APPLIER
from inferplane_operator.cluster.kinds import EVENT
from inferplane_operator.cluster.metrics import OperatorMetrics, WriteOutcome
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.reconcile.values import Event

_log = structlog.get_logger("inferplane.operator")
_REMEMBERED = 8192
_NOTE_BYTES = 1024
_NAME_LENGTH = 200


class EventRecorder:
    """`allowed` raises NotLeadingError where nothing may be written."""

    def __init__(
        self,
        objects: Objects,
        *,
        allowed: Callable[[], None],
        wall: Callable[[], float],
        identity: str,
        metrics: OperatorMetrics,
    ) -> None:
        self._objects = objects
        self._allowed = allowed
        self._wall = wall
        self._identity = identity
        self._metrics = metrics
        self._said: OrderedDict[str, None] = OrderedDict()

    async def record(self, event: Event) -> None:
        name = event_name(event)
        if name in self._said:
            self._said.move_to_end(name)
            self._metrics.wrote("create", EVENT.kind, WriteOutcome.NEEDLESS)
            return
        self._allowed()
        try:
            await self._objects.create(self._manifest(event, name), manager=APPLIER)
        except ConflictError:
            self._metrics.wrote("create", EVENT.kind, WriteOutcome.NEEDLESS)
        except TerminatingError:
            return
        except ClusterError as error:
            self._metrics.wrote("create", EVENT.kind, WriteOutcome.FAILED)
            _log.info("event not recorded", reason=event.reason, about=event.about.name, problem=str(error))
            return
        else:
            self._metrics.wrote("create", EVENT.kind, WriteOutcome.WRITTEN)
        self._said[name] = None
        if len(self._said) > _REMEMBERED:
            self._said.popitem(last=False)

    def _manifest(self, event: Event, name: str) -> dict[str, Any]:
        about = event.about
        regarding = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name}
        regarding |= {"namespace": about.namespace} if about.namespace else {}
        regarding |= {"uid": about.uid} if about.uid else {}
        now = datetime.fromtimestamp(self._wall(), UTC)
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": about.namespace or "default"},
            "eventTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "reportingController": "inferplane.dev/operator",
            "reportingInstance": self._identity[:128],
            "action": "Reconcile",
            "reason": event.reason[:128],
            "type": event.type.value,
            "regarding": regarding,
            "note": shortened(event.message, _NOTE_BYTES),
        }


def event_name(event: Event) -> str:
    about = event.about
    said = [about.kind, about.namespace, about.name, about.uid, event.type, event.reason, event.message]
    return f"{about.name[:_NAME_LENGTH]}.{digest(said)}"


def shortened(text: str, limit: int) -> str:
    """Cut text to a number of bytes, between characters."""
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - 3].decode("utf-8", "ignore") + "..."
