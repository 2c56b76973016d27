"""promtool runs the rules over made-up series: each alert fires on its fault, and not without it.

Files are written as JSON, which is YAML to it.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from inferplane_api.v1alpha1 import InferenceService
from inferplane_observability import alerts, recording
from inferplane_observability.burn import PACES, service_groups
from inferplane_observability.rule_values import rule_file

SERVICE = InferenceService.model_validate(
    {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"namespace": "a", "name": "chat"},
        "spec": {
            "model": {"name": "m"},
            "engine": {"type": "sim"},
            "decode": {"replicas": 1},
            "slo": {"ttft": "2s", "tpot": "50ms", "percentile": 99, "window": "5m"},
        },
    }
)
_OF = 'namespace="a",service="chat"'
RULES = rule_file((recording.GROUP, *alerts.GROUPS, *service_groups(SERVICE, scrape_s=60)))
GOOD = {
    f"inferplane_router_objective_ratio{{{_OF}}}": "0.99x60",
    f'inferplane_router_workers{{{_OF},pool="chat-decode",health="ready"}}': "2x60",
    'inferplane_router_worker_kv_exact{worker="a/w",cause="none"}': "1x60",
    "inferplane_router_event_loop_delay_seconds": "0.001x60",
    f'inferplane_gateway_responses_total{{{_OF},status="200"}}': "0+60x60",
    f'inferplane_gateway_slo_requests_total{{{_OF},objective="ttft",priority="normal",tenant="",met="yes"}}': (
        "0+60x60"
    ),
    f'inferplane_gateway_slo_requests_total{{{_OF},objective="ttft",priority="normal",tenant="",met="no"}}': "0x60",
    f'inferplane_agent_canary_failures_total{{{_OF},pool="chat-decode"}}': "0x60",
    f'inferplane_agent_distrusted_prefill_workers{{{_OF},pool="chat-decode"}}': "0x60",
    f'inferplane_planner_decisions_total{{{_OF},move="stay"}}': "0+4x60",
    f'inferplane_planner_verdict{{{_OF},verdict="Pending"}}': "0x60",
    f'inferplane_operator_service_condition{{{_OF},condition="Ready",status="True"}}': "1x60",
    "inferplane_operator_leading": "1x60",
}
MISSED = f'inferplane_gateway_slo_requests_total{{{_OF},objective="%s",priority="normal",tenant="",met="no"}}'
FAULTS = {
    # Half of the streams miss from the 20th minute on.
    "InferplaneTTFTBudgetBurns": {MISSED % "ttft": "0x19 0+60x41"},
    "InferplaneTPOTBudgetBurns": {MISSED % "tpot": "0x19 0+60x41"},
    "InferplaneNoWorkers": {f'inferplane_router_workers{{{_OF},pool="chat-decode",health="ready"}}': "2x19 0x41"},
    "InferplaneRequestsFail": {f'inferplane_gateway_responses_total{{{_OF},status="503"}}': "0x19 0+10x41"},
    "InferplaneWorkersNotReady": {f'inferplane_router_workers{{{_OF},pool="p",health="starting"}}': "1x60"},
    "InferplaneKVRoutingUnhealthy": {
        'inferplane_router_worker_kv_exact{worker="a/x",cause="hash_seed"}': "0x60",
    },
    "InferplanePredictionsWrong": {
        f"inferplane_router_predicted_cached_tokens_total{{{_OF}}}": "0+100x60",
        f"inferplane_router_observed_cached_tokens_total{{{_OF}}}": "0+50x60",
    },
    "InferplaneStreamsBreak": {'inferplane_router_stream_failures_total{worker="a/w"}': "0+2x60"},
    "InferplaneRouterLoopLate": {"inferplane_router_event_loop_delay_seconds": "0.5x60"},
    "InferplaneCorruption": {
        f'inferplane_agent_canary_failures_total{{{_OF},pool="chat-decode"}}': "0x55 1x5",
    },
    "InferplaneStoredBlocksCorrupt": {
        f'inferplane_kvstore_corrupt_blocks_total{{{_OF},pool="p",store="s",tier="ssd"}}': "0x55 1x5",
    },
    "InferplaneEventGaps": {
        f'inferplane_agent_kv_event_gaps_total{{{_OF},pool="chat-decode",closed="no"}}': "0x55 1x5",
    },
    "InferplaneHandoffsFail": {f'inferplane_agent_handoff_failures_total{{{_OF},cause="lost"}}': "0+30x60"},
    "InferplaneTransportDegraded": {
        f'inferplane_agent_transport_degraded{{{_OF},pool="p",transport="tcp"}}': "1x60",
    },
    "InferplanePlannerStuck": {f'inferplane_planner_decisions_total{{{_OF},move="stay"}}': "0+4x30 120x30"},
    "InferplaneWorkersPending": {f'inferplane_planner_verdict{{{_OF},verdict="Pending"}}': "1x60"},
    "InferplaneObjectiveOutOfReach": {f'inferplane_planner_verdict{{{_OF},verdict="Limited"}}': "1x60"},
    "InferplaneServiceNotReady": {
        f'inferplane_operator_service_condition{{{_OF},condition="Ready",status="False"}}': "1x60",
    },
    "InferplaneServiceDegraded": {
        f'inferplane_operator_service_condition{{{_OF},condition="Degraded",status="True"}}': "1x60"
    },
    "InferplaneOperatorNotLeading": {"inferplane_operator_leading": "0x60"},
    "InferplaneOperatorFails": {
        'inferplane_operator_reconciles_total{kind="InferenceService",outcome="failed"}': "0+6x60"
    },
}
NAMES = sorted({rule["alert"] for group in RULES["groups"] for rule in group["rules"] if "alert" in rule})
BURNS = ("InferplaneTTFTBudgetBurns", "InferplaneTPOTBudgetBurns")
AT_MINUTE = 59


def ran(promtool: Path, folder: Path, series: Mapping[str, str], expected: Mapping[str, int]) -> str:
    """Return what promtool finds wrong: nothing where the alerts are as expected."""
    (folder / "rules.yaml").write_text(json.dumps(RULES), "utf-8")
    values = [{"series": name, "values": value} for name, value in series.items()]
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    samples = [{"labels": f'{{alertname="{name}"}}', "value": count} for name, count in expected.items()]
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": values,
                "promql_expr_test": [{"expr": query, "eval_time": f"{AT_MINUTE}m", "exp_samples": samples}],
            }
        ],
    }
    (folder / "test.yaml").write_text(json.dumps(test), "utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, check=False, timeout=170
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_a_fault_is_known_for_every_alert() -> None:
    assert sorted(FAULTS) == NAMES


@pytest.mark.slow
def test_nothing_fires_when_all_is_well(promtool: Path, tmp_path: Path) -> None:
    assert ran(promtool, tmp_path, GOOD, {}) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", BURNS)
def test_misses_burn_the_budget_of_their_objective_alone(promtool: Path, tmp_path: Path, name: str) -> None:
    assert ran(promtool, tmp_path, GOOD | FAULTS[name], {name: len(PACES)}) == ""


@pytest.mark.slow
def test_every_other_alert_fires_on_its_fault(promtool: Path, tmp_path: Path) -> None:
    """All at once: a run takes seconds, whatever is in it."""
    others = {name: fault for name, fault in FAULTS.items() if name not in BURNS}
    series = {name: values for fault in others.values() for name, values in fault.items()}

    assert ran(promtool, tmp_path, GOOD | series, dict.fromkeys(others, 1)) == ""


@pytest.mark.slow
def test_a_namesake_in_another_namespace_burns_nobody_elses_budget(promtool: Path, tmp_path: Path) -> None:
    theirs = {name.replace('namespace="a"', 'namespace="b"'): values for name, values in FAULTS[BURNS[0]].items()}

    assert ran(promtool, tmp_path, GOOD | theirs, {}) == ""


@pytest.mark.slow
def test_a_service_without_workers_is_not_hidden_by_its_namesake(promtool: Path, tmp_path: Path) -> None:
    theirs = {
        name.replace('namespace="a"', 'namespace="b"'): values for name, values in GOOD.items() if "router_" in name
    }

    assert ran(promtool, tmp_path, GOOD | theirs | FAULTS["InferplaneNoWorkers"], {"InferplaneNoWorkers": 1}) == ""
