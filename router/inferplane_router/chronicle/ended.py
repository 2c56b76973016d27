"""What became of one request, as far as an account needs it: a few values out of a decision and its reports."""

from collections.abc import Sequence

from inferplane_api.proto.worker_pb2 import RequestReport
from inferplane_router.core.records import Decision
from inferplane_runtime.values import value


@value(frozen=True, slots=True)
class Ended:
    """One request that ended."""

    service: str
    """NAMESPACE/NAME."""
    worker: str
    """Who was to answer; empty: nobody."""
    ttft_s: float
    """As it was predicted."""
    tpot_s: float
    reports: Sequence[RequestReport]


def ended(decision: Decision) -> Ended:
    service, choice = decision.ask.model.service, decision.choice
    _, worker = decision.places
    return Ended(f"{service.namespace}/{service.name}", worker, choice.ttft_s, choice.tpot_s, decision.reports)
