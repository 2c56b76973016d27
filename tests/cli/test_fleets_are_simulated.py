"""`simulate`: results on standard output in three forms, wrong questions refused with the fix."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from inferplane.cli import root
from inferplane.context import Context

SMALL = ("--profile", "cpu-test", "--workers", "2", "--requests", "12")


def simulate(tmp_path: Path, *arguments: str) -> Result:
    context = Context(environment={}, working_dir=tmp_path)
    return CliRunner().invoke(root, ["simulate", *arguments], obj=context)


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of events on a machine that may be busy
def test_a_workload_gives_a_row_for_each_policy(tmp_path: Path) -> None:
    result = simulate(
        tmp_path, "--workload", "saas", "--policy", "kv-aware", "--policy", "round-robin", "--seeds", "2", *SMALL
    )

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("load: saas at 1/s, fleet: 2 decode x cpu-test")
    assert [line.split()[0] for line in lines[1:]] == ["POLICY", "kv-aware", "round-robin"]
    assert "±" in lines[2]


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of events on a machine that may be busy
def test_a_manifest_says_what_the_fleet_is(tmp_path: Path, repository: Path) -> None:
    file = str(repository / "examples" / "sim.yaml")
    arguments = ("--workload", "reasoning", "-f", file, "-o", "json", "--profile", "cpu-test", "--requests", "5")
    result = simulate(tmp_path, *arguments)

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["asked"]["fleet"] == "1 prefill x cpu-test, 2 decode x cpu-test"
    assert told["asked"]["SLO"] == "TTFT 0.5 s, TPOT 0.05 s"
    assert told["runs"][0]["requests"] == 5


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of events on a machine that may be busy
def test_the_page_stands_alone(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": 100 * at, "input_length": 600, "output_length": 9, "hash_ids": [1, 10 + at]} for at in range(8)
    ]
    trace.write_text("\n".join(json.dumps(line) for line in lines))
    result = simulate(tmp_path, "--trace", str(trace), "-o", "html", "--profile", "cpu-test", "--workers", "2")

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.count("<svg") == 6
    assert "prefers-color-scheme: dark" in result.stdout
    assert not re.search(r"(src|href)=|https?://|nan", result.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param((), "give either --trace FILE or --workload NAME", id="nothing"),
        pytest.param(("--workload", "saas", "--profile", "z80"), "--profile: unknown profile 'z80'", id="profile"),
        pytest.param(("--workload", "saas", "--rate", "1", "--load", "1"), "either --rate or --load", id="two loads"),
        pytest.param(("--workload", "saas", "--warm-up", "9s", "--duration", "5s"), "duration: ends", id="no time"),
    ],
)
def test_wrong_questions_are_refused_with_the_fix(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = simulate(tmp_path, *arguments)

    assert result.exit_code == 2
    assert message in result.output


def test_an_unsorted_trace_is_refused_with_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    line = '{"timestamp": %d, "input_length": 9, "output_length": 9, "hash_ids": [1]}\n'
    trace.write_text(line % 5000 + line % 1000)
    result = simulate(tmp_path, "--trace", str(trace), "--profile", "cpu-test")

    assert result.exit_code == 2
    assert "trace.jsonl:2: comes before the line above" in result.output
