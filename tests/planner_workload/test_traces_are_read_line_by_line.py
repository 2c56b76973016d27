"""Recorded traces: forms, errors that name the line, the public files where they are present."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferplane_planner.workload.errors import WorkloadError
from inferplane_planner.workload.prompts import Request, shared_tokens
from inferplane_planner.workload.traces import Trace

PUBLIC = Path(__file__).parents[3] / "shared" / "traces"


def line(**changes: Any) -> str:
    entry = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2], **changes}
    return json.dumps(entry) + "\n"


def written(folder: Path, *lines: str, name: str = "trace.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(lines), "utf-8")
    return path


def everything(trace: Trace) -> list[Request]:
    requests: list[Request] = []
    while trace.peek() is not None:
        requests.append(trace.take())
    return requests


def test_equal_blocks_are_equal_text(tmp_path: Path) -> None:
    path = written(tmp_path, line(), "\n", line(timestamp=1500, hash_ids=[1, 3]), line(timestamp=1500, hash_ids=[4, 2]))
    first, second, third = everything(Trace(path, speed=3.0))

    assert (first.at_s, second.at_s, third.at_s) == (0.0, 0.5, 0.5)
    assert first.prompt.tokens == 600
    assert first.output_tokens == 5
    assert shared_tokens(first.prompt.pieces, second.prompt.pieces) == 512
    assert shared_tokens(first.prompt.pieces, third.prompt.pieces) == 0


def test_a_table_begins_at_its_first_moment(tmp_path: Path) -> None:
    rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.5,48,10\n2023-11-16 18:18:03.7500000,31,8\n"
    first, second = everything(Trace(written(tmp_path, rows, name="t.csv")))

    assert first.at_s == 0.0
    assert second.at_s == pytest.approx(60.25)
    assert [(each.prompt.tokens, each.output_tokens) for each in (first, second)] == [(48, 10), (31, 8)]
    assert shared_tokens(first.prompt.pieces, second.prompt.pieces) == 0


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param(["{"], r"trace.jsonl:1: is not JSON", id="no JSON"),
        pytest.param(["[]\n"], r":1: is not an object", id="no object"),
        pytest.param([line(), line(timestamp=-5)], r":2: comes before the line above; sort", id="unsorted"),
        pytest.param([line(timestamp=float("nan"))], r"timestamp is nan", id="nan time"),
        pytest.param([line(timestamp=None)], r"timestamp is None", id="no time"),
        pytest.param([line(input_length=-1)], r"input_length is -1", id="negative length"),
        pytest.param([line(output_length=0)], r"output_length is 0", id="empty answer"),
        pytest.param([line(output_length=float("nan"))], r"output_length is nan", id="nan length"),
        pytest.param([line(input_length=1.5)], r"input_length is 1.5", id="half a token"),
        pytest.param([line(hash_ids=[1])], r"1 hash_ids for 600 tokens; give 2", id="too few blocks"),
        pytest.param([line(hash_ids=None)], r"hash_ids is not a list", id="no blocks"),
        pytest.param([line(hash_ids=[1, -2])], r"hash_ids is not a list of whole", id="negative block"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, lines: list[str], words: str) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(WorkloadError, match=words):
        everything(Trace(path))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param("a,b\n1,2\n", r"t.csv:1: has the columns", id="columns"),
        pytest.param("TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n", r"t.csv:2: TIMESTAMP is 'now'", id="time"),
        pytest.param("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1\n", r"has 2 fields", id="fields"),
        pytest.param("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,x,1\n", r"Context", id="length"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, rows: str, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        everything(Trace(written(tmp_path, rows, name="t.csv")))


def test_a_file_that_is_absent_or_of_another_form_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"absent\.csv: cannot be read"):
        Trace(tmp_path / "absent.csv")
    with pytest.raises(WorkloadError, match="neither"):
        Trace(tmp_path / "trace.parquet")
    with pytest.raises(WorkloadError, match="speed"):
        Trace(written(tmp_path, line()), speed=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "requests", "length_s"),
    [("mooncake_conversation.jsonl", 12_031, 3537.0), ("azure_code_2023.csv", 8_819, 3435.9)],
)
def test_the_public_traces_are_read_whole(name: str, requests: int, length_s: float) -> None:
    path = PUBLIC / name
    if not path.exists():
        pytest.skip(f"no {path}: the public traces are not part of the project")
    read = everything(Trace(path))

    assert len(read) == requests
    assert read[-1].at_s == pytest.approx(length_s, rel=0.01)
