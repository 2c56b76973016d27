"""Alerts that do not depend on a service's objective: what breaks, whatever was promised.

Each says what a person would have to find out otherwise, and where to look; those on objectives are in `burn`.
"""

from typing import Final

from inferplane_observability.rule_values import SERVICE, Alert, Group, Severity
from inferplane_runtime.metrics.catalogue import agent, kube_operator, kv_store, planner, router

_MINUTE: Final = 60.0
_NAMED: Final = "{{ $labels.namespace }}/{{ $labels.service }}"
_POOL: Final = "{{ $labels.namespace }}/{{ $labels.pool }}"
_CONDITION: Final = kube_operator.SERVICE_CONDITION.name

ROUTING: Final = (
    Alert(
        "InferplaneNoWorkers",
        f"max by ({SERVICE}) ({router.OBJECTIVE_RATIO.name}) unless on ({SERVICE}) "
        f'(max by ({SERVICE}) ({router.WORKERS.name}{{health="ready"}}) > 0)',
        Severity.PAGE,
        f"{_NAMED} has no worker that takes requests.",
        "no-workers",
        wait_s=2 * _MINUTE,
    ),
    Alert(
        "InferplaneRequestsFail",
        "inferplane:requests_failed:ratio_rate5m > 0.05",
        Severity.PAGE,
        f"{{{{ $value | humanizePercentage }}}} of the answers of {_NAMED} are errors of the server.",
        "requests-fail",
        wait_s=2 * _MINUTE,
    ),
    Alert(
        "InferplaneWorkersNotReady",
        f'sum by ({SERVICE}, pool) (max by ({SERVICE}, pool, health) ({router.WORKERS.name}{{health!="ready"}})) > 0',
        Severity.TICKET,
        f"{{{{ $value }}}} workers of {_POOL} are there and take no requests.",
        "workers-not-ready",
        wait_s=15 * _MINUTE,
    ),
    Alert(
        "InferplaneKVRoutingUnhealthy",
        f'max by (worker, cause) ({router.WORKER_EXACT.name}{{cause!="events_off"}}) == 0',
        Severity.TICKET,
        "What {{ $labels.worker }} holds in its cache is only guessed: {{ $labels.cause }}.",
        "kv-routing-unhealthy",
        wait_s=5 * _MINUTE,
    ),
    Alert(
        "InferplanePredictionsWrong",
        "abs(inferplane:prefix_prediction_error:ratio_rate5m) > 0.2",
        Severity.TICKET,
        f"Cached tokens of {_NAMED} differ from what the router predicted by {{{{ $value | humanizePercentage }}}}.",
        "predictions-wrong",
        wait_s=15 * _MINUTE,
    ),
    Alert(
        "InferplaneStreamsBreak",
        f"sum by (worker) (increase({router.STREAM_FAILURES.name}[10m])) > 5",
        Severity.TICKET,
        "The stream of {{ $labels.worker }} broke {{ $value | humanize }} times in ten minutes.",
        "streams-break",
        wait_s=5 * _MINUTE,
    ),
    Alert(
        "InferplaneRouterLoopLate",
        f"max({router.LOOP_DELAY.name}) > 0.25",
        Severity.TICKET,
        "A router's event loop runs {{ $value | humanizeDuration }} late: it has too little CPU time.",
        "router-loop-late",
        wait_s=5 * _MINUTE,
    ),
)

WORKERS: Final = (
    Alert(
        "InferplaneCorruption",
        f"sum by ({SERVICE}, pool) (increase({agent.CANARY_FAILURES.name}[10m])) > 0 "
        f"or max by ({SERVICE}, pool) ({agent.DISTRUSTED_PEERS.name}) > 0",
        Severity.PAGE,
        f"An engine of {_POOL} gave a wrong answer to a prompt whose answer is known.",
        "corruption",
    ),
    Alert(
        "InferplaneStoredBlocksCorrupt",
        f"sum by ({SERVICE}, pool, tier) (increase({kv_store.CORRUPT.name}[10m])) > 0",
        Severity.TICKET,
        f"Blocks that workers of {_POOL} read from {{{{ $labels.tier }}}} were damaged; they were not used.",
        "corruption",
    ),
    Alert(
        "InferplaneEventGaps",
        f'sum by ({SERVICE}, pool) (increase({agent.KV_EVENT_GAPS.name}{{closed="no"}}[10m])) > 0',
        Severity.TICKET,
        f"Engines of {_POOL} lost events of their cache that no replay brought back.",
        "event-gaps",
    ),
    Alert(
        "InferplaneHandoffsFail",
        f"sum by ({SERVICE}, cause) (rate({agent.HANDOFF_FAILURES.name}[5m])) > 0.1",
        Severity.TICKET,
        f"Hand-offs of {_NAMED} fail: {{{{ $labels.cause }}}}.",
        "handoffs-fail",
        wait_s=5 * _MINUTE,
    ),
    Alert(
        "InferplaneTransportDegraded",
        f"max by ({SERVICE}, pool, transport) ({agent.TRANSPORT_DEGRADED.name}) > 0",
        Severity.TICKET,
        f"KV of {_POOL} moves over {{{{ $labels.transport }}}}, which is not what was asked for.",
        "transport-degraded",
        wait_s=10 * _MINUTE,
    ),
)

PLANNING: Final = (
    Alert(
        "InferplanePlannerStuck",
        f"sum by ({SERVICE}) (increase({planner.DECISIONS.name}[10m])) == 0",
        Severity.TICKET,
        f"The planner has decided nothing about {_NAMED} for ten minutes.",
        "planner-stuck",
        wait_s=5 * _MINUTE,
    ),
    Alert(
        "InferplaneWorkersPending",
        f'max by ({SERVICE}) ({planner.VERDICT.name}{{verdict="Pending"}}) == 1',
        Severity.TICKET,
        f"Workers of {_NAMED} wait for devices.",
        "workers-pending",
        wait_s=10 * _MINUTE,
    ),
    Alert(
        "InferplaneObjectiveOutOfReach",
        f'max by ({SERVICE}, verdict) ({planner.VERDICT.name}{{verdict=~"Unattainable|Limited|Budget"}}) == 1',
        Severity.TICKET,
        f"The planner cannot keep the objective of {_NAMED}: {{{{ $labels.verdict }}}}.",
        "objective-out-of-reach",
        wait_s=15 * _MINUTE,
    ),
)

OPERATOR: Final = (
    Alert(
        "InferplaneServiceNotReady",
        f'max by ({SERVICE}) ({_CONDITION}{{condition="Ready",status!="True"}}) == 1',
        Severity.TICKET,
        f"{_NAMED} is not Ready.",
        "service-not-ready",
        wait_s=15 * _MINUTE,
    ),
    Alert(
        "InferplaneServiceDegraded",
        f'max by ({SERVICE}) ({_CONDITION}{{condition="Degraded",status="True"}}) == 1',
        Severity.TICKET,
        f"{_NAMED} serves with less than was asked for.",
        "service-not-ready",
        wait_s=15 * _MINUTE,
    ),
    Alert(
        "InferplaneOperatorNotLeading",
        f"max({kube_operator.LEADING.name}) == 0",
        Severity.PAGE,
        "No operator holds the Lease: services are not reconciled.",
        "operator-not-leading",
        wait_s=5 * _MINUTE,
    ),
    Alert(
        "InferplaneOperatorFails",
        f'sum by (kind) (rate({kube_operator.RECONCILES.name}{{outcome=~"failed|defect"}}[5m])) > 0.05',
        Severity.TICKET,
        "Looks at objects of kind {{ $labels.kind }} fail.",
        "operator-fails",
        wait_s=10 * _MINUTE,
    ),
)

GROUPS: Final = (
    Group("inferplane-routing", ROUTING),
    Group("inferplane-workers", WORKERS),
    Group("inferplane-planning", PLANNING),
    Group("inferplane-operator", OPERATOR),
)
ALL: Final = (*ROUTING, *WORKERS, *PLANNING, *OPERATOR)
