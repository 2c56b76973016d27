"""`plan`: workers for a load, with the reason, in words and as JSON; what cannot be is said with what it takes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from inferplane.cli import root
from inferplane.context import Context


@pytest.fixture
def service(repository: Path) -> str:
    return (repository / "examples" / "sim.yaml").read_text(encoding="utf-8")


def plan(tmp_path: Path, manifest: str, *arguments: str) -> Result:
    file = tmp_path / "service.yaml"
    file.write_text(manifest, encoding="utf-8")
    context = Context(environment={}, working_dir=tmp_path)
    return CliRunner().invoke(root, ["plan", "-f", str(file), *arguments], obj=context)


LOAD = ("--workload", "reasoning", "--rate", "3", "--requests", "60")


def test_both_shapes_are_shown_with_cost_percentiles_and_reason(tmp_path: Path, service: str) -> None:
    result = plan(tmp_path, service, *LOAD, "--price", "=2.5")

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("load: reasoning at 3/s")
    assert lines[1] == "objective: TTFT 500ms, TPOT 50ms, for 0.99 of requests"
    assert [line.split()[0] for line in lines[2:5]] == ["SHAPE", "disaggregated", "aggregated"]
    assert "is the cheapest that keeps the objective" in result.stdout
    assert lines[-1].startswith("doubt: 20% of the queueing estimate")


def test_json_holds_what_the_tables_do(tmp_path: Path, service: str) -> None:
    told = json.loads(plan(tmp_path, service, *LOAD, "-o", "json").stdout)

    assert [each["shape"] for each in told["plans"]] == ["disaggregated", "aggregated"]
    first = told["plans"][0]
    assert first["verdict"] == "Met"
    assert [each["percentile"] for each in first["expected"]] == [50, 90, 95, 99]
    assert told["load"]["requests"] == 60


def test_an_objective_out_of_reach_fails_and_says_what_it_takes(tmp_path: Path, service: str) -> None:
    result = plan(tmp_path, service.replace("ttft: 500ms", "ttft: 1ms"), *LOAD)

    assert result.exit_code == 1
    assert "it takes a TTFT limit of" in result.stdout
    assert "no plan within the limits keeps the objective: Unattainable" in result.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of events on a machine that may be busy
def test_a_plan_is_checked_by_a_simulation(tmp_path: Path, service: str) -> None:
    result = plan(tmp_path, service, *LOAD[:-1], "16", "--check", "-o", "json")

    assert result.exit_code == 0, result.output
    first = json.loads(result.stdout)["plans"][0]
    assert first["held"]
    assert first["simulated"]["attainment"] >= 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param((), "give either --trace FILE or --workload NAME", id="nothing"),
        pytest.param((*LOAD, "--price", "h100"), "write CLASS=VALUE", id="no value"),
        pytest.param((*LOAD, "--price", "h100=nan"), "'nan' is no price", id="no number"),
        pytest.param((*LOAD, "--calibration", "h100=gone.json"), "gone.json: is no calibration", id="no file"),
        pytest.param(("--workload", "saas", "--requests", "3"), "say nothing of a rate", id="too few"),
    ],
)
def test_wrong_questions_are_refused_with_the_fix(
    tmp_path: Path, service: str, arguments: tuple[str, ...], message: str
) -> None:
    result = plan(tmp_path, service, *arguments)

    assert result.exit_code == 2
    assert message in result.output
