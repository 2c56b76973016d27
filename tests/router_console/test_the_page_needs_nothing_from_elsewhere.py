"""What a browser gets: files of the package alone, guarded by headers, and a document without prompts."""

import json
import re
from typing import Any

import pytest

from inferplane_router.console.pages import Pages
from inferplane_runtime.http.api import Response


def pages(**state: Any) -> Pages:
    return Pages(picture=lambda: state, explain=lambda _: None)


def answered(path: bytes, **state: Any) -> Response:
    answer = pages(**state).answer(path)
    assert answer is not None
    return answer


@pytest.mark.parametrize("path", [b"/console", b"/console/", b"/console/console.css", b"/console/console.js"])
def test_its_files_are_there_and_name_no_other_host(path: bytes) -> None:
    answer = answered(path)
    named = re.findall(rb"(?:src|href)=\"([^\"]+)\"|fetch\(.(/[^\"`]*)", answer.body)

    assert answer.status == 200
    assert all((first or second).startswith(b"/console") for first, second in named)
    assert b"http://" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in answer.body


def test_a_browser_is_told_to_run_and_ask_nothing_else() -> None:
    policy = answered(b"/console").headers.get(b"content-security-policy") or b""

    assert policy.startswith(b"default-src 'none'")
    assert b"unsafe" not in policy


def test_the_state_is_asked_for_at_each_question() -> None:
    assert json.loads(answered(b"/console/state", services=[]).body) == {"services": []}


def test_a_request_that_nobody_remembers_is_not_found() -> None:
    answer = answered(b"/console/requests/gone%20one")

    assert answer.status == 404
    assert "gone one" in json.loads(answer.body)["error"]["message"]


def test_other_paths_are_not_its_own() -> None:
    assert pages().answer(b"/console/../etc/passwd") is None
    assert pages().answer(b"/consolation") is None
