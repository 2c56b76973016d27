"""`calibrate`: what is asked of an engine, what is made of its answers, and a run that was broken off."""

import asyncio
import json
import random
from itertools import count
from pathlib import Path
from typing import cast

import httpx
import pytest
from click.testing import CliRunner

from inferplane.calibrating import Notes, counts, measure
from inferplane.cli import root
from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.probing import HttpEngine, model_of, steps_of
from inferplane_planner.calibration.grid import DecodePoint, Grid, PrefillPoint, Sample


class Played:
    """Answers in memory; the clock goes on by a tenth of a second whenever it is read."""

    def __init__(self, status: int = 200) -> None:
        self.bodies: list[dict[str, object]] = []
        self._status = status
        self._ticks = count()

    def clock(self) -> float:
        return next(self._ticks) / 10.0

    def prompt(self, number: int) -> list[int]:
        return cast("list[int]", self.bodies[number]["prompt"])

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(self._status, json={"data": [{"id": "tiny"}]})
        body = json.loads(request.content)
        self.bodies.append(body)
        if not body.get("stream"):
            return httpx.Response(self._status, json={"choices": []})
        pieces = [json.dumps({"usage": {"completion_tokens": number}}) for number in range(1, body["max_tokens"] + 1)]
        return httpx.Response(self._status, text="".join(f"data: {piece}\n\n" for piece in pieces) + "data: [DONE]\n\n")


class Refusing(Played):
    """Takes prompts, and no request for a stream."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        streams = json.loads(request.content).get("stream")
        first = not self.bodies
        self.bodies.append({})
        return httpx.Response(200, json={}) if first and not streams else httpx.Response(429, text="busy")


def asked(engine: Played, point: PrefillPoint | DecodePoint) -> Sample:
    async def ask() -> Sample:
        async with httpx.AsyncClient(transport=httpx.MockTransport(engine), base_url="http://engine") as client:
            return await HttpEngine(client, "tiny", random.Random(1), engine.clock).measure(point)

    return asyncio.run(ask())


def test_a_prompt_is_timed_after_what_is_cached_was_sent() -> None:
    engine = Played()
    sample = asked(engine, PrefillPoint(64, cached=128))
    cached, whole = (engine.prompt(number) for number in (1, 2))

    assert sample.seconds == pytest.approx(0.1)
    assert (len(cached), len(whole)) == (128, 192)
    assert whole[:128] == cached
    assert [body["max_tokens"] for body in engine.bodies] == [1, 1, 1]


def test_a_step_is_timed_while_all_answers_run() -> None:
    first = [(0.0, 1), (1.0, 2), (2.0, 3), (3.0, 4), (4.0, 5)]
    later = [(1.0, 1), (2.0, 2), (3.0, 3), (4.0, 4), (5.0, 5)]
    sample = steps_of(DecodePoint(2, 100), [first, later])

    assert sample.seconds == pytest.approx(1.0)
    assert sample.kv_tokens == pytest.approx(200 + 3.5 + 2.5)


def test_answers_that_never_run_at_once_are_an_error_with_the_fix() -> None:
    early, late = ([(at + begin, at + 1) for at in range(5)] for begin in (0.0, 50.0))

    with pytest.raises(CommandError, match="lower --most"):
        steps_of(DecodePoint(2, 100), [early, late])


def test_a_batch_is_streamed_with_its_counts() -> None:
    engine = Played()
    sample = asked(engine, DecodePoint(1, 16))

    assert sample.seconds == pytest.approx(0.1)
    assert engine.bodies[-1]["ignore_eos"] is True


def test_an_engine_that_refuses_is_an_error() -> None:
    with pytest.raises(CommandError, match="the engine answers 400"):
        asked(Played(400), PrefillPoint(8))


def test_the_first_model_is_asked() -> None:
    async def ask() -> str:
        async with httpx.AsyncClient(transport=httpx.MockTransport(Played()), base_url="http://engine") as client:
            return await model_of(client)

    assert asyncio.run(ask()) == "tiny"


class Breaking:
    """Measures so many times, and then is gone."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.measured = list[PrefillPoint | DecodePoint]()

    async def measure(self, point: PrefillPoint | DecodePoint) -> Sample:
        if not self.left:
            raise CommandError("gone")
        self.left -= 1
        self.measured.append(point)
        return Sample(point, 1.0 + self.left)


def test_a_broken_run_goes_on_where_it_was(tmp_path: Path) -> None:
    points, notes = Grid().points(), Notes(tmp_path / "notes.jsonl", "tiny at here")
    first, second = Breaking(10), Breaking(1000)
    with pytest.raises(CommandError):
        asyncio.run(measure(first, points, notes, repeats=2, tell=lambda _: None))
    samples = asyncio.run(measure(second, points, notes, repeats=2, tell=lambda _: None))

    assert set(second.measured) == set(points[5:])
    assert [each.point for each in samples] == points
    assert samples[0].seconds == 9.0  # the least of two


def test_noise_makes_prompts_slower_and_steps_either() -> None:
    def taken(point: PrefillPoint | DecodePoint) -> float:
        return counts([Sample(point, seconds) for seconds in (3.0, 0.5, 1.0)]).seconds

    assert taken(PrefillPoint(1)) == 0.5
    assert taken(DecodePoint(1, 16)) == 1.0


@pytest.mark.parametrize("point", [PrefillPoint(8), DecodePoint(2, 16)], ids=["prompt", "steps"])
def test_an_engine_that_refuses_is_an_error_in_words(point: PrefillPoint | DecodePoint) -> None:
    with pytest.raises(CommandError, match="answers 429"):
        asked(Refusing(), point)


def test_times_of_another_engine_are_not_taken(tmp_path: Path) -> None:
    Notes(tmp_path / "notes.jsonl", "one").add(Sample(PrefillPoint(1), 1.0))

    with pytest.raises(InvalidError, match="holds times of one"):
        Notes(tmp_path / "notes.jsonl", "other").read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--longest", "10"), "longest: 10 is too few; give 256 or more", id="short"),
        pytest.param(("--like", "z80"), "unknown profile 'z80'", id="profile"),
    ],
)
def test_wrong_questions_are_refused_with_the_fix(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    context = Context(environment={}, working_dir=tmp_path)
    command = ["calibrate", "--url", "http://127.0.0.1:1", "--out", str(tmp_path / "c.json"), *arguments]
    result = CliRunner().invoke(root, command, obj=context)

    assert result.exit_code == 2
    assert message in result.output
