"""Requests through an Envoy that asks our endpoint picker, against one that asks a bare one, in the same run.

    python bench/bench_extproc.py [--seconds S] [--rounds N]

The stand-in agent of bench_gateway stands behind two Envoys with the guide's configuration, one with bodies streamed,
one buffered; ours tokenises, hashes and chooses as the gateway does, the bare one names an endpoint.  CPU time of the
picker a request and requests a second are measured with 32 connections, rounds alternating between the two pickers.
Envoy, agent and client share the machine's cores with them, so quote ratios.  The last line is JSON.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from bench_gateway import _TOKENIZER, first_line, load, process, wait_for_router, write_files

from envoy_front import Document, configured, processor, running_envoy

_BARE = Path(__file__).parent / "baselines" / "bare_picker.py"
MODES = ("FULL_DUPLEX_STREAMED", "BUFFERED")


def in_mode(document: Document, mode: str) -> Document:
    trailers = "SEND" if mode.startswith("FULL") else "SKIP"
    processor(document)["processing_mode"] |= {"request_body_mode": mode, "request_trailer_mode": trailers}
    return document


def with_picker(config: Path) -> None:
    """Let the router of `config` listen for Envoys, at addresses that it reports."""
    settings = json.loads(config.read_text())
    settings["listen"]["extProc"] = "127.0.0.1:0"
    config.write_text(json.dumps(settings))


async def run(seconds: float, rounds: int) -> dict[str, Any]:
    agent_script = str(Path(__file__).with_name("bench_gateway.py"))
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        http, stream = first_line(stack.enter_context(process(agent_script, "--backend", "64", "--reports")))
        endpoint = f"127.0.0.1:{http}"
        bare = stack.enter_context(process(str(_BARE), endpoint))
        bare_port = first_line(bare)[0]
        config = write_files(folder, http, stream)
        with_picker(config)
        router = stack.enter_context(
            process("-m", "inferplane_router", "--config", str(config), "--log-level", "error")
        )
        await wait_for_router(folder)
        ours_port = int(json.loads((folder / "report.json").read_text())["ext_proc"].rpartition(":")[2])
        result: dict[str, Any] = {"bench": "extproc", "tokens": _TOKENIZER.is_dir()}
        for mode in MODES:
            pickers = {bare_port: bare.pid, ours_port: router.pid}
            rows = await measured(folder / mode, mode, endpoint, pickers, seconds=seconds, rounds=rounds)
            result |= summary(mode.split("_", maxsplit=1)[0].lower(), rows)
        return result


async def measured(
    folder: Path, mode: str, endpoint: str, pickers: dict[int, int], *, seconds: float, rounds: int
) -> list[list[dict[str, float]]]:
    """Return, for each picker (bare, ours), one result a round."""
    rows: list[list[dict[str, float]]] = [[], []]
    async with contextlib.AsyncExitStack() as stack:
        ports: list[tuple[int, int]] = []
        for port, pid in pickers.items():
            document = in_mode(configured(port, [endpoint]), mode)
            envoy = await stack.enter_async_context(running_envoy(folder / str(port), document))
            ports.append((int(envoy.address.rpartition(":")[2]), pid))
        for _ in range(rounds):
            for which, (port, pid) in enumerate(ports):
                row = await load(port, pid, connections=32, seconds=seconds, stream=False)
                rows[which].append(row)
                print(mode, "ours" if which else "bare", {name: round(value, 1) for name, value in row.items()})
    return rows


def summary(name: str, rows: list[list[dict[str, float]]]) -> dict[str, float]:
    """Take the median of the rounds' ratios: neighbours in time suffer alike."""
    ratios = sorted(ours["per_s"] / bare["per_s"] for bare, ours in zip(*rows, strict=True))
    cpu = [min(row["cpu_us_per_request"] for row in side) for side in rows]
    return {
        f"{name}_per_s": round(max(row["per_s"] for row in rows[1])),
        f"{name}_cpu_us": round(cpu[1], 1),
        f"{name}_bare_cpu_us": round(cpu[0], 1),
        f"{name}_vs_bare": round(ratios[len(ratios) // 2], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(json.dumps(uvloop.run(run(given.seconds, given.rounds))))


if __name__ == "__main__":
    main()
