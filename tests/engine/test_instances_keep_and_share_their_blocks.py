"""Two services with one KVStore: warmed, killed and warm again, shared by all three pools, seen by the command line."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import yaml
from click.testing import CliRunner

from engine_probe import wait_until
from inferplane.cli import root
from inferplane.context import Context
from inferplane_kvstore.testing import SECRET
from inferplane_operator.local.statedir import StateDir
from inferplane_operator.local.status import ChildStatus, InstancePhase
from local_service import LocalService, prompt_tokens_by_source
from real_redis import RealRedis, find_program

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


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: list[int]
    prompt: list[int]

    @property
    def stored_blocks(self) -> int:
        """Whole blocks that are computed when the last token is chosen."""
        return (len(self.prompt) + len(self.tokens) - 1) // BLOCK


@dataclass(slots=True)
class Kept:
    """An instance whose blocks a store keeps."""

    service: LocalService
    folder: Path

    def inferplane(self, *args: str) -> str:
        """Type a command and return what it prints."""
        context = Context(environment=dict(os.environ), working_dir=self.folder)
        result = CliRunner().invoke(root, [*args, "--state-dir", str(self.service.state.root)], obj=context)
        assert result.exit_code == 0, result.output
        return result.stdout

    def shown(self) -> list[str]:
        """Return the blocks that `kv ls` lists."""
        return [line.split()[0] for line in self.inferplane("kv", "ls", "--limit", "10000").splitlines()[1:]]

    def drained(self) -> int:
        """Return how many blocks are in Redis once all are that are in memory."""
        return int(self.inferplane("kv", "drain").split(" of ")[0])

    def loaded(self, worker: str) -> int:
        """Return how many tokens of prompts an engine got from elsewhere so far."""
        return int(prompt_tokens_by_source(self.service.worker(worker).engine_url).get("external_kv_transfer", 0))

    def engine(self) -> ChildStatus:
        engine = self.service.worker("decode-0").engine
        assert engine is not None
        return engine

    def restart(self) -> None:
        """Kill the engine and wait until the instance is ready with another."""
        killed = self.engine().pid
        assert killed is not None
        os.killpg(killed, signal.SIGKILL)
        wait_until(
            lambda: (self.engine().pid, self.service.ready_status().phase),
            lambda seen: seen[0] not in (None, killed) and seen[1] is InstancePhase.READY,
            limit_s=READY_LIMIT_S,
        )


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRedis]:
    program = find_program("redis-server")
    if program is None:
        pytest.skip("there is no redis-server: `make redis` fetches Debian's, or put one on PATH")
    server = RealRedis.start(program, tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture(scope="module")
def instances(
    redis: RealRedis, tmp_path_factory: pytest.TempPathFactory, engine_here: None, model_folder: Path
) -> Iterator[tuple[Kept, Kept]]:
    """One worker alone, and prefill and decode apart; started together."""
    del engine_here
    pools: list[dict[str, Any]] = [{"mode": "aggregated"}, {"mode": "disaggregated", "prefill": {"replicas": 1}}]
    kept: list[Kept] = []
    try:
        for wanted in pools:
            folder = tmp_path_factory.mktemp(wanted["mode"])
            kept.append(Kept(started(folder, model_folder, redis, wanted), folder))
        for each in kept:
            each.service.wait_ready(READY_LIMIT_S)
        yield kept[0], kept[1]
    finally:
        for each in kept:
            each.service.stop()


def started(folder: Path, model: Path, redis: RealRedis, pools: dict[str, Any]) -> LocalService:
    service, store = yaml.safe_load_all(MANIFEST.read_text())
    service["spec"] |= pools
    service["spec"]["model"]["source"]["path"] = str(model)
    store["spec"]["tiers"].append({"name": "shared", "medium": "redis", "address": f"127.0.0.1:{redis.port}"})
    manifest = folder / "kept.yaml"
    manifest.write_text(cast("Any", yaml).safe_dump_all([service, store]))
    state = StateDir(folder / "state")
    state.root.mkdir()
    state.kv_secret.write_bytes(SECRET)  # instances that share a Redis have one key
    return LocalService.start(manifest, state.root, settings=SETTINGS)


@pytest.fixture
def alone(instances: tuple[Kept, Kept]) -> Kept:
    return instances[0]


@pytest.fixture
def pair(instances: tuple[Kept, Kept]) -> Kept:
    return instances[1]


def answer(service: LocalService, prompt: str | list[int], tokens: int = 16) -> Answer:
    body = {"model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": tokens, "ignore_eos": True}
    url = f"{service.ready_status().url}/v1/completions"
    reply = httpx.post(url, json={**body, "return_token_ids": True}, timeout=120)
    choice = reply.json()["choices"][0]
    return Answer(choice["token_ids"], choice["prompt_token_ids"])


def shared(kept: Kept, ask: Callable[[], list[Answer]]) -> list[Answer]:
    """Ask, and wait until the blocks of prompts and answers are in Redis: they are saved beside the engine's work."""
    before = kept.drained()
    answers = ask()
    wanted = before + sum(each.stored_blocks for each in answers)
    wait_until(kept.drained, lambda below: below >= wanted, READY_LIMIT_S)
    return answers


def whole(answers: list[Answer]) -> int:
    """Return the tokens of prompts that can come from a store: whole blocks, but never the last token."""
    return sum((len(each.prompt) - 1) // BLOCK * BLOCK for each in answers)


def test_blocks_outlive_the_engine_and_people_see_them(alone: Kept, texts: list[str], tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text(texts[0])
    others = len(alone.shown())  # of the agent's own questions
    first = alone.inferplane("kv", "warm", str(prompts))
    tokens = int(first.split(" tokens")[0].rsplit(" ", 1)[1])
    storable = (tokens - 1) // BLOCK * BLOCK
    before = answer(alone.service, texts[0])
    # Blocks are saved beside the engine's work: what is on its way when an engine is killed is lost.
    wait_until(lambda: len(alone.shown()) - others, lambda count: count >= storable // BLOCK, READY_LIMIT_S)
    alone.restart()
    again = alone.inferplane("kv", "warm", str(prompts))

    assert first == f"1 prompts of {tokens} tokens, of which 0 were there already\n"
    assert again == f"1 prompts of {tokens} tokens, of which {storable} were there already\n"
    assert answer(alone.service, texts[0]) == before

    assert alone.inferplane("kv", "pin", alone.shown()[0]) == "1 blocks pinned\n"
    assert alone.inferplane("kv", "verify").endswith(" blocks checked, 0 bad\n")
    assert alone.drained() == len(alone.shown())
    assert "\nkv store cache: " in alone.inferplane("status")
    assert "dram" in alone.inferplane("kv", "stat")


def test_pools_load_what_others_computed_and_answer_as_without_a_store(
    alone: Kept, pair: Kept, service: LocalService, texts: list[str]
) -> None:
    prompts: list[str | list[int]] = [*texts[1:4]]
    without = [answer(service, each) for each in prompts]

    assert shared(pair, lambda: [answer(pair.service, each) for each in prompts]) == without
    before = alone.loaded("decode-0")
    assert [answer(alone.service, each) for each in prompts] == without
    assert alone.loaded("decode-0") - before == whole(without)

    prompts = [*texts[4:7]]
    without = [answer(service, each) for each in prompts]

    assert shared(alone, lambda: [answer(alone.service, each) for each in prompts]) == without
    before = pair.loaded("prefill-0")
    assert [answer(pair.service, each) for each in prompts] == without
    assert pair.loaded("prefill-0") - before == whole(without)


def test_a_prefill_pool_loads_what_the_decode_pool_answered(
    pair: Kept, service: LocalService, texts: list[str]
) -> None:
    (first,) = shared(pair, lambda: [answer(pair.service, texts[7], 3 * BLOCK)])
    both = [*first.prompt, *first.tokens, *range(300, 310)]
    before = pair.loaded("prefill-0")
    second = answer(pair.service, both)
    answered = first.stored_blocks - len(first.prompt) // BLOCK

    assert pair.loaded("prefill-0") - before == answered * BLOCK
    assert second == answer(service, both)
