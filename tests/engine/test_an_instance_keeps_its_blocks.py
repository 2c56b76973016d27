"""A service with a KVStore in one file: warmed, killed and warm again, and looked into, by the command line alone."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from engine_probe import wait_until
from inferplane.cli import root
from inferplane.context import Context
from inferplane_operator.local.status import ChildStatus, InstancePhase
from local_service import LocalService

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1500)]
MANIFEST = Path(__file__).parent / "kept.yaml"
SETTINGS = {
    "INFERPLANE_CANARY_INTERVAL": "24h",
    "INFERPLANE_TRANSFER_CHECK": "off",
    # A busy machine may take longer than an engine waits by itself, and compute a tiny model sooner than fetch it.
    "KV_CONNECTOR_SETTINGS": json.dumps({"lookup_deadline_s": 120, "load_deadline_s": 120, "always_fetch": True}),
}
READY_LIMIT_S = 600.0
BLOCK = 32

Inferplane = Callable[..., str]
"""Calls `inferplane ARGS...` on the instance and returns what it prints."""


@pytest.fixture
def kept(tmp_path: Path, engine_here: None) -> Iterator[LocalService]:
    del engine_here
    service = LocalService.start(MANIFEST, tmp_path / "state", settings=SETTINGS)
    try:
        service.wait_ready(READY_LIMIT_S)
        yield service
    finally:
        service.stop()


@pytest.fixture
def inferplane(kept: LocalService, tmp_path: Path) -> Inferplane:
    def call(*args: str) -> str:
        context = Context(environment=dict(os.environ), working_dir=tmp_path)
        result = CliRunner().invoke(root, [*args, "--state-dir", str(kept.state.root)], obj=context)
        assert result.exit_code == 0, result.output
        return result.stdout

    return call


def engine_of(service: LocalService) -> ChildStatus:
    engine = service.worker("decode-0").engine
    assert engine is not None
    return engine


def restart(service: LocalService) -> None:
    """Kill the engine and wait until the instance is ready with another."""
    killed = engine_of(service).pid
    assert killed is not None
    os.killpg(killed, signal.SIGKILL)
    wait_until(
        lambda: (engine_of(service).pid, service.ready_status().phase),
        lambda seen: seen[0] not in (None, killed) and seen[1] is InstancePhase.READY,
        limit_s=READY_LIMIT_S,
    )


def shown(inferplane: Inferplane) -> list[str]:
    """Return the blocks that `kv ls` lists."""
    return [line.split()[0] for line in inferplane("kv", "ls").splitlines()[1:]]


def answer(service: LocalService, prompt: str) -> list[int]:
    body = {"model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": 16, "return_token_ids": True}
    reply = httpx.post(f"{service.ready_status().url}/v1/completions", json=body, timeout=120)
    tokens: list[int] = reply.json()["choices"][0]["token_ids"]
    return tokens


def test_blocks_outlive_the_engine_and_people_see_them(
    kept: LocalService, inferplane: Inferplane, texts: list[str], tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text(texts[0])
    others = len(shown(inferplane))  # of the agent's own questions
    first = inferplane("kv", "warm", str(prompts))
    tokens = int(first.split(" tokens")[0].rsplit(" ", 1)[1])
    storable = (tokens - 1) // BLOCK * BLOCK
    before = answer(kept, texts[0])
    # Blocks are saved beside the engine's work: what is on its way when an engine is killed is lost.
    wait_until(lambda: len(shown(inferplane)) - others, lambda count: count >= storable // BLOCK, READY_LIMIT_S)
    restart(kept)
    again = inferplane("kv", "warm", str(prompts))

    assert first == f"1 prompts of {tokens} tokens, of which 0 were there already\n"
    assert again == f"1 prompts of {tokens} tokens, of which {storable} were there already\n"
    assert answer(kept, texts[0]) == before

    assert inferplane("kv", "pin", shown(inferplane)[0]) == "1 blocks pinned\n"
    assert inferplane("kv", "verify").endswith(" blocks checked, 0 bad\n")
    assert inferplane("kv", "drain").startswith("0 of ")
    assert "\nkv store cache: " in inferplane("status")
    assert "dram" in inferplane("kv", "stat")
