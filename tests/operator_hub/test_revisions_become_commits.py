"""The operator's questions to a hub, against one on loopback: commits, refusals told apart, nothing asked in vain."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from inferplane_engine.memory import ModelFacts
from inferplane_operator.cluster.model_revisions import Resolution
from inferplane_operator.hub import Hub as Asker
from inferplane_workers.fetch.testing import COMMIT, Hub, Repository, running

CONFIG = (
    b'{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64,'
    b' "max_position_embeddings": 4096}'
)
ABOUT = "GET /api/models/org/m/revision/{}"


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub({"org/m": Repository({"config.json": CONFIG}, branches=("main", "feature/x"))})) as served:
        yield served


def asked(endpoint: str, *models: dict[str, Any], clock: Clock | None = None, gap_s: float = 0.0) -> list[Resolution]:
    """Ask for models one after the other, `gap_s` apart."""
    now = clock or Clock()

    async def ask() -> list[Resolution]:
        found: list[Resolution] = []
        async with httpx.AsyncClient(trust_env=False) as client:
            asker = Asker(client, endpoint=endpoint, now=now)
            for model in models:
                found.append(await asker.resolve(model))
                now.time += gap_s
        return found

    return asyncio.run(ask())


def model(repository: str = "org/m", **more: str) -> dict[str, Any]:
    return {"name": "m", "source": {"hf": repository}, **more}


@pytest.mark.parametrize("revision", ["", "main", "feature/x", COMMIT])
def test_a_revision_becomes_its_commit(hub: Hub, revision: str) -> None:
    (found,) = asked(hub.url, model(revision=revision))

    assert found == Resolution(COMMIT)


def test_a_service_may_name_another_mirror(hub: Hub) -> None:
    (found,) = asked("http://127.0.0.1:9", model(endpoint=f"{hub.url}/"))

    assert found.revision == COMMIT


def test_what_is_on_disk_needs_no_hub(hub: Hub) -> None:
    assert asked(hub.url, {"name": "m", "source": {"path": "/m"}}, {"name": "m"}) == [Resolution(), Resolution()]
    assert hub.asked.total() == 0


@pytest.mark.parametrize(
    ("change", "wanted", "says"),
    [
        ({}, model("org/none"), "does not show org/none without a token (401)"),
        ({"token": "t"}, model(), "write the commit in spec.model.revision"),
        ({"gated": True}, model(), "does not show org/m without a token (403)"),
        ({}, model(revision="v9"), "org/m has no revision 'v9'; correct spec.model.revision"),
    ],
    ids=["unknown", "private", "gated", "revision"],
)
def test_refusals_are_told_apart(hub: Hub, change: dict[str, Any], wanted: dict[str, Any], says: str) -> None:
    for name, value in change.items():
        setattr(hub.repositories["org/m"], name, value)
    (found,) = asked(hub.url, wanted)

    assert found.revision == ""
    assert says in found.problem


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_that_fails_is_not_a_model_that_is_unknown(hub: Hub, status: int) -> None:
    hub.status = status
    (found,) = asked(hub.url, model())

    assert f"cannot be reached at {hub.url}: it answers {status}" in found.problem


def test_a_hub_that_is_not_there_is_named() -> None:
    (found,) = asked("http://127.0.0.1:9", model())

    assert "cannot be reached at http://127.0.0.1:9" in found.problem


@pytest.mark.parametrize("change", [{"token": "t"}, {"gated": True}], ids=["private", "gated"])
def test_a_commit_needs_no_answer(hub: Hub, change: dict[str, Any]) -> None:
    for name, value in change.items():
        setattr(hub.repositories["org/m"], name, value)

    assert asked(hub.url, model(revision=COMMIT)) == [Resolution(COMMIT)]
    assert asked("http://127.0.0.1:9", model(revision=COMMIT)) == [Resolution(COMMIT)]


def test_an_answer_that_still_holds_costs_the_hub_nothing(hub: Hub) -> None:
    asked(hub.url, model(), model(), model(), gap_s=1000.0)

    assert hub.etag_matches == 2


def test_a_branch_that_moved_is_seen(hub: Hub) -> None:
    now = Clock()

    async def ask() -> list[str]:
        async with httpx.AsyncClient(trust_env=False) as client:
            asker = Asker(client, endpoint=hub.url, now=now)
            first = await asker.resolve(model())
            hub.repositories["org/m"].commit = COMMIT[::-1]
            return [first.revision, (await asker.resolve(model())).revision]

    assert asyncio.run(ask()) == [COMMIT, COMMIT[::-1]]


@pytest.mark.parametrize(("gap_s", "times"), [(1.0, 1), (70.0, 3)], ids=["soon", "later"])
def test_a_refusal_is_kept_for_a_while(hub: Hub, gap_s: float, times: int) -> None:
    asked(hub.url, *[model(revision="v9")] * 3, gap_s=gap_s)

    assert hub.asked[ABOUT.format("v9")] == times


def test_a_model_that_tells_its_size_is_weighed(hub: Hub) -> None:
    hub.repositories["org/m"].extra = {"safetensors": {"parameters": {"BF16": 1000}, "total": 1000}}
    (found,) = asked(hub.url, model())

    assert found.facts == ModelFacts(2000, 2, 64, 2, 4096)


def test_an_answer_that_is_no_model_is_a_hub_that_cannot_be_reached(hub: Hub) -> None:
    hub.repositories["org/m"].commit = "not a commit"
    hub.repositories["org/m"].branches = ("main",)
    (found,) = asked(hub.url, model())

    assert "it answers without a commit" in found.problem
