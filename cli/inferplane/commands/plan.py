"""`plan`: how many workers of which kind a service takes for a load, before it runs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.manifest import read_manifest
from inferplane.options import Duration, file_option
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.simulating import Progress, Source
from inferplane.sizing import (
    Shape,
    document,
    error_line,
    expected_table,
    load_line,
    objective_line,
    played_line,
    shapes_table,
)
from inferplane_planner.act.priors import read_calibration
from inferplane_planner.act.wishes import spec_of
from inferplane_planner.core.contract import Spec
from inferplane_planner.core.errors import PlanningError
from inferplane_planner.core.sizing import aggregated, size
from inferplane_planner.workload import WORKLOADS, Workload, WorkloadError
from inferplane_router.core.warming import warm
from inferplane_runtime.settings import SettingsError
from inferplane_simulator import ScenarioError, Simulation
from inferplane_simulator.load import Heard, Load, listen, load_of
from inferplane_simulator.sized import fleet_of

_ROUNDS: Final = 3


@click.command("plan")
@file_option
@click.option("--trace", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Recorded arrivals.")
@click.option("--workload", "name", type=click.Choice(list(WORKLOADS)), help="Generated arrivals.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Requests or sessions a second of a workload.")
@click.option("--speed", type=click.FloatRange(0, min_open=True), default=1.0, help="Times as fast as the trace.")
@click.option("--requests", type=click.IntRange(1), help="Look at so many.  [default: 1000, or the whole trace]")
@click.option("--busiest", type=Duration(), default="5m", show_default=True, help="The rate is the highest over this.")
@click.option(
    "--hit-share",
    type=click.FloatRange(0, 1),
    default=0.85,
    show_default=True,
    help="Of the requests that a cache without end would help, those that are.",
)
@click.option("--price", "prices", multiple=True, metavar="CLASS=N", help="Price of a device and hour.  [default: 1]")
@click.option("--calibration", "calibrations", multiple=True, metavar="CLASS=FILE", help="Measured engine of a class.")
@click.option(
    "--check", is_flag=True, help="Simulate each plan as well, and size it anew with the hits it had where it misses."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the generated arrivals.")
@output_option
@click.pass_obj
def command(  # noqa: PLR0917  # one name for each option
    context: Context,
    filename: Path,
    trace: Path | None,
    name: str | None,
    rate: float | None,
    speed: float,
    requests: int | None,
    busiest: float,
    hit_share: float,
    prices: tuple[str, ...],
    calibrations: tuple[str, ...],
    check: bool,  # noqa: FBT001  # click passes all of them alike
    seed: int,
    output: str,
) -> None:
    """Say how many workers a service takes for a load, what they cost and what to expect of them, and why.

    Nothing is started: SLO, bounds, budget and accelerators are the file's, the choice is the planner's.
    Where no plan keeps the objective, it says the best that can be had and what it would take, and exits with 1.
    """
    source = _source(trace, name, speed=speed, requests=requests, rate=rate)
    try:
        spec = _spec(filename, prices, calibrations)
        heard = _heard(spec, source, rate or 1.0, seed)
        load = load_of(heard, hit_share=hit_share, busiest_s=busiest)
        shapes = [_shape(title, each, load) for title, each in _ways(spec)]
        if check:
            trial = _Trial(
                lambda: source.make(rate or 1.0, seed),
                lambda share: load_of(heard, hit_share=share, busiest_s=busiest),
                source.block_tokens,
            )
            shapes = _checked(context, shapes, trial)
    except (ScenarioError, WorkloadError, PlanningError, SettingsError) as error:
        raise InvalidError(str(error)) from error
    _show(context, Format(output), _named(source, rate or 1.0), load, shapes)


def _source(trace: Path | None, name: str | None, *, speed: float, requests: int | None, rate: float | None) -> Source:
    if (trace is None) == (name is None):
        raise InvalidError("give either --trace FILE or --workload NAME")
    if trace is not None and rate is not None:
        raise InvalidError("--rate: a trace has its own times; use --speed")
    return Source(trace, name or "", speed, requests if trace is not None else requests or 1000)


def _named(source: Source, rate: float) -> str:
    return f"{source.trace.name} at {source.speed:g}x" if source.trace else f"{source.name} at {rate:.3g}/s"


def _spec(filename: Path, prices: tuple[str, ...], calibrations: tuple[str, ...]) -> Spec:
    service = read_manifest(filename, for_cluster=True).service
    files = {each: read_calibration(Path(path)) for each, path in _pairs("--calibration", calibrations).items()}
    costs = {each: _price(text) for each, text in _pairs("--price", prices).items()}
    return spec_of(service.spec, prices=costs, calibrations=files, period_s=15.0, start_up_s=120.0)


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    wrong = next((text for text, (_, sign, value) in zip(given, pairs, strict=True) if not (sign and value)), None)
    if wrong is not None:
        raise InvalidError(f"{option}: {wrong!r} names no class and value; write CLASS=VALUE, as h100=2.5")
    return {key: value for key, _, value in pairs}


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < float("inf"):
        raise InvalidError(f"--price: {text!r} is no price; give a number of at least 0")
    return price


def _heard(spec: Spec, source: Source, rate: float, seed: int) -> list[Heard]:
    # An answer takes as long as the objective allows; only sessions wait for one.
    answer_s = spec.objective.ttft_s + 200.0 * spec.objective.tpot_s
    return listen(source.make(rate, seed), block_tokens=source.block_tokens, answer_s=answer_s)


def _shape(name: str, spec: Spec, load: Load) -> Shape:
    return Shape(name, spec, load, size(spec, load.demand, burst=load.burst))


def _ways(spec: Spec) -> list[tuple[str, Spec]]:
    """Return the pools of the file, and where these are two the other way to use the same accelerators."""
    if spec.prefill is None:
        return [("aggregated", spec)]
    return [("disaggregated", spec), ("aggregated", aggregated(spec))]


@dataclass(frozen=True, slots=True)
class _Trial:
    """How shapes are played: the arrivals anew, and the load anew for other hits."""

    workload: Callable[[], Workload]
    load: Callable[[float], Load]
    block_tokens: int


def _checked(context: Context, shapes: list[Shape], trial: _Trial) -> list[Shape]:
    """Play each shape; one that misses is sized anew with the hits that it really had."""
    with Progress(context) as progress:
        warm()
        return [_check(each, trial, progress) for each in shapes]


def _check(shape: Shape, trial: _Trial, progress: Progress) -> Shape:
    shape = _play(shape, trial, progress)
    for _ in range(_ROUNDS):
        anew = _anew(shape, trial)
        if anew is None:
            break
        shape = _play(anew, trial, progress)
    return shape


def _play(shape: Shape, trial: _Trial, progress: Progress) -> Shape:
    progress.begin(f"simulating {shape.sizing.candidate}")
    fleet = fleet_of(shape.spec, shape.sizing.candidate, block_tokens=trial.block_tokens)
    run = Simulation(replace(fleet, warm_up_s=shape.load.warm_s), trial.workload())
    return replace(shape, played=run.run(progress.show))


def _anew(shape: Shape, trial: _Trial) -> Shape | None:
    """Size with the hits of the simulation, where it missed for want of hits; None: there is nothing to mend."""
    played = shape.played
    if played is None or shape.held or not shape.sizing.met or played.hit_share >= shape.load.hit_share:
        return None
    return _shape(shape.name, shape.spec, trial.load(played.hit_share))


def _show(context: Context, form: Format, named: str, load: Load, shapes: list[Shape]) -> None:
    if form is not Format.TABLE:
        show_document(document(named, load, shapes), form)
    else:
        _show_tables(context, named, load, shapes)
    first = shapes[0]
    if not first.sizing.met:
        raise CommandError(f"no plan within the limits keeps the objective: {first.sizing.verdict.value}, see above")
    if not first.held:
        raise CommandError("the simulation misses the objective; take what `with room` says, or a shorter --busiest")


def _show_tables(context: Context, named: str, load: Load, shapes: list[Shape]) -> None:
    click.echo(load_line(named, load))
    click.echo(objective_line(shapes[0].spec))
    overview = shapes_table(shapes)
    show_table(context, overview.heads, overview.rows, right=overview.right)
    for shape in shapes:
        click.echo(f"\n{shape.name}: {shape.sizing.reason}")
        table = expected_table(shape)
        show_table(context, table.heads, table.rows, right=table.right)
        if shape.played is not None:
            click.echo(played_line(shape))
    click.echo(f"\n{error_line(shapes[0])}")
