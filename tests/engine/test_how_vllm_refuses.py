"""Errors, as vLLM 0.32 words them: they are passed through, so clients see exactly these."""

from typing import Any

import pytest

from engine_probe import Engines

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        pytest.param(CHAT, {"model": "other", "messages": []}, (404, "NotFoundError", "model"), id="unknown model"),
        pytest.param(CHAT, {"messages": "x"}, (400, "Bad Request", "body.messages"), id="wrong type"),
        pytest.param(CHAT, {"messages": []}, (400, "BadRequestError", None), id="no message"),
        pytest.param(
            COMPLETIONS, {"prompt": [5] * 5000}, (400, "BadRequestError", "input_tokens"), id="prompt too long"
        ),
        pytest.param(
            COMPLETIONS, {"prompt": [5], "max_tokens": -1}, (400, "BadRequestError", "max_tokens"), id="negative"
        ),
        pytest.param(COMPLETIONS, {"prompt": [5], "max_tokens": 0}, (400, "BadRequestError", "max_tokens"), id="zero"),
        pytest.param(
            COMPLETIONS, {"prompt": [5], "max_tokens": 10**9}, (400, "BadRequestError", "max_tokens"), id="huge"
        ),
        pytest.param(COMPLETIONS, {"prompt": ""}, (400, "BadRequestError", "prompt"), id="empty prompt"),
        pytest.param(COMPLETIONS, {"prompt": [10**6]}, (400, "BadRequestError", None), id="token out of vocabulary"),
        pytest.param(
            COMPLETIONS,
            {"prompt": [5], "cache_salt": "a/b"},
            (400, "BadRequestError", "cache_salt"),
            id="a salt with a slash",
        ),
        pytest.param(
            COMPLETIONS,
            {"prompt": [5], "cache_salt": "x" * 129},
            (400, "BadRequestError", "cache_salt"),
            id="a salt of 129 characters",
        ),
        pytest.param(
            COMPLETIONS, {"prompt": [5], "cache_salt": ""}, (400, "BadRequestError", "cache_salt"), id="empty salt"
        ),
    ],
)
def test_a_bad_request_is_answered_with_an_error_object(
    engines: Engines, path: str, body: dict[str, Any], expected: tuple[int, str, str | None]
) -> None:
    response = engines.decode.post(path, {"model": "tiny", **body})
    error = response.json()["error"]

    assert (response.status_code, error["type"], error["param"]) == expected
    assert error["code"] == response.status_code


def test_invalid_json_is_refused(engines: Engines) -> None:
    response = engines.decode.post_bytes(CHAT, b'{"model":')

    assert (response.status_code, response.json()["error"]["type"]) == (400, "Bad Request")


def test_invalid_utf8_is_refused_without_an_error_object(engines: Engines) -> None:
    response = engines.decode.post_bytes(CHAT, b'{"model":"tiny","messages":[{"role":"user","content":"\xff"}]}')

    assert (response.status_code, response.json()) == (400, {"detail": "There was an error parsing the body"})


def test_what_a_model_cannot_do_is_not_found(engines: Engines) -> None:
    assert engines.decode.post("/v1/embeddings", {"model": "tiny", "input": "x"}).status_code == 404
