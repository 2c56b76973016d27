"""What a browser gets: files of the package alone, guarded by headers."""

import re

import pytest

from inferplane_router.console.pages import Pages
from inferplane_runtime.http.api import Response

FILES = (b"console.css", b"console.js", b"draw.js", b"request.js")


def answered(path: bytes) -> Response:
    answer = Pages().answer(path)
    assert answer is not None
    return answer


@pytest.mark.parametrize("path", [b"/console", b"/console/", *(b"/console/" + name for name in FILES)])
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


def test_every_part_of_the_script_is_served() -> None:
    imported = [
        name for file in FILES for name in re.findall(rb'from "\./([^"]+)"', answered(b"/console/" + file).body)
    ]

    assert imported
    assert set(imported) <= set(FILES)


def test_other_paths_are_not_its_own() -> None:
    assert Pages().answer(b"/console/../etc/passwd") is None
    assert Pages().answer(b"/consolation") is None
