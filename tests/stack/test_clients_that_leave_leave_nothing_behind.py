"""Clients that leave at any moment; `bench/bench_streams.py --disconnects 50000` does the same at length."""

from pathlib import Path

import pytest

from inferplane_workers.agent.config import Role
from inferplane_workers.testing import until
from leaving_clients import Leaving, crowd
from one_loop_service import OneLoopService, WorkerSpec, in_one_loop, text_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_no_request_connection_or_load_entry_stays(tmp_path: Path) -> None:
    specs = [WorkerSpec("p0", Role.PREFILL), WorkerSpec("d0", Role.DECODE), WorkerSpec("d1", Role.DECODE)]

    async def scenario(service: OneLoopService) -> None:
        left = await crowd(service.address, 150, at_once=10, seed=1)
        await until(service.at_rest)
        await until(lambda: not service.router.http.connections)

        assert set(left) == set(Leaving)
        assert service.router.plane.in_force == 0
        assert service.router.plane.waiting == 0

        text_of(await service.post("/v1/completions", {"model": "tiny", "prompt": "still there", "max_tokens": 2}))

    in_one_loop(tmp_path, specs, scenario)
