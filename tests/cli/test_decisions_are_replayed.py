"""`replay`: recorded decisions made again by what their records hold; what they do not hold is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from inferplane.cli import root
from inferplane.context import Context
from inferplane_engine.profiles import CPU_TEST
from inferplane_planner.act.journal import Decided, Journal
from inferplane_planner.core.contract import Observations, Spec, State, Workers
from inferplane_planner.core.engine_model import EngineModel
from inferplane_planner.core.solve import Bounds, Objective
from inferplane_planner.core.step import step
from inferplane_planner.core.times import EngineTimes


def replay(tmp_path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(root, ["replay", *arguments], obj=Context(environment={}, working_dir=tmp_path))


def candidate(worker: str, cost_ms: float, *, decode: float = 0.0, cached: int = 0, **more: Any) -> dict[str, Any]:
    terms = {"own_ttft": cost_ms - decode, "decode": decode}
    return {"decodeWorker": worker, "costMs": cost_ms, "termsMs": terms, "decodeHitTokens": cached, **more}


def record(name: str, *candidates: dict[str, Any]) -> dict[str, Any]:
    return {"requestId": name, "outcome": "PICK_OUTCOME_ROUTED", "policy": "kv-aware", "candidates": list(candidates)}


ROUTED = [
    record("cheapest", candidate("a", 10.0, chosen=True), candidate("b", 30.0, cached=512)),
    record("near", candidate("a", 100.5, chosen=True), candidate("b", 100.0)),
    record("dear", candidate("a", 90.0, decode=60.0, chosen=True), candidate("b", 50.0)),
    record("alone", candidate("a", 5.0, chosen=True), candidate("b", 1.0, excludedBecause="draining")),
    {"requestId": "refused", "outcome": "PICK_OUTCOME_QUEUE_FULL"},
]


@pytest.fixture
def records(tmp_path: Path) -> str:
    file = tmp_path / "decisions.jsonl"
    file.write_text("\n".join(json.dumps(each) for each in ROUTED), encoding="utf-8")
    return str(file)


def test_a_router_s_decisions_are_made_again_by_their_costs(tmp_path: Path, records: str) -> None:
    result = replay(tmp_path, "--records", records)

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "1 of 3 requests go to the same workers (33.3%), 1 more to some as good; 2 had no choice"
    )
    assert [line.split()[0] for line in lines[1:]] == ["REQUEST", "dear", "near"]


def test_a_weight_changes_what_is_cheapest(tmp_path: Path, records: str) -> None:
    told = json.loads(replay(tmp_path, "--records", records, "--weight", "decode=0", "-o", "json").stdout)

    assert told["same"] == 2
    assert [each["request"] for each in told["differences"]] == ["near"]


def test_another_rule_goes_by_cached_tokens(tmp_path: Path, records: str) -> None:
    told = json.loads(replay(tmp_path, "--records", records, "--policy", "most-cached", "-o", "json").stdout)
    first = next(each for each in told["differences"] if each["request"] == "cheapest")

    assert first == {
        "request": "cheapest",
        "recorded": "a",
        "hadCached": "0",
        "now": "b",
        "hasCached": "512",
        "dearerMs": "-20.0",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("--policy", "round-robin"), "records do not hold; play it with `inferplane simulate`", id="loads"
        ),
        pytest.param(("--policy", "best"), "'best' is unknown; use one of kv-aware, most-cached", id="unknown"),
        pytest.param(("--weight", "decode"), "write TERM=N", id="no factor"),
        pytest.param(("--weight", "luck=2"), "no cost has a term 'luck'; there are: decode, own_ttft", id="no term"),
    ],
)
def test_what_records_cannot_answer_is_refused(
    tmp_path: Path, records: str, arguments: tuple[str, ...], message: str
) -> None:
    result = replay(tmp_path, "--records", records, *arguments)

    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "holds no decision", id="empty"),
        pytest.param("{]", "decisions.jsonl:1: is not JSON", id="no JSON"),
        pytest.param("[1]", "decisions.jsonl:1: is not an object", id="no object"),
        pytest.param('{"a": 1}', "is neither a router's nor a planner's decision", id="something else"),
        pytest.param('{"requestId": "x", "candidates": 3}', "--records: x:", id="damaged"),
        pytest.param('{"observations": {}, "plan": {}}', "--records:", id="damaged plan"),
    ],
)
def test_bad_files_are_refused_with_line_and_fix(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "decisions.jsonl"
    file.write_text(text, encoding="utf-8")
    result = replay(tmp_path, "--records", str(file))

    assert result.exit_code == 2
    assert message in result.output


def journal(path: Path, steps: int) -> None:
    """Write what a planner decides while nobody asks."""
    engine = EngineTimes(CPU_TEST)
    spec = Spec(Objective(1.0, 0.1), EngineModel(engine, engine), decode=Bounds(1, 4))
    state, file = State(), Journal(path)
    for number in range(steps):
        seen, now = Observations(decode=Workers(2, 2)), 15.0 * (number + 1)
        state, plan = step(state, seen, spec, now)
        file.write(Decided("chat", now, number == 0, seen, spec, plan))


def test_a_planner_s_decisions_are_made_again_from_what_it_saw(tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    journal(path, 3)
    text = path.read_text(encoding="utf-8").splitlines()
    altered = json.loads(text[1])
    altered["plan"]["decode"] = 4
    path.write_text("\n".join([text[0], json.dumps(altered), text[2]]), encoding="utf-8")
    told = json.loads(replay(tmp_path, "--records", str(path), "-o", "json").stdout)

    assert (told["kind"], told["decisions"], told["same"]) == ("plans", 3, 2)
    assert [(each["recorded"], each["now"]) for each in told["differences"]] == [("4A Unknown", "2A Unknown")]


def test_kinds_are_not_mixed(tmp_path: Path, records: str) -> None:
    journal(tmp_path / "plans.jsonl", 1)
    result = replay(tmp_path, "--records", records, "--records", str(tmp_path / "plans.jsonl"))

    assert result.exit_code == 2
    assert "one kind at a time" in result.output
