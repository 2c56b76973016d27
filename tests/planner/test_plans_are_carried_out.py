"""The round of a process with a world in memory, the files of a local instance, and the journal."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec
from inferplane_engine.profiles import CPU_TEST, profile_named
from inferplane_planner.act.comparing import remade, remake
from inferplane_planner.act.journal import Journal, read
from inferplane_planner.act.local_world import LocalWorld
from inferplane_planner.act.planning import Planning
from inferplane_planner.act.priors import prior_of, read_calibration
from inferplane_planner.act.records import encode
from inferplane_planner.act.startups import Seen, StartUps
from inferplane_planner.act.wishes import spec_of
from inferplane_planner.act.world import Findings, Sight, WorldError
from inferplane_planner.config import read_config
from inferplane_planner.core.contract import Plan, Verdict, Workers
from inferplane_planner.core.engine_model import CALIBRATED, GUESSED
from inferplane_planner.observe.events import Finished
from inferplane_runtime.settings import SettingsError

SERVICE = {
    "model": {"name": "m"},
    "engine": {"type": "sim", "sim": {"profile": "l40s-8b", "speed": 2}},
    "slo": {"ttft": "2s", "tpot": "100ms", "percentile": 95},
    "mode": "disaggregated",
    "prefill": {"replicas": 1, "maxReplicas": 4},
    "decode": {"replicas": 1, "maxReplicas": 6},
    "scaling": {"mode": "slo", "scaleDownDelay": "1m"},
}
WANTED = InferenceServiceSpec.model_validate(SERVICE)


@dataclass
class FakeWorld:
    """Has one service, whose workers are there as soon as they are asked for."""

    wanted: InferenceServiceSpec = WANTED
    wall_s: float | None = None
    acting: bool = True
    counts: dict[str, int] = field(default_factory=lambda: {"prefill": 1, "decode": 1})
    told: list[Plan] = field(default_factory=list[Plan])
    problem: str = ""

    async def look(self) -> Sight:
        if self.problem:
            raise WorldError(self.problem)
        spec = spec_of(self.wanted, prices={}, calibrations={}, period_s=5.0, start_up_s=10.0, wall_s=self.wall_s)
        prefill, decode = (Workers(self.counts[role], self.counts[role]) for role in ("prefill", "decode"))
        return Sight("m", spec, decode=decode, prefill=prefill, acting=self.acting)

    async def scale(self, role: str, replicas: int) -> None:
        self.counts[role] = replicas

    async def tell(self, findings: Findings, sight: Sight) -> None:
        assert findings.plan is not None
        self.told.append(findings.plan)
        assert sight.service == "m"


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def play(world: FakeWorld, journal: Journal, *, rate: int = 60, rounds: int = 8, begin_s: float = 1000.0) -> Planning:
    """Let `rate` requests come and end in each round."""
    clock = Clock(begin_s)
    planning = Planning(world, now=clock, period_s=5.0, journal=journal)

    async def rounds_() -> None:
        async with asyncio.TaskGroup() as group:
            for turn in range(rounds):
                planning.heard("r0")
                for index in range(rate):
                    name = f"{turn}-{index}"
                    planning.arrived(name)
                    planning.finished(Finished(name, prompt=4000, cached=0, output=20, ttft_s=0.3, tpot_s=0.01))
                clock.now += 5.0
                await planning.round(group)

    asyncio.run(rounds_())
    return planning


@pytest.mark.parametrize(("at", "least"), [("08:30", 3), ("12:00", 1)])
def test_a_window_raises_the_floor_while_it_holds(at: str, least: int) -> None:
    window = {"name": "mornings", "start": "08:00", "end": "12:00", "decode": {"minReplicas": 3}}
    wanted = {**SERVICE, "scaling": {"mode": "slo", "windows": [window]}}
    moment = datetime.fromisoformat(f"2026-11-30T{at}:00+00:00").timestamp()
    world = FakeWorld(wanted=InferenceServiceSpec.model_validate(wanted), wall_s=moment)
    play(world, Journal(None), rate=1)

    assert world.counts["decode"] == least


def test_a_plan_is_told_and_carried_out() -> None:
    world = FakeWorld()
    planning = play(world, Journal(None))

    assert planning.problem == ""
    assert world.told[-1].prefill > 1
    assert world.counts["prefill"] == world.told[-1].prefill


def test_advice_changes_nothing() -> None:
    world = FakeWorld(acting=False)
    play(world, Journal(None))

    assert world.told[-1].prefill > 1
    assert world.counts == {"prefill": 1, "decode": 1}


def test_a_world_that_cannot_be_seen_is_a_problem_that_is_said() -> None:
    world = FakeWorld(problem="the cluster does not answer")

    assert play(world, Journal(None), rounds=1).problem == "the cluster does not answer"


def test_recorded_decisions_are_made_again_from_the_record_alone(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    play(FakeWorld(), Journal(path))
    made = list(remake(path))

    assert len(made) == 8
    assert all(each.decided.plan == each.now and each.same for each in made)
    assert next(read(path)).first


def test_a_planner_that_begins_again_knows_how_its_load_was_and_says_so_to_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    play(FakeWorld(), Journal(path))
    before = list(read(path))
    play(FakeWorld(), Journal(path), rounds=2, begin_s=1060.0)
    after = list(read(path))[len(before) :]

    known, taken = before[-1].forecast, after[0].forecast
    assert after[0].first
    assert known is not None
    assert taken is not None
    assert (taken.level, taken.last, taken.errors) == (known.level, known.last, known.errors)
    assert taken.level > 5.0
    assert all(each.same for each in remake(path))


def test_what_was_learned_in_the_future_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    play(FakeWorld(), Journal(path))
    play(FakeWorld(), Journal(path), rounds=1, begin_s=500.0)

    assert list(read(path))[-1].forecast is None


@pytest.mark.parametrize("line", ['{"service": "m", "now": 3', '{"service": "m", "now": 3}\n', "nonsense\n", ""])
def test_records_that_cannot_be_read_begin_a_forecast_anew(tmp_path: Path, line: str) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text(line)
    world = FakeWorld()
    play(world, Journal(path), rounds=1)

    assert len(world.told) == 1


@given(st.data())
@settings(max_examples=20)
def test_a_line_that_was_cut_anywhere_costs_that_decision_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A process is killed while it writes its last line, and the next one goes on in the same file."""
    path = tmp_path_factory.mktemp("cut") / "decisions.jsonl"
    play(FakeWorld(), Journal(path), rounds=3)
    *whole, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole) + last[: data.draw(st.integers(0, len(last) - 1))])
    play(FakeWorld(), Journal(path), rounds=2, begin_s=1060.0)
    kept = list(read(path))

    assert path.read_bytes().startswith(b"".join(whole))
    assert [each.now for each in kept] == [1005.0, 1010.0, 1065.0, 1070.0]
    assert kept[2].forecast is not None  # of the last whole line
    assert all(each.same for each in remake(path))


def test_a_plan_that_comes_out_otherwise_is_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    play(FakeWorld(), Journal(path))
    decided = list(read(path))
    other = replace(decided[-1], plan=replace(decided[-1].plan, decode=decided[-1].plan.decode + 1))
    made = list(remade([*decided[:-1], other]))

    assert [each.same for each in made] == [True] * 7 + [False]
    assert made[-1].now == decided[-1].plan


def test_start_ups_are_timed_from_being_seen_first_and_only_once() -> None:
    seen = StartUps()

    assert seen.look([Seen("a", ready=True), Seen("b", ready=False, pending=True)], 10.0) == ()
    assert seen.pending_since(["a", "b"]) == 10.0
    assert seen.look([Seen("a", ready=True), Seen("b", ready=True)], 40.0) == (30.0,)
    assert seen.pending_since(["a", "b"]) is None
    assert seen.look([Seen("b", ready=False)], 50.0) == ()
    assert seen.look([Seen("b", ready=True)], 60.0) == ()


def test_a_service_becomes_a_specification() -> None:
    spec = spec_of(WANTED, prices={"": 2.5}, calibrations={}, period_s=5.0, start_up_s=10.0)

    assert (spec.decode.least, spec.decode.most, spec.decode.cost) == (1, 6, 2.5)
    assert spec.prefill is not None
    assert spec.prefill.most == 4
    assert spec.objective.percentile == pytest.approx(0.95)
    assert spec.patience.down_delay_s == 60.0


def test_a_simulated_engine_is_known_as_fast_as_it_is_played() -> None:
    prior = prior_of(WANTED, {})

    assert prior.deviation == CALIBRATED
    assert prior.decode.profile.weights_s == pytest.approx(profile_named("l40s-8b").weights_s / 2)


def test_a_calibration_wins_over_a_guess(tmp_path: Path) -> None:
    real = InferenceServiceSpec.model_validate({"model": {"name": "m", "source": {"hf": "a/b"}}, "mode": "aggregated"})
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(encode(replace(CPU_TEST, weights_s=0.5))))

    assert prior_of(real, {}).deviation == GUESSED
    calibrated = prior_of(real, {"": read_calibration(file)})
    assert calibrated.deviation == CALIBRATED
    assert calibrated.decode.profile.weights_s == 0.5


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "x"}', '{"nonsense": 1}'])
def test_a_bad_calibration_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(text)

    with pytest.raises(SettingsError, match=r"calibration\.json"):
        read_calibration(file)


def instance(folder: Path, **scaling: str) -> LocalWorld:
    manifest = {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "m"},
        "spec": {**SERVICE, "scaling": {"mode": "slo", **scaling}},
    }
    (folder / "desired.yaml").write_text(yaml.safe_dump({"manifests": [manifest]}))  # pyright: ignore[reportUnknownMemberType]  # the stub is partly untyped
    pools = [{"name": role, "role": role, "replicas": 2, "ready": 1} for role in ("prefill", "decode")]
    workers = [
        {"name": "decode-0", "pool": "decode", "phase": "Ready"},
        {"name": "decode-1", "pool": "decode", "phase": "Pending"},
    ]
    (folder / "status.json").write_text(json.dumps({"grpc": "127.0.0.1:9", "pools": pools, "workers": workers}))
    return LocalWorld(folder, now=lambda: 50.0, period_s=5.0, prices={}, calibrations={}, environment={})


def test_a_local_instance_is_seen_through_its_files(tmp_path: Path) -> None:
    sight = asyncio.run(instance(tmp_path).look())

    assert sight.routers == ("127.0.0.1:9",)
    assert sight.decode == Workers(2, 1, pending_since_s=50.0)
    assert sight.prefill == Workers(2, 1)
    assert sight.acting


def test_advice_and_manual_scaling_are_told_apart(tmp_path: Path) -> None:
    assert not asyncio.run(instance(tmp_path, mode="advise").look()).acting
    with pytest.raises(WorldError, match="manual"):
        asyncio.run(instance(tmp_path, mode="manual").look())


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    world = instance(tmp_path)
    (tmp_path / "status.json").unlink()

    with pytest.raises(WorldError, match=r"status\.json"):
        asyncio.run(world.look())


def test_a_plan_is_shown_beside_the_instance(tmp_path: Path) -> None:
    world = instance(tmp_path)
    sight = asyncio.run(world.look())
    other = FakeWorld()
    play(other, Journal(None), rounds=1)
    plan = other.told[-1]
    asyncio.run(world.tell(Findings(plan), sight))
    shown = json.loads((tmp_path / "plan.json").read_text())

    assert shown["service"] == "m"
    assert shown["verdict"] in {verdict.value for verdict in Verdict}


@pytest.mark.parametrize(
    ("document", "path"),
    [("local: /x\nperiodS: 0\n", "periodS"), ("periodS: 3\n", "local"), ("local: /x\nprices: [{per: 1}]\n", "prices")],
)
def test_a_wrong_configuration_names_the_field(tmp_path: Path, document: str, path: str) -> None:
    file = tmp_path / "planner.yaml"
    file.write_text(document)

    with pytest.raises(SettingsError, match=path):
        read_config(file)
