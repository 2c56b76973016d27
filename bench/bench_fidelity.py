"""The simulator against real vLLM on this machine's cores: `make bench-fidelity ARGS="--out FILE [...]"`.

Three fleets: one aggregated worker, one prefill and one decode worker, two aggregated workers with routing.  One engine
is calibrated first, through the gateway, as `inferplane calibrate` does it.  At shares of each fleet's knee the same
requests are sent twice, which gives the repeat error, and once through the simulator.  A figure (TTFT and TPOT, p50 and
p95; the share of prompt tokens that was cached) is to be off by nine per cent at most, or by half as much again as the
repeat error.  A run takes `--seconds` and a start of the engines; whatever FILE holds is not run again.  The last line
is a summary; the exit status says nothing of the bar.  `make engine` first.
"""

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import httpx
from _fidelity_live import MODEL, MOST_AT_ONCE, STEP_TOKENS, Fleet, Live, hit_rate
from _fidelity_simulated import Known, figures_of, knee, line, requests, simulated_figures

from bare_engine import REPOSITORY
from fidelity import summary, table, verdicts
from inferplane.calibrating import Notes, measure
from inferplane.probing import HttpEngine
from inferplane_engine.profiles import profile_named
from inferplane_engine.timing import TimingProfile
from inferplane_planner.act.records import decode, encode
from inferplane_planner.calibration.fitting import fit
from inferplane_planner.calibration.grid import Grid, PrefillPoint
from inferplane_router.core.warming import warm

ONE: Final = Fleet("one", prefill=0, decode=1)
FLEETS: Final = {each.name: each for each in (ONE, Fleet("pd", prefill=1, decode=1), Fleet("two", prefill=0, decode=2))}
LOADS: Final = (0.3, 0.6, 0.9)
REPEATS: Final = 2
HAND_OVERS: Final = (64, 192, 320, 448) * 2
KV_BYTES: Final = 16_384
"""Of a token in that model: keys and values, 8 layers, 4 heads of 64, 4 bytes."""
_GRID: Final = Grid(longest=STEP_TOKENS, most=MOST_AT_ONCE, context=STEP_TOKENS)


class Results:
    """Lines of one size in a file, those of earlier runs included."""

    def __init__(self, out: Path, size: dict[str, Any]) -> None:
        self._out, self._size = out, size
        kept = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
        self.lines = [each for each in map(json.loads, kept) if each["size"] == size]

    def add(self, document: dict[str, Any]) -> None:
        line = {"size": self._size, **document}
        self.lines.append(line)
        with self._out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def find(self, **wanted: Any) -> list[dict[str, Any]]:
        return [each for each in self.lines if all(each.get(name) == value for name, value in wanted.items())]

    def known(self, fleet: Fleet) -> Known | None:
        """Return what was calibrated, with the link where the fleet has one."""
        found = self.find(what="engine")
        if not found:
            return None
        known = Known(decode(TimingProfile, found[-1]["profile"]), found[-1]["way_s"])
        links = self.find(what="link")
        return known.with_link(*links[-1]["link"]) if fleet.prefill and links else known


class Bench:
    """Cells of some fleets."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.seconds, self.warm_up_s = float(options.seconds), float(options.warm_up)
        self.loads, self.seeds = list[float](options.loads), range(1, int(options.seeds) + 1)
        self.model = Path(options.model).resolve()
        self.results = Results(options.out, {"seconds": self.seconds, "warm_up_s": self.warm_up_s})
        self._notes = options.out.with_suffix(".samples.jsonl")

    def run(self, fleet: Fleet) -> None:
        """Run what is missing of a fleet."""
        if not self._missing(fleet):
            return
        if fleet is not ONE and self.results.known(ONE) is None:
            with running(ONE, self.model) as live:
                self._calibrate(live)
        with running(fleet, self.model) as live:
            if self.results.known(ONE) is None:
                self._calibrate(live)
            if fleet.prefill and not self.results.find(what="link"):
                self._learn_link(fleet, live)
            for load, seed, repeat in self._missing(fleet):
                self._cell(fleet, live, load, seed, repeat)

    def _missing(self, fleet: Fleet) -> list[tuple[float, int, int]]:
        return [
            (load, seed, repeat)
            for load in self.loads
            for seed in self.seeds
            for repeat in range(REPEATS)
            if not self.results.find(what="run", fleet=fleet.name, load=load, seed=seed, repeat=repeat)
        ]

    def _calibrate(self, live: Live) -> None:
        self._notes.unlink(missing_ok=True)  # of another start, which may have met other neighbours
        samples = asyncio.run(_samples(live.url, self._notes))
        like = replace(profile_named("cpu-test"), kv_capacity_tokens=live.kv_tokens(), kv_bytes_per_token=KV_BYTES)
        found = fit(samples, replace(like, name=MODEL))
        self.results.add({"what": "engine", "profile": encode(found.profile), "way_s": found.overhead_s})
        say(f"calibrated: {found.mean_error:.1%} off on average, {found.largest_error:.1%} at most")

    def _learn_link(self, fleet: Fleet, live: Live) -> None:
        """Take the least time of each length over what both engines take: what is left is the hand-over."""
        known = self._known(fleet)
        points = [PrefillPoint(tokens) for tokens in HAND_OVERS]
        found = asyncio.run(_times(live.url, points))
        over = {tokens: min(it for length, it in found if length == tokens) for tokens in HAND_OVERS}
        link = line([(float(tokens), seconds - known.alone_s(tokens)) for tokens, seconds in over.items()])
        self.results.add({"what": "link", "link": link, "over": over})
        say(f"a hand-over takes {link[0] * 1000:.1f} ms and {link[1] * 1e6:.1f} us a token")

    def _known(self, fleet: Fleet) -> Known:
        known = self.results.known(fleet)
        if known is None:
            raise SystemExit("no engine was calibrated")
        return known

    def _rate(self, fleet: Fleet, load: float) -> float:
        """Return the rate of a load; the knee is looked for once, so that later runs fit those before."""
        if not self.results.find(what="knee", fleet=fleet.name):
            self.results.add({"what": "knee", "fleet": fleet.name, "per_s": knee(fleet, self._known(fleet))})
        return float(self.results.find(what="knee", fleet=fleet.name)[0]["per_s"]) * load

    def _cell(self, fleet: Fleet, live: Live, load: float, seed: int, repeat: int) -> None:
        rate = self._rate(fleet, load)
        asked = requests(rate, self.warm_up_s + self.seconds, seed)
        before = live.hits()
        seen = asyncio.run(live.load(asked))
        found = figures_of(seen, hit_rate(live.hits(), before), self.warm_up_s)
        cell = {"what": "run", "fleet": fleet.name, "load": load, "seed": seed, "repeat": repeat, "per_s": rate}
        each = [[round(value, 5) for value in asdict(one).values()] for one in seen]
        self.results.add({**cell, **found, "seen": each})
        say(json.dumps({**cell, **{name: round(value, 4) for name, value in found.items()}}))

    def compare(self, fleets: list[Fleet]) -> dict[str, Any]:
        """Simulate every cell that was run twice, print the table and return the summary."""
        cells = {}
        for fleet in fleets:
            for load in self.loads:
                for seed in self.seeds:
                    real = self.results.find(what="run", fleet=fleet.name, load=load, seed=seed)
                    if len(real) < REPEATS:
                        continue
                    asked = requests(real[0]["per_s"], self.warm_up_s + self.seconds, seed)
                    simulated = simulated_figures(fleet, self._known(fleet), asked, self.warm_up_s)
                    name = f"{fleet.name}, {load:.0%} ({real[0]['per_s']:.2f}/s), seed {seed}"
                    cells[name] = verdicts(real, simulated)
        for row in table(cells):
            say(row)
        return summary(cells)


@contextmanager
def running(fleet: Fleet, model: Path) -> Iterator[Live]:
    """Start a fleet, and let it end with the block."""
    folder = Path(tempfile.mkdtemp(prefix="fidelity-"))
    live = Live.start(fleet, model, folder)
    try:
        yield live
    finally:
        live.service.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def _samples(url: str, notes: Path) -> Any:
    async with httpx.AsyncClient(base_url=url, timeout=600.0, trust_env=False) as client:
        engine = HttpEngine(client, MODEL, random.SystemRandom())
        return await measure(engine, _GRID.points(), Notes(notes, url), repeats=3, tell=say)


async def _times(url: str, points: list[PrefillPoint]) -> list[tuple[int, float]]:
    async with httpx.AsyncClient(base_url=url, timeout=600.0, trust_env=False) as client:
        engine = HttpEngine(client, MODEL, random.SystemRandom())
        return [(point.tokens, (await engine.measure(point)).seconds) for point in points]


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=REPOSITORY / ".cache" / "fidelity.jsonl", help="file of the runs")
    parser.add_argument("--cells", nargs="+", choices=list(FLEETS), default=list(FLEETS), help="fleets to run")
    parser.add_argument("--loads", nargs="+", type=float, default=LOADS, help="shares of the knee")
    parser.add_argument("--seconds", type=float, default=45.0, help="time of a run that counts")
    parser.add_argument("--warm-up", type=float, default=8.0, help="time before that")
    parser.add_argument("--seeds", type=int, default=1, help="draws of the requests")
    parser.add_argument("--model", type=Path, default=REPOSITORY / ".cache" / "models" / "steady-llama")
    parser.add_argument("--tables", action="store_true", help="compare what the file holds, and run nothing")
    options = parser.parse_args()
    warm()
    bench, fleets = Bench(options), [FLEETS[name] for name in options.cells]
    if not options.tables:
        for fleet in fleets:
            bench.run(fleet)
    print(json.dumps(bench.compare(fleets)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
