"""`inferplane up` with adapters in its file: they are loaded through agents, and edits of the file restart nothing."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferplane_operator.local.desired import Desired, change_desired
from inferplane_operator.local.status import InstancePhase, Status
from local_service import LocalService

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

API = "inferplane.dev/v1alpha1"
LIMIT_S = 90.0


def service() -> dict[str, Any]:
    spec = {
        "model": {"name": "inferplane/sim", "servedNames": ["base"]},
        "engine": {"type": "sim", "maxModelLen": 4096, "lora": {"maxAdapters": 3, "maxRank": 16}},
        "mode": "disaggregated",
        "prefill": {"replicas": 1},
        "decode": {"replicas": 1},
        "routing": {"exposeHeaders": True},
        "drainTimeout": "5s",
    }
    return {"apiVersion": API, "kind": "InferenceService", "metadata": {"name": "demo"}, "spec": spec}


class Adapters:
    """A folder of adapters, and a running service that is given some of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "adapters"
        self.folder.mkdir()
        self.file = folder / "service.yaml"
        self.write()
        self.service = LocalService.start(self.file, folder / "state")

    def make(self, name: str, *, rank: int = 8) -> None:
        (self.folder / name).mkdir()
        (self.folder / name / "adapter_config.json").write_text(json.dumps({"r": rank}))

    def manifests(self, *names: str, **spec: Any) -> list[dict[str, Any]]:
        return [
            service(),
            *(
                {
                    "apiVersion": API,
                    "kind": "LoRAAdapter",
                    "metadata": {"name": name},
                    "spec": {"service": "demo", "source": {"path": str(self.folder / name)}, **spec},
                }
                for name in names
            ),
        ]

    def write(self) -> None:
        self.file.write_text(json.dumps(self.manifests()[0]))  # JSON is YAML

    def want(self, *names: str, **spec: Any) -> int:
        """Put these adapters into the desired state, as another `up -f FILE` does; return its generation."""

        def change(found: Desired | None) -> Desired:
            assert found is not None
            manifests = self.manifests(*names, **spec)
            return found.model_copy(update={"manifests": manifests, "generation": found.generation + 1})

        return change_desired(self.service.state, change).generation

    def until(self, good: Callable[[Status], bool]) -> Status:
        deadline = time.monotonic() + LIMIT_S
        while (status := self.service.status()) is None or not good(status):
            assert time.monotonic() < deadline, status
            time.sleep(0.05)
        return status

    def ready(self, generation: int) -> Status:
        return self.until(lambda it: it.observed_generation >= generation and it.phase is InstancePhase.READY)

    def degraded(self, generation: int) -> Status:
        """Wait until something failed, and the router is not what is waited for."""
        return self.until(
            lambda it: (
                it.observed_generation >= generation
                and it.phase is InstancePhase.DEGRADED
                and "router: " not in it.message
            )
        )

    def ask(self, model: str) -> httpx.Response:
        body = {"model": model, "prompt": "Once upon a time " * 20, "max_tokens": 8, "temperature": 0}
        return httpx.post(f"{self.service.ready_status().url}/v1/completions", json=body, timeout=30)

    def words(self, model: str) -> str:
        answer = self.ask(model)
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == model
        text: str = answer.json()["choices"][0]["text"]
        return text


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapters]:
    found = Adapters(tmp_path_factory.mktemp("adapters"))
    found.service.wait_ready(LIMIT_S)
    yield found
    found.service.stop()


def pids(status: Status) -> dict[str, tuple[int | None, int | None]]:
    return {
        worker.name: (worker.engine.pid if worker.engine else None, worker.agent.pid if worker.agent else None)
        for worker in status.workers
    }


def test_edits_of_the_file_load_replace_and_unload_without_a_restart(adapters: Adapters) -> None:
    before = pids(adapters.service.ready_status())
    adapters.make("one")
    adapters.make("two")
    base = adapters.words("base")

    adapters.ready(adapters.want("one", "two"))
    assert len({base, adapters.words("one"), adapters.words("two")}) == 3
    handed = adapters.ask("one")
    assert handed.headers["x-inferplane-prefill-worker"] == "prefill-0"

    old = adapters.words("one")
    adapters.ready(adapters.want("one", revision="2"))
    assert adapters.words("one") not in (base, old)
    assert adapters.ask("two").status_code == 404

    adapters.ready(adapters.want())
    assert adapters.ask("one").status_code == 404
    assert adapters.words("base") == base
    assert pids(adapters.service.ready_status()) == before


def test_an_adapter_that_cannot_be_loaded_is_named_and_everything_else_serves(adapters: Adapters) -> None:
    generation = adapters.want("missing")
    status = adapters.degraded(generation)
    answer = adapters.ask("missing")

    assert "adapter missing: loaded on 0 of 2 workers" in status.message
    assert "No adapter found for" in status.message
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert "adapter missing is not loaded on any worker of service demo yet" in answer.json()["error"]["message"]
    assert adapters.ask("base").status_code == 200
    assert adapters.ask("unknown").status_code == 404

    adapters.make("missing")
    adapters.ready(generation)
    assert adapters.ask("missing").status_code == 200
