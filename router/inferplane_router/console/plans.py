"""What the planner has told of its plans: the moves of the last hours, each with its reason.

Problem: replicas change by the decision of another process, and whoever looks at a chart of them asks why.  Idea: the
planner tells each router what it decided, again and again; a router keeps what differs from the time before.
Trade-off: a router that starts knows nothing of earlier moves.  Invariant: at most `most` moves of a service.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from inferplane_api.proto.router_pb2 import PlanNotice

MOST: Final = 64
_Key = tuple[str, str]


class Plans:
    """Moves by service, oldest first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._moves: dict[_Key, deque[PlanNotice]] = {}
        self._latest: dict[_Key, PlanNotice] = {}

    def told(self, notice: PlanNotice) -> None:
        """Take what a planner says of a service."""
        key = notice.namespace, notice.service
        before = self._latest.get(key)
        if before is None or _move(before) != _move(notice):
            self._moves.setdefault(key, deque(maxlen=self._most)).append(notice)
        self._latest[key] = notice

    def keep(self, services: Iterable[_Key]) -> None:
        """Forget services that are gone."""
        there = {name for key in services for name in (key, ("", key[1]))}
        for gone in self._latest.keys() - there:
            del self._latest[gone], self._moves[gone]

    def moves(self, namespace: str, name: str) -> tuple[PlanNotice, ...]:
        """Return the moves of a service; a planner on one machine names it without a namespace."""
        return tuple(self._moves.get((namespace, name)) or self._moves.get(("", name)) or ())

    def latest(self, namespace: str, name: str) -> PlanNotice | None:
        return self._latest.get((namespace, name)) or self._latest.get(("", name))


def _move(notice: PlanNotice) -> tuple[int, int, int, bool, str]:
    return notice.prefill, notice.decode, notice.lent, notice.acting, notice.verdict
