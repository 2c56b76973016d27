from pathlib import Path

import pytest
import yaml

from inferplane.testing import Call

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "llama-8b-h100.yaml")


def test_a_rule_file_holds_the_objectives_of_the_service_alone(call: Call) -> None:
    result = call("rules", "-f", EXAMPLE)
    groups = yaml.safe_load(result.stdout)["groups"]

    assert result.exit_code == 0, result.output
    assert [group["name"] for group in groups] == [
        "inferplane-inference-llama-8b-budget",
        "inferplane-inference-llama-8b-alerts",
    ]


def test_the_object_for_a_cluster_is_of_the_services_namespace(call: Call) -> None:
    made = yaml.safe_load(
        call("rules", "-f", EXAMPLE, "--kubernetes", "--runbooks", "https://wiki.example/runbooks").stdout
    )
    alerts = [rule for group in made["spec"]["groups"] for rule in group["rules"] if "alert" in rule]

    assert (made["kind"], made["metadata"]["namespace"]) == ("PrometheusRule", "inference")
    assert alerts[0]["annotations"]["runbook_url"] == "https://wiki.example/runbooks/budget-burns.md"


def test_general_rules_come_on_request(call: Call) -> None:
    groups = yaml.safe_load(call("rules", "-f", EXAMPLE, "--general").stdout)["groups"]

    assert {"inferplane-derived", "inferplane-routing"} <= {group["name"] for group in groups}


@pytest.mark.parametrize("given", ["0", "-1", "soon"])
def test_an_interval_that_is_none_is_refused(call: Call, given: str) -> None:
    assert call("rules", "-f", EXAMPLE, "--scrape-interval", given).exit_code == 2
