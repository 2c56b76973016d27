"""The operator: whether it keeps up, what it writes, and what services say of themselves."""

from typing import Final

from inferplane_observability.dashboards.expressions import largest, none_is_zero, quantile, rate, total
from inferplane_observability.dashboards.panel_values import Board, Good, Panel, Query, Row, Show
from inferplane_runtime.metrics.catalogue import kube_operator as names

BOARD: Final = Board(
    uid="inferplane-operator",
    title="Inferplane / Operator",
    meaning="Conditions of services, and the operator's own work.",
    of_services=False,
    rows=(
        Row(
            "Services",
            (
                Panel(
                    "Ready",
                    "Services that serve with their current spec.",
                    "short",
                    (
                        Query(
                            f'count({names.SERVICE_CONDITION.name}{{condition="Ready",status="True"}}) or vector(0)',
                            "ready",
                        ),
                    ),
                    Show.NUMBER,
                ),
                Panel(
                    "Not ready",
                    "Services whose Ready is False or Unknown.",
                    "short",
                    (
                        Query(
                            f'count({names.SERVICE_CONDITION.name}{{condition="Ready",status!="True"}}) or vector(0)',
                            "not ready",
                        ),
                    ),
                    Show.NUMBER,
                    good=Good.LOW,
                    bounds=(1, 0.5),
                ),
                Panel(
                    "Conditions",
                    "Services by condition and status.",
                    "short",
                    (
                        Query(
                            f"count by (condition, status) ({names.SERVICE_CONDITION.name})", "{{condition}} {{status}}"
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Work",
            (
                Panel(
                    "Looks",
                    "At objects, a second, by how they ended.",
                    "short",
                    (Query(rate(names.RECONCILES, "kind, outcome"), "{{kind}} {{outcome}}"),),
                ),
                Panel(
                    "Time of a look",
                    "99th percentile, writes included.",
                    "s",
                    (Query(quantile(0.99, names.RECONCILE_DURATION, "kind"), "{{kind}}"),),
                ),
                Panel("Due", "Objects that wait for a look.", "short", (Query(total(names.QUEUE_DEPTH), "due"),)),
                Panel(
                    "Writes",
                    "A second; needless ones were left out.",
                    "short",
                    (Query(rate(names.WRITES, "verb, kind, outcome"), "{{verb}} {{kind}} {{outcome}}"),),
                ),
                Panel(
                    "Holds the Lease",
                    "1 for the process that leads.",
                    "short",
                    (Query(largest(names.LEADING, "instance"), "{{instance}}"),),
                    most=1,
                ),
                Panel(
                    "Last event of a kind",
                    "How long ago.",
                    "s",
                    (Query(f"min by (kind) ({names.WATCH_AGE.name})", "{{kind}}"),),
                ),
                Panel(
                    "Differences found",
                    "Objects that watches had missed or that were gone without a word; and watches started anew.",
                    "short",
                    (
                        Query(
                            none_is_zero(rate(names.AUDIT_DIFFERENCES, "kind, difference")), "{{kind}} {{difference}}"
                        ),
                        Query(rate(names.WATCH_RESTARTS), "watches started anew"),
                    ),
                    width=12,
                ),
                Panel(
                    "Objects", "In the store.", "short", (Query(largest(names.WATCHED_OBJECTS), "objects"),), width=12
                ),
            ),
        ),
    ),
)
