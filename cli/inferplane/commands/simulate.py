"""`simulate`: a trace or a generated workload on a fleet in virtual time, under one policy or several."""

import json
import math
from dataclasses import replace
from pathlib import Path

import click

from inferplane.context import Context
from inferplane.errors import InvalidError
from inferplane.options import Duration
from inferplane.output import show_table
from inferplane.simulating import Progress, Size, Source, rate_at_load, scenario_of
from inferplane_planner.workload import WORKLOADS, WorkloadError
from inferplane_router.core.warming import warm
from inferplane_simulator import Outcome, Scenario, ScenarioError, Simulation
from inferplane_simulator.policies import POLICIES
from inferplane_simulator.report import HEADS, page, rows, summarise


@click.command("simulate")
@click.option("--trace", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Recorded arrivals.")
@click.option("--workload", "name", type=click.Choice(list(WORKLOADS)), help="Generated arrivals.")
@click.option("-f", "--filename", type=click.Path(path_type=Path), help="Manifest: SLO, mode, replicas, queue.")
@click.option("--policy", "policies", multiple=True, type=click.Choice(list(POLICIES)), help="May be repeated.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Runs for each policy.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Requests or sessions a second of a workload.")
@click.option("--load", type=click.FloatRange(0, min_open=True), help="The same as a share of the knee, found first.")
@click.option("--speed", type=click.FloatRange(0, min_open=True), default=1.0, help="Times as fast as the trace.")
@click.option("--requests", type=click.IntRange(1), help="End after so many.  [default: 1000, or the whole trace]")
@click.option("--duration", type=Duration(), help="Send nothing after this time.")
@click.option("--warm-up", type=Duration(), default="0s", show_default=True, help="Requests before this do not count.")
@click.option("--profile", default="h100-8b", show_default=True, help="Engine and accelerator of every worker.")
@click.option("--workers", type=click.IntRange(1), help="Decode workers.  [default: 8, or the manifest's]")
@click.option("--prefill", type=click.IntRange(0), help="Prefill workers.  [default: 0, or the manifest's]")
@click.option("--devices", type=click.IntRange(1), default=1, show_default=True, help="Accelerators of one worker.")
@click.option("--ttft", type=Duration(), help="Limit of the time to the first token.")
@click.option("--tpot", type=Duration(), help="Limit of the time per token after it.")
@click.option("--routers", type=click.IntRange(1), default=1, show_default=True, help="Router replicas.")
@click.option("--block-size", type=click.IntRange(1), help="Tokens of a KV block.  [default: as the source tells them]")
@click.option("--exact", is_flag=True, help="Compute every engine step by itself.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "html"]), default="table", show_default=True)
@click.pass_obj
def command(  # noqa: PLR0917  # one name for each option
    context: Context,
    trace: Path | None,
    name: str | None,
    filename: Path | None,
    policies: tuple[str, ...],
    seeds: int,
    rate: float | None,
    load: float | None,
    speed: float,
    requests: int | None,
    duration: float | None,
    warm_up: float,
    profile: str,
    workers: int | None,
    prefill: int | None,
    devices: int,
    ttft: float | None,
    tpot: float | None,
    routers: int,
    block_size: int | None,
    exact: bool,  # noqa: FBT001  # click passes all of them alike
    output: str,
) -> None:
    """Run a trace or a workload on a fleet in virtual time: the real router, simulated engines.

    Progress goes to standard error, the result to standard output.
    """
    source = _source(trace, name, speed=speed, requests=requests, rate=rate, load=load)
    try:
        made = replace(
            scenario_of(filename, Size(workers, prefill, devices), profile, (ttft, tpot)),
            routers=routers,
            block_tokens=block_size or source.block_tokens,
            exact=exact,
            warm_up_s=warm_up,
            duration_s=math.inf if duration is None else duration,
        )
        with Progress(context) as progress:
            warm()
            per_s = rate_at_load(made, source, load, progress) if load is not None else rate or 1.0
            outcomes = _run(made, source, progress, policies=policies or (made.policy,), seeds=seeds, per_s=per_s)
    except (ScenarioError, WorkloadError) as error:
        raise InvalidError(str(error)) from error
    _show(context, outcomes, output, _asked(made, source, per_s))


def _source(
    trace: Path | None, name: str | None, *, speed: float, requests: int | None, rate: float | None, load: float | None
) -> Source:
    if (trace is None) == (name is None):
        raise InvalidError("give either --trace FILE or --workload NAME")
    if trace is not None and (rate is not None or load is not None):
        raise InvalidError("--rate, --load: a trace has its own times; use --speed")
    if rate is not None and load is not None:
        raise InvalidError("give either --rate or --load")
    return Source(trace, name or "", speed, requests if trace is not None else requests or 1000)


def _run(
    scenario: Scenario, source: Source, progress: Progress, *, policies: tuple[str, ...], seeds: int, per_s: float
) -> list[Outcome]:
    """Run every policy with every seed; seeds begin at 1, since knees are looked for with 0."""
    outcomes: list[Outcome] = []
    for policy in policies:
        for seed in range(1, seeds + 1):
            progress.begin(f"{policy}, seed {seed}")
            run = Simulation(replace(scenario, policy=policy, seed=seed), source.make(per_s, seed))
            outcomes.append(run.run(progress.show))
    return outcomes


def _asked(scenario: Scenario, source: Source, per_s: float) -> dict[str, str]:
    pools = ", ".join(f"{pool.workers} {pool.role.value} x {pool.profile.name}" for pool in scenario.pools)
    load = f"{source.trace.name} at {source.speed:g}x" if source.trace else f"{source.name} at {per_s:.3g}/s"
    slo = f"TTFT {scenario.slo.ttft_s:g} s, TPOT {scenario.slo.tpot_s:g} s"
    return {"load": load, "fleet": pools, "SLO": slo, "routers": str(scenario.routers)}


def _show(context: Context, outcomes: list[Outcome], output: str, asked: dict[str, str]) -> None:
    if output == "html":
        click.echo(page("Simulation", asked, outcomes), nl=False)
    elif output == "json":
        click.echo(json.dumps({"asked": asked, "runs": [outcome.document() for outcome in outcomes]}, indent=2))
    else:
        click.echo(", ".join(f"{name}: {value}" for name, value in asked.items()))
        show_table(context, HEADS, rows(summarise(outcomes)), right=range(1, len(HEADS)))
