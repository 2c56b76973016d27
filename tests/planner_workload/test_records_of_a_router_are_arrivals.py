"""What a router wrote down of its requests, asked again."""

import json
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict

from inferplane_api.proto.router_pb2 import DecisionRecord
from inferplane_api.proto.worker_pb2 import OUTCOME_OK, ROLE_DECODE, RequestReport
from inferplane_planner.workload.errors import WorkloadError
from inferplane_planner.workload.prompts import Request, shared_tokens
from inferplane_planner.workload.traces import Trace, holds_records

AT = 1_800_000_000.0


def record(name: str, decided_s: float, *, cached: int = 0, queued_s: float = 0.0, answered: bool = True) -> str:
    report = RequestReport(
        request_id=name,
        side=ROLE_DECODE,
        outcome=OUTCOME_OK,
        prompt_tokens=600,
        output_tokens=7,
        cached_tokens=cached,
        cached_tokens_known=True,
    )
    made = DecisionRecord(
        request_id=name,
        decided_at=AT + decided_s,
        queued_s=queued_s,
        prompt_tokens=600,
        observed=[report] if answered else [],
    )
    return json.dumps(MessageToDict(made)) + "\n"


def asked(path: Path, *lines: str) -> list[Request]:
    path.write_text("".join(lines), "utf-8")
    trace, requests = Trace(path), list[Request]()
    while trace.peek() is not None:
        requests.append(trace.take())
    return requests


def test_requests_come_when_they_came_and_not_when_they_were_decided_or_ended(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    requests = asked(path, record("b", 3.0), record("c", 5.0, queued_s=4.0), record("a", 0.5))

    assert [each.at_s for each in requests] == pytest.approx([0.0, 0.5, 2.5])
    assert [(each.prompt.tokens, each.output_tokens) for each in requests] == [(600, 7)] * 3
    assert holds_records(path)


def test_as_much_is_shared_as_was_cached(tmp_path: Path) -> None:
    first, second, third = asked(
        tmp_path / "decisions.jsonl",
        record("a", 0.0, cached=512),
        record("b", 1.0, cached=256),
        record("c", 2.0),
    )

    assert shared_tokens(first.prompt.pieces, second.prompt.pieces) == 256
    assert shared_tokens(first.prompt.pieces, third.prompt.pieces) == 0
    assert first.prompt.token_ids()[:256].tolist() == second.prompt.token_ids()[:256].tolist()


def test_who_got_no_answer_is_left_out(tmp_path: Path) -> None:
    requests = asked(tmp_path / "decisions.jsonl", record("a", 0.0), record("b", 1.0, answered=False))

    assert len(requests) == 1


def test_records_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"

    with pytest.raises(WorkloadError, match=r"decisions\.jsonl:2: is no decision record"):
        asked(path, record("a", 0.0), "{\n")
    with pytest.raises(WorkloadError, match="holds no answered request"):
        asked(path, record("a", 0.0, answered=False))
