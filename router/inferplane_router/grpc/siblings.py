"""The other processes of a router, as its gRPC service sees them.

A caller's connection leads to one of them, and what it asks about may have been routed by another.
"""

from typing import Any, Final, Protocol

from inferplane_api.proto import router_pb2 as pb


class Siblings(Protocol):
    """Whoever else routes in the name of this router."""

    async def explain(self, request_id: str, /) -> pb.DecisionRecord | None:
        """Return the record of a request that one of them has routed."""
        ...

    def complete(self, request: pb.CompleteRequest, /) -> None:
        """Tell them that a request has ended which may be theirs."""
        ...

    def planned(self, notice: pb.PlanNotice, /) -> None:
        """Pass on what a planner has decided."""
        ...

    async def pictures(self) -> list[dict[str, Any]]:
        """Return what each of them has to show on a console (`console.picture`)."""
        ...


class _Nobody:
    async def explain(self, _: str, /) -> pb.DecisionRecord | None:
        return None

    def complete(self, _: pb.CompleteRequest, /) -> None: ...

    def planned(self, _: pb.PlanNotice, /) -> None: ...

    async def pictures(self) -> list[dict[str, Any]]:
        return []


NO_SIBLINGS: Final[Siblings] = _Nobody()
