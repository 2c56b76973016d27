"""`kv warm`: every prompt of a list once, in spite of breaks and refusals, and never twice."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferplane.errors import InvalidError
from inferplane.gateway_client import PatientGateway
from inferplane.testing import Call
from inferplane.warming import Answer, Done, Refusal, Wanted, Warming, read_list

pytestmark = pytest.mark.anyio
LIST = 'You are a helpful assistant.\n\n{"messages": [{"role": "system", "content": "Be brief."}], "model": "other"}\n'


@dataclass(slots=True)
class FakeGateway:
    """Has computed what it was asked before; ten tokens a prompt."""

    refusing: frozenset[int] = frozenset()
    """Lines."""
    asked: list[Wanted] = field(default_factory=list[Wanted])

    async def ask(self, wanted: Wanted, /) -> Answer | Refusal:
        known = any(each.body == wanted.body for each in self.asked)
        self.asked.append(wanted)
        return Refusal("no") if wanted.line in self.refusing else Answer(10, 9 * known)


def warming(gateway: FakeGateway, done: Path | None = None) -> tuple[Warming, list[str]]:
    said: list[str] = []
    return Warming(gateway, Done(done), said.append), said


def test_a_line_is_a_prompt_or_an_object() -> None:
    plain, chat = read_list(LIST, model="m")

    assert (plain.line, plain.path) == (1, "/v1/completions")
    assert plain.body == {"model": "m", "prompt": "You are a helpful assistant.", "max_tokens": 1, "temperature": 0}
    assert (chat.line, chat.path, chat.body["model"]) == (3, "/v1/chat/completions", "other")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1: it is no JSON"),
        ('{"prompt": "x", "messages": []}', "line 1: it has 2 of `prompt` and `messages`"),
        ('{"model": "x"}', "line 1: it has 0 of `prompt` and `messages`"),
        ('{"prompt": "x", "stream": true}', "line 1: stream: unknown field"),
    ],
)
def test_a_line_that_means_nothing_is_refused_with_its_number(line: str, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem):
        read_list(line, model="m")


async def test_what_was_there_is_said() -> None:
    one, said = warming(FakeGateway())
    came = await one.run(read_list("a\nb\na", model="m"))

    assert came.words() == "3 prompts of 30 tokens, of which 9 were there already"
    assert len(said) == 3


async def test_what_is_done_is_left_out_after_a_break(tmp_path: Path) -> None:
    wanted, path = read_list("a\nb\nc", model="m"), tmp_path / "done"
    first, _ = warming(FakeGateway(refusing=frozenset({2})), path)
    assert (await first.run(wanted)).failed == 1

    gateway = FakeGateway()
    second, _ = warming(gateway, path)
    came = await second.run(wanted)

    assert [each.line for each in gateway.asked] == [2]
    assert came.words() == "1 prompts of 10 tokens, of which 0 were there already; 2 were done before"


async def test_the_file_of_what_is_done_holds_no_prompt(tmp_path: Path) -> None:
    one, _ = warming(FakeGateway(), tmp_path / "done")
    await one.run(read_list("a secret", model="m"))

    assert "secret" not in (tmp_path / "done").read_text()


async def test_a_disk_that_takes_no_notes_is_said_and_not_ignored(tmp_path: Path) -> None:
    one, _ = warming(FakeGateway(), tmp_path / "no folder" / "done")

    with pytest.raises(InvalidError, match="name another --progress"):
        await one.run(read_list("a", model="m"))


def gateway_of(answer: Callable[[httpx.Request], httpx.Response]) -> tuple[PatientGateway, list[float]]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    transport = httpx.MockTransport(answer)
    return PatientGateway(httpx.AsyncClient(transport=transport, base_url="http://gateway"), sleep), slept


def usage(prompt: int, cached: int | None) -> dict[str, Any]:
    details = None if cached is None else {"cached_tokens": cached}
    return {"usage": {"prompt_tokens": prompt, "prompt_tokens_details": details}}


async def test_a_gateway_without_room_is_asked_again_when_it_says() -> None:
    answers = iter(
        [
            httpx.Response(429, json={"error": {"message": "full"}}, headers={"retry-after": "3"}),
            httpx.Response(503, json={"error": {"message": "starting"}}),
            httpx.Response(200, json=usage(70, 64)),
        ]
    )
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return next(answers)

    gateway, slept = gateway_of(answer)
    (wanted,) = read_list("a", model="m")

    assert await gateway.ask(wanted) == Answer(70, 64)
    assert slept == [3.0, 1.0]
    assert {request.headers["x-inferplane-priority"] for request in asked} == {"-100"}
    assert json.loads(asked[0].content)["max_tokens"] == 1


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (httpx.Response(404, json={"error": {"message": "no model x"}}), "the gateway says 404: no model x"),
        (httpx.Response(200, json={}), "the answer does not say how many tokens the prompt has"),
    ],
)
async def test_what_will_not_pass_is_said_at_once(response: httpx.Response, why: str) -> None:
    gateway, slept = gateway_of(lambda _: response)
    (wanted,) = read_list("a", model="m")

    assert await gateway.ask(wanted) == Refusal(why)
    assert slept == []


async def test_an_answer_without_details_had_nothing_there() -> None:
    gateway, _ = gateway_of(lambda _: httpx.Response(200, json=usage(5, None)))
    (wanted,) = read_list("a", model="m")

    assert await gateway.ask(wanted) == Answer(5, 0)


def test_a_list_that_is_not_there_is_wrong_usage(call: Call) -> None:
    result = call("kv", "warm", "nowhere", "--url", "http://gateway", "--model", "m")

    assert result.exit_code == 2
    assert "nowhere: cannot be read" in result.stderr


@pytest.mark.usefixtures("demo")
def test_without_a_url_the_local_instance_is_asked(call: Call, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a\n")
    result = call("kv", "warm", str(tmp_path / "list"))

    assert result.exit_code == 1
    assert result.stdout == "0 prompts of 0 tokens, of which 0 were there already; 1 failed\n"
    assert "1/1 line 1: the gateway does not answer" in result.stderr
    assert "leaves out the others" in result.stderr
