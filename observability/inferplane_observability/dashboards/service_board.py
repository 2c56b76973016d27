"""One service: its objectives and what is left of their budgets, then the parts of a request's time."""

from typing import Final

from inferplane_observability.burn import BUDGET_LEFT, MISSED
from inferplane_observability.dashboards.expressions import (
    NAMED,
    OF_SERVICE,
    largest,
    mean,
    none_is_zero,
    quantile,
    rate,
)
from inferplane_observability.dashboards.panel_values import Board, Good, Panel, Query, Row, Show
from inferplane_runtime.metrics.catalogue import agent, gateway, router
from inferplane_runtime.metrics.spec import MetricSpec

_POOL: Final = "namespace, pool"


def _limit(objective: str) -> Query:
    return Query(largest(router.OBJECTIVE, "", f'objective="{objective}"', OF_SERVICE), "objective", objective=True)


def _spread(spec: MetricSpec, *matchers: str) -> tuple[Query, ...]:
    found = (OF_SERVICE, *matchers)
    return tuple(Query(quantile(share, spec, "", *found), f"p{share * 100:g}") for share in (0.5, 0.9, 0.99))


BOARD: Final = Board(
    uid="inferplane-service",
    title="Inferplane / Service",
    meaning="One service: objectives, budgets, and where the time of a request goes.",
    rows=(
        Row(
            "Objectives",
            (
                Panel(
                    "Budget left",
                    "What is left of the share of streams that may miss, over 720 windows. Needs the service's rules.",
                    "percentunit",
                    (Query(f"{BUDGET_LEFT}{{{OF_SERVICE}}}", NAMED + " {{objective}}"),),
                    Show.NUMBER,
                    good=Good.HIGH,
                    bounds=(0.0, 0.25),
                    least=None,
                    most=1,
                ),
                Panel(
                    "Missed",
                    "Share of streams that missed, over the objective's own window and the short one beside it.",
                    "percentunit",
                    (Query(f'{MISSED}{{windows=~"1|0.08333",{OF_SERVICE}}}', "{{objective}} x{{windows}}"),),
                    width=16,
                    most=1,
                ),
                Panel(
                    "TTFT",
                    "From the complete request to the first piece of a stream, the router's queue included.",
                    "s",
                    (*_spread(gateway.TTFT), _limit("ttft")),
                ),
                Panel(
                    "TPOT",
                    "Mean time between pieces after the first, a stream.",
                    "s",
                    (*_spread(gateway.TPOT), _limit("tpot")),
                ),
                Panel(
                    "Gaps between pieces",
                    "Each gap for itself: what a reader feels as stutter.",
                    "s",
                    (*_spread(gateway.ITL), _limit("tpot")),
                ),
                Panel(
                    "Streams within limits",
                    "By priority, a second.",
                    "reqps",
                    (
                        Query(
                            rate(gateway.SLO_REQUESTS, "priority, met", 'objective="both"', OF_SERVICE),
                            "{{priority}} met: {{met}}",
                        ),
                    ),
                    width=12,
                ),
                Panel(
                    "Answers by status",
                    "A second.",
                    "reqps",
                    (Query(rate(gateway.RESPONSES, "status", OF_SERVICE), "{{status}}"),),
                    width=12,
                ),
            ),
        ),
        Row(
            "Where the time goes",
            (
                Panel(
                    "TTFT without the router",
                    "From an agent's acceptance to the first token: without the router's queue, with the engine's.",
                    "s",
                    _spread(agent.TTFT, 'side="decode"'),
                ),
                Panel(
                    "Waiting in the router",
                    "Of those that had to wait.",
                    "s",
                    (Query(none_is_zero(quantile(0.99, gateway.QUEUE_TIME, "", OF_SERVICE)), "p99"),),
                ),
                Panel(
                    "Prefill and transfer",
                    "Means: prompt sent to prefill's answer, and from there to the first token of the decode side.",
                    "s",
                    (
                        Query(mean(agent.PREFILL_TIME, "", OF_SERVICE), "prefill"),
                        Query(mean(agent.TRANSFER_TIME, "", OF_SERVICE), "transfer"),
                    ),
                ),
                Panel(
                    "Whole requests",
                    "From the complete request to the end of its answer.",
                    "s",
                    _spread(gateway.REQUEST_DURATION),
                ),
                Panel(
                    "Predicted and seen TTFT",
                    "Means; the router predicts with its queue.",
                    "s",
                    (
                        Query(mean(router.PREDICTED_TTFT, "", OF_SERVICE), "predicted"),
                        Query(mean(gateway.TTFT, "", OF_SERVICE), "seen"),
                    ),
                ),
                Panel(
                    "Predicted and seen cached tokens",
                    "A second, for requests whose prediction was compared with the engine's number.",
                    "short",
                    (
                        Query(rate(router.PREDICTED_CACHED, "", OF_SERVICE), "predicted"),
                        Query(rate(router.OBSERVED_CACHED, "", OF_SERVICE), "seen"),
                    ),
                ),
            ),
        ),
        Row(
            "Engines",
            (
                Panel(
                    "Running and waiting",
                    "As the engines say.",
                    "short",
                    (
                        Query(
                            f"sum by ({_POOL}) ({agent.ENGINE_RUNNING.name}{{{OF_SERVICE}}})",
                            "{{namespace}}/{{pool}} running",
                        ),
                        Query(
                            f"sum by ({_POOL}) ({agent.ENGINE_WAITING.name}{{{OF_SERVICE}}})",
                            "{{namespace}}/{{pool}} waiting",
                        ),
                    ),
                ),
                Panel(
                    "KV blocks in use",
                    "Share, of the fullest engine of a pool.",
                    "percentunit",
                    (Query(largest(agent.ENGINE_KV_USAGE, _POOL, OF_SERVICE), "{{namespace}}/{{pool}}"),),
                    most=1,
                ),
                Panel(
                    "Tokens of engines",
                    "A second, by pool: prompts taken, of them found in a cache, and output.",
                    "short",
                    (
                        Query(rate(agent.ENGINE_PROMPT_TOKENS, _POOL, OF_SERVICE), "{{namespace}}/{{pool}} prompt"),
                        Query(rate(agent.ENGINE_CACHED_TOKENS, _POOL, OF_SERVICE), "{{namespace}}/{{pool}} cached"),
                        Query(rate(agent.ENGINE_OUTPUT_TOKENS, _POOL, OF_SERVICE), "{{namespace}}/{{pool}} output"),
                    ),
                ),
                Panel(
                    "Preemptions",
                    "Requests that engines set back for want of blocks, a second.",
                    "short",
                    (Query(rate(agent.ENGINE_PREEMPTIONS, _POOL, OF_SERVICE), "{{namespace}}/{{pool}}"),),
                    width=12,
                ),
                Panel(
                    "Engines ready",
                    "Agents whose engine answers and whose canary passed.",
                    "short",
                    (Query(f"sum by ({_POOL}) ({agent.ENGINE_UP.name}{{{OF_SERVICE}}})", "{{namespace}}/{{pool}}"),),
                    width=12,
                ),
            ),
        ),
    ),
)
