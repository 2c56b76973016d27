"""What it costs a gateway to be seen: `python bench/bench_seeing.py [--rounds N] [--seconds S]`.

Three real router processes have each a stand-in agent that answers at once and reports what it answered.  One writes
records and traces one request in a hundred to a stand-in collector, two do neither; short rounds alternate, and the
median of the ratios of their CPU time a request is told: under a load that fills the process, and at a pace at which
every decision is written (above 200 a second some are left out).  How far the two that are equal differ is told beside
it: less than that means nothing.  Metrics cannot be switched off: what a request counts is read off the page and timed
by itself.  The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import json
import tempfile
import timeit
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import uvloop
from _processes import cpu_s
from baselines.peers import Peer
from bench_gateway import chat, first_line, load, process, wait_for_router, write_files

from inferplane_runtime.metrics.catalogue import gateway as names
from inferplane_runtime.metrics.instruments import Cell, Distribution

_GATEWAY: Final = str(Path(__file__).parent / "bench_gateway.py")
_CONNECTIONS: Final = 32
_PACE: Final = 150.0
"""Requests a second: below what a process writes of decisions."""
_PACED_CONNECTIONS: Final = 4
Measure = Callable[[Peer, float], Awaitable[float]]
Round = tuple[float, float, float]
"""CPU seconds a request: of one that is not seen, of its twin, of the one that is seen."""


@contextlib.asynccontextmanager
async def router(folder: Path, *, seen_by: int | None) -> AsyncGenerator[Peer]:
    """Run a router and its stand-in agent; `seen_by` is the port of a collector."""
    with process(_GATEWAY, "--backend", "1", "--reports") as agent:
        http, stream = first_line(agent)
        config = write_files(folder, http, stream)
        if seen_by is not None:
            more = {
                "records": {"folder": str(folder / "records")},
                "tracing": {"endpoint": f"http://127.0.0.1:{seen_by}", "ratio": 0.01},
            }
            config.write_text(json.dumps(json.loads(config.read_text()) | more))
        with process("-m", "inferplane_router", "--config", str(config), "--log-level", "error") as child:
            yield Peer(folder.name, await wait_for_router(folder), child.pid)


async def paced(side: Peer, seconds: float) -> float:
    """Ask at a steady pace; return CPU seconds a request."""
    before = cpu_s(side.pid)
    counts = await asyncio.gather(*(_ask(side.port, seconds, number) for number in range(_PACED_CONNECTIONS)))
    return (cpu_s(side.pid) - before) / sum(counts)


async def _ask(port: int, seconds: float, number: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    loop = asyncio.get_running_loop()
    every = _PACED_CONNECTIONS / _PACE
    first, asked = loop.time() + every * number / _PACED_CONNECTIONS, 0
    while asked * every < seconds:
        await asyncio.sleep(max(0.0, first + asked * every - loop.time()))
        writer.write(chat(asked % 64))
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        asked += 1
    writer.close()
    return asked


async def busy(side: Peer, seconds: float) -> float:
    """Keep connections busy; return CPU seconds a request."""
    found = await load(side.port, side.pid, connections=_CONNECTIONS, seconds=seconds, stream=False)
    return found["cpu_us_per_request"] / 1e6


def ratio(rounds: list[Round]) -> float:
    return round(median(2 * seen / (unseen + twin) for unseen, twin, seen in rounds), 4)


def control(rounds: list[Round]) -> float:
    """Return what the two differ by that do the same."""
    return round(median(twin / unseen for unseen, twin, _ in rounds), 4)


def counted(folder: Path) -> tuple[float, float]:
    """Return how many counters and how many histograms one request moves, by what the page of a router says."""
    page = _page(folder)
    values = {name: value for name, value in page if "_bucket{" not in name and "_sum" not in name}
    requests = sum(value for name, value in values.items() if name.startswith(f"{names.REQUESTS.name}{{"))
    observed = sum(value for name, value in values.items() if "_count{" in name)
    moved = sum(value for name, value in values.items() if "_total{" in name and "tokens" not in name)
    return moved / requests, observed / requests


def _page(folder: Path) -> list[tuple[str, float]]:
    address = json.loads((folder / "report.json").read_text())["metrics"]
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return [(name, float(value)) for name, _, value in (it.rpartition(" ") for it in lines if not it.startswith("#"))]


def counting_s(counters: float, histograms: float) -> float:
    """Return what counting so much takes, by timing one of each."""
    cell, distribution = Cell(), Distribution(names.TTFT.buckets)
    once = 200_000
    one = min(timeit.repeat(cell.inc, number=once, repeat=5)) / once
    other = min(timeit.repeat(lambda: distribution.observe(0.2), number=once, repeat=5)) / once
    return counters * one + histograms * other


async def run(rounds: int, seconds: float) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        collector = first_line(stack.enter_context(process(_GATEWAY, "--backend", "1")))[0]
        watchers = {"unseen": None, "twin": None, "seen": collector}
        sides = [await stack.enter_async_context(router(folder / name, seen_by=it)) for name, it in watchers.items()]
        for side in sides:
            await busy(side, seconds)
        full = [await _round(busy, number, sides, seconds) for number in range(rounds)]
        calm = [await _round(paced, number, sides, seconds) for number in range(rounds)]
        counters, histograms = counted(folder / "unseen")
        written = sum(1 for file in (folder / "seen" / "records").glob("decisions-*") for _ in file.open("rb"))
    return summary(full, calm, counters, histograms) | {"decisions_written": written}


async def _round(measure: Measure, number: int, sides: Sequence[Peer], seconds: float) -> Round:
    """Measure all of them, each round beginning with another one."""
    places = [(number + each) % len(sides) for each in range(len(sides))]
    found = {place: await measure(sides[place], seconds) for place in places}
    return found[0], found[1], found[2]


def summary(full: list[Round], calm: list[Round], counters: float, histograms: float) -> dict[str, Any]:
    for name, rounds in (("busy", full), ("paced", calm)):
        alone, twin, watched = (median(column) * 1e6 for column in zip(*rounds, strict=True))
        print(
            f"{name:6} CPU a request: {alone:.1f} and {twin:.1f} us unseen, {watched:.1f} us seen, {len(rounds)} rounds"
        )
    counting = counting_s(counters, histograms)
    print(f"metrics: {counters:.1f} counters and {histograms:.1f} histograms a request, {counting * 1e6:.2f} us")
    share = counting / median(unseen for unseen, _, _ in full)
    return {
        "bench": "seeing",
        "records_and_traces_busy": ratio(full),
        "records_and_traces_paced": ratio(calm),
        "control_busy": control(full),
        "control_paced": control(calm),
        "metrics_share": round(share, 4),
        "bar": 1.05,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    print(json.dumps(uvloop.run(run(given.rounds, given.seconds))))


if __name__ == "__main__":
    main()
