"""`calibrate`: measure a live engine, and write the file that planner and `plan` know it by."""

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

import click
import httpx

from inferplane.calibrating import Notes, measure
from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.output import show_table
from inferplane.probing import HttpEngine, model_of
from inferplane_engine.profiles import profile_named
from inferplane_engine.timing import TimingProfile
from inferplane_planner.act.records import encode
from inferplane_planner.calibration.fitting import Fit, fit
from inferplane_planner.calibration.grid import Grid, Sample
from inferplane_planner.core.errors import PlanningError

_SHOWN = (
    ("step_overhead_s", "every step"),
    ("weights_s", "reading the weights"),
    ("token_compute_s", "a token of a prompt"),
    ("attention_pair_s", "a pair of attention"),
    ("kv_token_s", "a token of KV in a step"),
    ("sequence_s", "a sequence in a step"),
)


@click.command("calibrate")
@click.option("--url", required=True, help="Engine with an OpenAI interface, as http://127.0.0.1:8200.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Calibration file to write.")
@click.option("--model", help="Model to ask.  [default: the first that the engine serves]")
@click.option("--like", default="cpu-test", show_default=True, help="Profile for what cannot be seen from outside.")
@click.option("--kv-capacity", type=click.IntRange(1), help="Tokens of KV the engine has room for; it prints them.")
@click.option(
    "--longest", type=int, default=2048, show_default=True, help="Longest prompt; at most what a step computes."
)
@click.option("--most", type=int, default=16, show_default=True, help="Largest batch; at most what runs at once.")
@click.option("--context", "context_tokens", type=int, default=1024, show_default=True, help="Long context, in tokens.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Times that each point is taken.")
@click.pass_obj
def command(
    context: Context,
    *,
    url: str,
    out: Path,
    model: str | None,
    like: str,
    kv_capacity: int | None,
    longest: int,
    most: int,
    context_tokens: int,
    repeats: int,
) -> None:
    """Measure a live engine that has nothing else to do, and write what it was found to take.

    Times are kept in OUT.samples.jsonl as they come: the same command goes on after a break.
    """
    try:
        grid, base = Grid(longest, most, context_tokens), profile_named(like)
    except (PlanningError, ValueError) as error:
        raise InvalidError(str(error)) from error
    samples = asyncio.run(_measure(url, model, grid, out, repeats))
    try:
        found = fit(samples, replace(base, name=out.stem, kv_capacity_tokens=kv_capacity or base.kv_capacity_tokens))
    except PlanningError as error:
        raise CommandError(str(error)) from error
    _write(out, found.profile)
    _show(context, out, found)


async def _measure(url: str, model: str | None, grid: Grid, out: Path, repeats: int) -> list[Sample]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=600.0, trust_env=False, limits=limits) as client:
        name = model or await model_of(client)
        engine = HttpEngine(client, name, random.SystemRandom())
        notes = Notes(out.with_name(out.name + ".samples.jsonl"), f"{name} at {url}")
        try:
            return await measure(
                engine, grid.points(), notes, repeats=repeats, tell=lambda line: click.echo(line, err=True)
            )
        except OSError as error:
            raise CommandError(f"{notes.path}: cannot be written: {error.strerror}") from error


def _write(out: Path, profile: TimingProfile) -> None:
    try:
        out.write_text(json.dumps(encode(profile), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{out}: cannot be written: {error.strerror}") from error


def _show(context: Context, out: Path, found: Fit) -> None:
    rows = [[words, f"{getattr(found.profile, name) * 1e6:.4g}"] for name, words in _SHOWN]
    show_table(
        context, ("what", "microseconds"), [*rows, ["there and back", f"{found.overhead_s * 1e6:.4g}"]], right={1}
    )
    click.echo(
        f"{out}: {found.mean_error:.1%} off what was measured on average, {found.largest_error:.1%} at most; "
        "KV capacity, link and start-up are not measured"
    )
