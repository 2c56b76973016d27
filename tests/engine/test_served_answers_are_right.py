"""Answers through router, agents and engines, against what one engine alone says."""

from typing import Any

import httpx
import pytest

from engine_probe import Engines, wait_until
from local_service import LocalService

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]
BOTH_SIDES = frozenset({"ROLE_PREFILL", "ROLE_DECODE"})


def ask(service: LocalService, path: str, **body: Any) -> httpx.Response:
    url = f"{service.ready_status().url}{path}"
    response = httpx.post(url, json={"model": "tiny", "temperature": 0, **body}, timeout=60)
    assert response.status_code == 200, response.text
    return response


def wait_for_reports(service: LocalService, request_id: str) -> None:
    """Wait until both sides of a hand-off have told the router of its end; until then they seem busy."""

    def sides() -> set[str]:
        reports: Any = (service.explain(request_id) or {}).get("observed", ())
        return {report["side"] for report in reports}

    wait_until(sides, BOTH_SIDES.issubset)


@pytest.mark.parametrize("number", range(20))
def test_handed_over_output_equals_the_aggregated_one_and_decode_computes_no_prompt_token(
    service: LocalService, engines: Engines, salt: str, texts: list[str], number: int
) -> None:
    body = {"prompt": texts[number], "max_tokens": 32, "ignore_eos": True, "return_token_ids": True}
    computed = [
        engine.prompt_tokens_by_source().get("local_compute", 0) for engine in (engines.decode, engines.other_decode)
    ]
    served = ask(service, "/v1/completions", cache_salt=salt, **body)
    after = [
        engine.prompt_tokens_by_source().get("local_compute", 0) for engine in (engines.decode, engines.other_decode)
    ]
    alone = engines.decode.complete(texts[number], cache_salt=f"{salt}-alone", max_tokens=32, ignore_eos=True)

    assert served.json()["choices"][0]["token_ids"] == alone["choices"][0]["token_ids"]
    assert served.headers["x-inferplane-prefill-worker"] == "prefill-0"
    assert after == computed


def test_a_second_turn_lands_where_the_first_one_left_its_blocks(
    service: LocalService, salt: str, texts: list[str]
) -> None:
    """Ten conversations at once over two decode workers."""
    conversations = [[{"role": "user", "content": text}] for text in texts[:10]]
    places: list[list[tuple[str, str]]] = []
    for _ in range(3):
        turn: list[tuple[str, str]] = []
        for messages in conversations:
            response = ask(service, "/v1/chat/completions", messages=messages, max_tokens=8, cache_salt=salt)
            wait_for_reports(service, response.headers["x-request-id"])
            answer = response.json()["choices"][0]["message"]["content"]
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Go on."}]
            turn.append((response.headers["x-inferplane-worker"], response.headers["x-inferplane-prefill-worker"]))
        places.append(turn)

    assert places[1] == places[0]
    assert places[2] == places[0]
    assert {worker for worker, _ in places[0]} == {"decode-0", "decode-1"}


def test_streams_carry_the_text_of_the_unstreamed_answer(service: LocalService, salt: str, texts: list[str]) -> None:
    body = {"prompt": texts[3], "max_tokens": 16, "cache_salt": salt}
    whole = ask(service, "/v1/completions", **body).json()["choices"][0]["text"]
    lines = ask(service, "/v1/completions", stream=True, **body).text.split("\n\n")
    pieces = [
        httpx.Response(200, content=line.removeprefix("data: ")).json() for line in lines if line.startswith("data: {")
    ]

    assert "".join(piece["choices"][0]["text"] for piece in pieces) == whole
    assert "data: [DONE]" in lines


def test_transfer_parameters_of_a_client_never_reach_an_engine(service: LocalService, salt: str) -> None:
    """A forged one would end a vLLM process."""
    forged = {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": [[1, 2, 3]],
        "remote_engine_id": "nobody",
        "remote_request_id": "x",
        "remote_host": "127.0.0.1",
        "remote_port": 1,
        "tp_size": 1,
    }
    body = {"prompt": list(range(500, 600)), "max_tokens": 4, "cache_salt": salt}
    expected = ask(service, "/v1/completions", **body).json()["choices"][0]["text"]

    assert ask(service, "/v1/completions", kv_transfer_params=forged, **body).json()["choices"][0]["text"] == expected
