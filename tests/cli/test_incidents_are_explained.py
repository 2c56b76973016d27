"""`incident` and `explain` of what was written down."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from google.protobuf.json_format import MessageToJson

from inferplane.errors import InvalidError
from inferplane.log_lines import read_line
from inferplane.moments import read_moment
from inferplane_api.catalogue import Catalogue, CatalogueWorker, WorkerRole
from inferplane_api.proto.router_pb2 import PICK_OUTCOME_ROUTED, Candidate, DecisionRecord
from inferplane_observability.incident.happening import Happening, Kind, written

Call = Callable[..., Result]
T = datetime(2026, 1, 31, 14, 5, tzinfo=UTC).timestamp()
SENDER = CatalogueWorker(
    worker_id="prefill-0",
    service="demo",
    pool="demo-prefill",
    role=WorkerRole.PREFILL,
    revision="r",
    http_address="127.0.0.1:4001",
    stream_address="127.0.0.1:4002",
)
MOMENT = "2026-01-31T14:05:00Z"


def load(at: float, missed: float) -> Happening:
    return Happening(T + at, Kind.LOAD, "default/demo", numbers={"met": 10, "missed": missed, "arrived": 10 + missed})


def keep(folder: Path, *happenings: Happening) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{written(it)}\n" for it in happenings)
    (folder / "events-1-0001.jsonl").write_text(text + "half a li")


def test_a_folder_of_records_is_explained(call: Call, tmp_path: Path) -> None:
    ill = Happening(T - 2, Kind.HEALTH, "default/demo", "d0", "failed: the engine is gone", bad=True)
    keep(tmp_path / "records", load(-10, 0), load(0, 9), load(5, 9), ill)

    found = call("incident", "--records", str(tmp_path / "records"), "--at", MOMENT)

    assert found.exit_code == 0, found.output
    assert "missed its objective from 14:05:00 to 14:05:10 UTC: 18 of 38 streams (47%)." in found.output
    assert "Likely cause: engine crashed: d0 ended and had to start anew." in found.output
    assert "14:04:58   !   health   d0       failed: the engine is gone" in found.output


def test_an_instances_logs_are_part_of_it(call: Call, tmp_path: Path) -> None:
    state = tmp_path / "state"
    keep(state / "records", load(0, 9))
    (state / "desired.yaml").write_text("")
    (state / "logs").mkdir()
    lines = [
        'ts=2026-01-31T14:04:50Z level=info event=scaling role=decode before=2 after=1 reason="little to \\"do\\""',
        'ts=2026-01-31T14:04:58Z level=warning event="a child ended by itself" child=decode-1-engine how="by signal 9"',
        "Traceback: not one of ours",
    ]
    (state / "logs" / "runner.log").write_text("\n".join(lines))

    found = call("incident", "--state-dir", str(state), "--at", MOMENT, "-o", "json")

    assert found.exit_code == 0, found.output
    told = json.loads(found.output)
    assert [(it["kind"], it["worker"], it["detail"]) for it in told["timeline"]] == [
        ("plan", "", 'decode from 2 to 1: little to "do"'),
        ("process", "decode-1", "engine by signal 9"),
    ]
    assert told["breaches"][0]["causes"][0]["cause"] == "engine crashed"


def test_who_sends_damaged_blocks_is_named_by_its_address_and_a_store_by_its_tier(call: Call, tmp_path: Path) -> None:
    state = tmp_path / "state"
    keep(state / "records", load(0, 9))
    (state / "desired.yaml").write_text("")
    (state / "catalogue.json").write_text(Catalogue(workers=(SENDER,)).model_dump_json(by_alias=True))
    (state / "logs").mkdir()
    damaged = f'event="blocks from this prefill worker arrive damaged: it is not used" address={SENDER.http_address}'
    (state / "logs" / "decode-0-agent.log").write_text(f"ts=2026-01-31T14:04:50Z level=error {damaged}")
    stored = 'event="a stored block is corrupt" tier=ssd key=aa offset=0'
    (state / "logs" / "kv-store.log").write_text(f"ts=2026-01-31T14:04:51Z level=error {stored}")

    found = call("incident", "--state-dir", str(state), "--at", MOMENT)

    assert "Likely cause: wrong contents: prefill-0 gave contents" in found.output
    assert "its blocks arrive damaged at decode-0" in found.output
    assert "Also: stored blocks damaged: 1 times a block" in found.output


def test_without_a_breach_it_says_so(call: Call, tmp_path: Path) -> None:
    keep(tmp_path, load(0, 0))

    found = call("incident", "--records", str(tmp_path), "--at", MOMENT, "--around", "1m")

    assert found.output == "No objective was missed between 14:04:00 and 14:06:00 UTC.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", T),
        ("10m ago", T - 600),
        ("-30s", T - 30),
        ("14:00", T - 300),
        ("14:04:30", T - 30),
        ("14:06", T - 86_340),
        (MOMENT, T),
        ("2026-01-31 15:05:00+01:00", T),
    ],
)
def test_moments_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert read_moment(text, T) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "25:00", "2026-13-01", "ago"])
def test_what_is_no_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidError, match="10m ago"):
        read_moment(text, T)


def test_a_line_of_a_log_is_read_with_what_is_quoted() -> None:
    line = read_line('ts=2026-01-31T14:05:00Z level=info event="a b" reason="say \\"x\\"" empty="" n=1')

    assert line is not None
    assert (line.at, line.event, line.fields["reason"], line.get("empty"), line.get("n")) == (
        T,
        "a b",
        'say "x"',
        "",
        "1",
    )
    assert read_line("no line of ours") is None


def decision(request_id: str, worker: str) -> str:
    record = DecisionRecord(
        request_id=request_id,
        service="demo",
        policy="kv-aware",
        outcome=PICK_OUTCOME_ROUTED,
        candidates=[Candidate(decode_worker=worker, chosen=True)],
    )
    return MessageToJson(record, indent=None) + "\n"


def test_a_request_that_no_router_remembers_is_explained_from_files(call: Call, tmp_path: Path) -> None:
    lines = [decision("mine", "d0"), decision("mine-too", "d1"), decision("mine", "d2"), "half a li"]
    (tmp_path / "decisions-1-0001.jsonl").write_text("".join(lines))

    found = call("explain", "mine", "--records", str(tmp_path))
    missing = call("explain", "other", "--records", str(tmp_path))

    assert found.output.startswith("mine went to d2 for prefill and decode")
    assert (missing.exit_code, "no decision of 'other' is kept" in missing.stderr) == (1, True)
