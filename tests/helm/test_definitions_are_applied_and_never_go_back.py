"""The program of the chart's Job, against an API server in memory that answers as a real one does."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from inferplane_api.schema.definitions import NAMES
from inferplane_operator.cluster.errors import InvalidError, UnreachableError
from inferplane_operator.cluster.transport import Answer, Call
from inferplane_operator.crds import (
    VERSION_LABEL,
    CrdSettings,
    Installer,
    NotYetError,
    check_served,
    definitions,
    is_newer,
    main,
    run,
)

MANIFESTS = Path(__file__).parents[2] / "crds" / "manifests"
NEVER = 1e-9
PLURALS = sorted(f"{names.plural}.inferplane.dev" for names in NAMES.values())
SERVED = [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]

pytestmark = pytest.mark.anyio


def status(code: int, message: str) -> Answer:
    return Answer(code, orjson.dumps({"kind": "Status", "code": code, "message": message}))


@dataclass
class Definitions:
    """Holds definitions; `disturb` may answer in its place, by the number of the call."""

    held: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    disturb: Callable[[int], Answer | None] = lambda _number: None
    patched: list[str] = field(default_factory=list[str])
    calls: int = 0
    looks_until_served: int = 0

    async def send(self, call: Call, /) -> Answer:
        self.calls += 1
        if (answer := self.disturb(self.calls)) is not None:
            return answer
        name = call.path.rpartition("/")[2]
        if call.method == "PATCH":
            assert ("fieldManager", "inferplane-operator") in call.query
            self.held[name] = {**orjson.loads(call.body), "status": {"conditions": []}}
            self.patched.append(name)
        if name not in self.held:
            return status(404, f"{name} not found")
        if call.method == "GET":
            self._ripen(name)
        return Answer(200, orjson.dumps(self.held[name]))

    def _ripen(self, name: str) -> None:
        if self.looks_until_served:
            self.looks_until_served -= 1
        else:
            self.held[name]["status"] = {"conditions": SERVED}


async def no_pause(_seconds: float) -> None:
    await asyncio.sleep(0)


def installer(there: Definitions, version: str = "0.1.0") -> Installer:
    return Installer(there, version=version, pause=no_pause)


def labelled(version: str | None) -> dict[str, Any]:
    return {"metadata": {"name": "x", "labels": {} if version is None else {VERSION_LABEL: version}}}


async def test_definitions_are_those_that_are_checked_in() -> None:
    made = {definition["metadata"]["name"]: definition["spec"] for definition in definitions("0.1.0")}
    files = [yaml.safe_load(path.read_text("utf-8")) for path in MANIFESTS.glob("*.yaml")]

    assert made == {each["metadata"]["name"]: each["spec"] for each in files}


async def test_a_new_cluster_gets_all_of_them() -> None:
    there = Definitions(looks_until_served=4)

    await installer(there).install()

    assert sorted(there.patched) == PLURALS
    assert {each["metadata"]["labels"][VERSION_LABEL] for each in there.held.values()} == {"0.1.0"}


async def test_an_older_release_s_are_replaced_and_a_newer_one_s_are_kept() -> None:
    there = Definitions({name: {**labelled("0.1.0"), "status": {"conditions": SERVED}} for name in PLURALS})
    newer = PLURALS[0]
    there.held[newer]["metadata"]["labels"][VERSION_LABEL] = "0.3.0"

    await installer(there, "0.2.0").install()

    assert sorted(there.patched) == PLURALS[1:]
    assert there.held[newer]["metadata"]["labels"][VERSION_LABEL] == "0.3.0"


@pytest.mark.parametrize(
    ("there", "ours", "newer"),
    [
        ("0.2.0", "0.10.0", False),
        ("0.10.0", "0.2.0", True),
        ("1.0.0-rc.1", "1.0.0", False),
        ("0.1.0", "0.1.0", False),
        (None, "0.1.0", False),
        ("nightly", "0.1.0", False),
    ],
)
async def test_versions_are_compared_as_numbers(there: str | None, ours: str, newer: bool) -> None:  # noqa: FBT001 - a table
    assert is_newer(labelled(there), ours) is newer


@pytest.mark.parametrize("code", [403, 409, 429, 500, 503])
async def test_what_passes_is_waited_for(code: int) -> None:
    there = Definitions(disturb=lambda number: status(code, "not now") if number <= 20 else None)

    await installer(there).install()

    assert sorted(there.patched) == PLURALS


async def test_a_definition_that_is_refused_ends_it_at_once() -> None:
    there = Definitions(disturb=lambda number: status(422, "spec.group: Invalid value") if number == 2 else None)

    with pytest.raises(InvalidError, match=r"spec\.group"):
        await installer(there).install()


async def test_a_definition_that_is_being_deleted_is_not_written_to() -> None:
    going = {"metadata": {"name": PLURALS[0], "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    with pytest.raises(NotYetError, match="is being deleted, until its last object is gone"):
        check_served(going)


async def test_names_that_another_definition_has_are_told_in_the_server_s_words() -> None:
    taken = {"type": "NamesAccepted", "status": "False", "message": '"kvs" is already in use'}
    there = {"metadata": {"name": "kvstores.inferplane.dev"}, "status": {"conditions": [taken]}}

    with pytest.raises(NotYetError, match='NamesAccepted is False: "kvs" is already in use'):
        check_served(there)


async def test_exit_codes_tell_done_refused_and_late_apart() -> None:
    def refused(_number: int) -> Answer:
        return status(422, "no")

    def absent(_number: int) -> Answer:
        raise UnreachableError("nobody there")

    settings = CrdSettings()

    assert await run(Definitions(), settings, version="0.1.0") == 0
    assert await run(Definitions(disturb=refused), settings, version="0.1.0") == 1
    assert await run(Definitions(disturb=absent), CrdSettings(timeout=NEVER), version="0.1.0") == 3


def test_wrong_usage_is_told_with_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--timeout", "soon"], {}) == 2
    assert "--timeout" in capsys.readouterr().err
