"""Do our baselines decide as the packages do: `python bench/bench_agreement.py --python OTHER/bin/python`.

Packages that run here without an accelerator: `ai-dynamo-runtime` (its selection core), `sglang-router` and, where it
is asked for, `vllm-router` (whole routers before workers that answer when told).  They are installed in an environment
of their own, whose interpreter is named.  Both sides live through the same recorded run: ours is asked in the package's
state and then led where the package went.  A decision agrees where ours rates the package's worker best; equally good
ones count, `alone` says how often there was only one, and `decisive` is the agreement among those.
The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from _agreement_http import http_peer
from _agreement_ours import Ours, Rating
from _agreement_states import Kind, Moment, record
from numpy.typing import NDArray

from inferplane_simulator.policies.balanced_tree import BalancedTree
from inferplane_simulator.policies.block_cost import BlockCost

Tokens = NDArray[np.int32]
_BLOCK = 64
_TIGHT = ("--balance-abs-threshold", "2", "--balance-rel-threshold", "1.1")
"""Loads are uneven often enough for that branch to be seen."""


class Package(Protocol):
    """A package that decides; requests by number."""

    async def came(self, number: int, tokens: Tokens) -> int: ...

    async def prefilled(self, number: int) -> None: ...

    async def ended(self, number: int) -> None: ...


@dataclass(slots=True)
class Piped:
    """`_agreement_dynamo.py` in the other interpreter."""

    process: asyncio.subprocess.Process

    async def came(self, number: int, tokens: Tokens) -> int:
        return int(await self._tell({"came": number, "tokens": tokens.tolist()}))

    async def prefilled(self, number: int) -> None:
        await self._tell({"prefilled": number})

    async def ended(self, number: int) -> None:
        await self._tell({"ended": number})

    async def _tell(self, line: dict[str, Any]) -> Any:
        reader, writer = self.process.stdout, self.process.stdin
        if reader is None or writer is None:
            raise RuntimeError("the other interpreter was started without pipes")
        writer.write(json.dumps(line).encode() + b"\n")
        await writer.drain()
        if not (answer := await reader.readline()):
            raise RuntimeError("the other interpreter ended; run bench/_agreement_dynamo.py in it to see why")
        return json.loads(answer)


@contextlib.asynccontextmanager
async def piped_peer(python: Path, workers: int) -> AsyncIterator[Package]:
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(Path(__file__).with_name("_agreement_dynamo.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "DYN_ROUTER_USE_KV_EVENTS": "false", "DYN_ROUTER_TTL_SECS": "100000", "DYN_LOG": "off"},
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"workers": workers, "block": _BLOCK}).encode() + b"\n")
        yield Piped(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@dataclass(frozen=True, slots=True)
class Pair:
    """A package, how it is set, and our policy with the same settings."""

    package: str
    extra: tuple[str, ...] = ()
    apart: float = 64.0
    times: float = 1.5

    def rating(self) -> Rating:
        return BlockCost() if self.package == "dynamo" else BalancedTree(self.apart, self.times)

    def started(self, python: Path, workers: int) -> contextlib.AbstractAsyncContextManager[Package]:
        if self.package == "dynamo":
            return piped_peer(python, workers)
        return http_peer(python, self.package, workers, self.extra)


PAIRS = (
    Pair("dynamo"),
    Pair("sglang_router"),
    Pair("sglang_router", _TIGHT, 2.0, 1.1),
    Pair("vllm_router"),
    Pair("vllm_router", _TIGHT, 2.0, 1.1),
)


async def compare(pair: Pair, python: Path, moments: Sequence[Moment], workers: int) -> dict[str, Any]:
    """Let both live through the same moments; return how often they agreed."""
    ours = Ours(pair.rating(), workers, block=_BLOCK if pair.package == "dynamo" else 16, stores=True)
    async with pair.started(python, workers) as package:
        for moment in moments:
            number, now = moment.request.number, moment.at_s
            if moment.kind is Kind.CAME:
                ours.came(number, moment.tokens, await package.came(number, moment.tokens), now)
            elif moment.kind is Kind.PREFILLED:
                await package.prefilled(number)
                ours.prefilled(number, now)
            else:
                await package.ended(number)
                ours.ended(number, now)
    agreed, alone = np.array(ours.led.agreed), np.array(ours.led.alone)
    return {
        "decisions": agreed.shape[0],
        "agreed": round(float(agreed.mean()), 4),
        "alone": round(float(alone.mean()), 4),
        "decisive": round(float(agreed[alone].mean()), 4) if alone.any() else None,
    }


async def run(options: argparse.Namespace) -> None:
    results: list[dict[str, Any]] = []
    for scene in options.at:
        name, _, rate = scene.partition("=")
        moments = record(name, float(rate), requests=options.requests, workers=options.workers, seed=options.seed)
        for pair in PAIRS:
            if pair.package in options.packages:
                found = await compare(pair, options.python, moments, options.workers)
                line = {"package": pair.package, "extra": list(pair.extra), "scene": scene, **found}
                results.append(line)
                print(json.dumps(line), flush=True)
    print(json.dumps({"bench": "agreement", "results": results}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="interpreter of the environment with the packages")
    parser.add_argument("--packages", nargs="+", default=["dynamo", "sglang_router"])
    parser.add_argument(
        "--at", nargs="+", default=["saas=9", "zipf-shift=25", "reasoning=1.5"], metavar="WORKLOAD=RATE"
    )
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
