"""Streamed or whole, of either side of a hand-off: what was predicted is compared with what was observed."""

import math
from pathlib import Path

import pytest

from inferplane_api.proto.worker_pb2 import ROLE_DECODE
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import until
from one_loop_service import OneLoopService, WorkerSpec, in_one_loop

pytestmark = pytest.mark.slow
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "a word " * 100}], "max_tokens": 4}


def test_every_request_is_compared_and_a_streams_times_are_shown(tmp_path: Path) -> None:
    async def scenario(service: OneLoopService) -> None:
        core = service.router.core
        for name, stream in (("whole", False), ("streamed", True)):
            await service.post("/v1/chat/completions", CHAT | {"stream": stream}, x_request_id=name)
        await until(lambda: {view.predictions for view in core.statistics().workers} == {2})
        records = [core.explain(name) for name in ("whole", "streamed")]
        decoded = [each for record in records if record for each in record.observed if each.side == ROLE_DECODE]

        assert {view.exact_predictions for view in core.statistics().workers} == {2}
        assert all(each.decode_cached_tokens_known for each in decoded)
        assert [math.isnan(each.ttft_s) for each in decoded] == [True, False]
        assert [math.isnan(each.tpot_s) for each in decoded] == [True, False]

    in_one_loop(tmp_path, (WorkerSpec("p0", Role.PREFILL), WorkerSpec("d0", Role.DECODE)), scenario)
