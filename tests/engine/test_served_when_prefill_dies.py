"""The last test of the folder: it kills the only prefill engine."""

import os
import signal

import httpx
import pytest

from engine_probe import Engines, wait_until
from local_service import LocalService

pytestmark = [pytest.mark.engine(last=True), pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]


def test_decode_prefills_itself_and_the_answer_is_the_same(
    service: LocalService, engines: Engines, salt: str, texts: list[str]
) -> None:
    url = f"{service.ready_status().url}/v1/completions"
    body = {"model": "tiny", "temperature": 0, "max_tokens": 16, "ignore_eos": True, "return_token_ids": True}
    expected = engines.decode.complete(texts[0], cache_salt=f"{salt}-alone", max_tokens=16, ignore_eos=True)
    worker = service.worker("prefill-0")
    assert worker.engine is not None
    assert worker.engine.pid is not None
    os.killpg(worker.engine.pid, signal.SIGKILL)

    answers = [
        httpx.post(url, json={**body, "prompt": texts[0], "cache_salt": f"{salt}-{n}"}, timeout=60) for n in range(4)
    ]

    assert [answer.status_code for answer in answers] == [200] * 4
    for answer in answers:
        assert answer.json()["choices"][0]["token_ids"] == expected["choices"][0]["token_ids"]
    assert "x-inferplane-prefill-worker" not in answers[-1].headers

    wait_until(lambda: service.worker("prefill-0").phase, lambda phase: phase != "Ready")
