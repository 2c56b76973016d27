"""Routers: what they decide, how well they know the workers' caches, and what they themselves cost."""

from typing import Final

from inferplane_observability.dashboards.expressions import (
    NAMED,
    OF_SERVICE,
    RATE,
    largest,
    none_is_zero,
    quantile,
    rate,
    total,
)
from inferplane_observability.dashboards.panel_values import Board, Panel, Query, Row
from inferplane_observability.rule_values import SERVICE
from inferplane_runtime.metrics.catalogue import agent, gateway, router

_EXACT: Final = 'exact="yes"'
_SIDES: Final = f"{SERVICE}, side"
BOARD: Final = Board(
    uid="inferplane-router",
    title="Inferplane / Router",
    meaning="Choices, knowledge of caches, streams, and the router processes themselves.",
    rows=(
        Row(
            "Choices",
            (
                Panel(
                    "Picks", "By outcome, a second.", "reqps", (Query(rate(router.PICKS, "outcome"), "{{outcome}}"),)
                ),
                Panel(
                    "Time to pick",
                    "Hashing the prompt and choosing workers.",
                    "s",
                    (
                        Query(quantile(0.5, gateway.PICK_TIME), "p50"),
                        Query(quantile(0.99, gateway.PICK_TIME), "p99"),
                    ),
                ),
                Panel(
                    "Time to tokenise",
                    "Template and tokenizer.",
                    "s",
                    (
                        Query(quantile(0.5, gateway.TOKENISE_TIME), "p50"),
                        Query(quantile(0.99, gateway.TOKENISE_TIME), "p99"),
                    ),
                ),
                Panel(
                    "Requests on workers",
                    "As agents report.",
                    "short",
                    (Query(largest(router.WORKER_IN_FLIGHT, "worker"), "{{worker}}"),),
                    width=12,
                ),
                Panel(
                    "Prompt tokens still to compute",
                    "By worker.",
                    "short",
                    (Query(largest(router.WORKER_UNCACHED, "worker"), "{{worker}}"),),
                    width=12,
                ),
            ),
        ),
        Row(
            "What is known of caches",
            (
                Panel(
                    "Predictions that were right",
                    "Share of compared requests, right to the token.",
                    "percentunit",
                    (
                        Query(
                            f"{rate(router.PREDICTIONS, _SIDES, _EXACT, OF_SERVICE)} "
                            f"/ {rate(router.PREDICTIONS, _SIDES, OF_SERVICE)}",
                            NAMED + " {{side}}",
                        ),
                    ),
                    most=1,
                ),
                Panel(
                    "Workers known exactly",
                    "1 where a cache is known from events, 0 where it is guessed, with the cause.",
                    "short",
                    (Query(largest(router.WORKER_EXACT, "worker, cause"), "{{worker}} {{cause}}"),),
                    most=1,
                ),
                Panel(
                    "Mismatches and resyncs",
                    "Workers put into approximate mode, by cause, and snapshots asked for anew; a second.",
                    "short",
                    (
                        Query(none_is_zero(rate(router.MISMATCHES, "cause")), "{{cause}}"),
                        Query(rate(router.RESYNCS), "resyncs"),
                    ),
                ),
                Panel(
                    "Blocks in the index",
                    "Of each process.",
                    "short",
                    (Query(largest(router.INDEX_BLOCKS, "instance"), "{{instance}}"),),
                    width=6,
                ),
                Panel(
                    "Memory of the index",
                    "Of each process.",
                    "bytes",
                    (Query(largest(router.INDEX_BYTES, "instance"), "{{instance}}"),),
                    width=6,
                ),
                Panel(
                    "Blocks by worker",
                    "In the index.",
                    "short",
                    (Query(largest(router.WORKER_BLOCKS, "worker"), "{{worker}}"),),
                    width=6,
                ),
                Panel(
                    "Events of engines",
                    "Block events a second, by kind, and gaps that no replay closed.",
                    "short",
                    (
                        Query(rate(agent.KV_EVENTS, "kind"), "{{kind}}"),
                        Query(none_is_zero(rate(agent.KV_EVENT_GAPS, "", 'closed="no"')), "gaps"),
                    ),
                    width=6,
                ),
            ),
        ),
        Row(
            "Processes",
            (
                Panel(
                    "CPU",
                    "Seconds of CPU time a second, of each router.",
                    "short",
                    (
                        Query(
                            f"rate(process_cpu_seconds_total[{RATE}]) and on (instance) {router.LOOP_DELAY.name}",
                            "{{instance}}",
                        ),
                    ),
                    width=6,
                ),
                Panel(
                    "Lateness of the event loop",
                    "How late the last timer ran.",
                    "s",
                    (Query(largest(router.LOOP_DELAY, "instance"), "{{instance}}"),),
                    width=6,
                ),
                Panel(
                    "Streams to workers",
                    "Connected streams, and how old their last message was.",
                    "short",
                    (Query(total(router.STREAMS, "instance, state"), "{{instance}} {{state}}"),),
                    width=6,
                ),
                Panel(
                    "Age of news",
                    "Of the last message of the slowest worker, by the agent's clock.",
                    "s",
                    (Query(largest(router.STREAM_LAG, "instance"), "{{instance}}"),),
                    width=6,
                ),
                Panel(
                    "Client connections",
                    "Open now, and requests in answer.",
                    "short",
                    (
                        Query(total(gateway.CONNECTIONS), "connections"),
                        Query(total(gateway.RUNNING), "requests"),
                    ),
                    width=12,
                ),
                Panel(
                    "Clients that left and answers that broke",
                    "A second.",
                    "reqps",
                    (
                        Query(none_is_zero(rate(gateway.DISCONNECTS)), "left"),
                        Query(none_is_zero(rate(gateway.UPSTREAM_FAILURES, "cause")), "{{cause}}"),
                    ),
                    width=12,
                ),
            ),
        ),
    ),
)
