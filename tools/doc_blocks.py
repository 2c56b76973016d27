"""Reads what a page of the documentation tells its reader to type, and what it says will be printed.

A page whose blocks are marked is run as a whole, from top to bottom, as a reader would: `sh` is typed, `text` is what
the block before it prints.  A block that no test can run stands under a comment that says why.

What is printed varies, so a line of `text` is a pattern: a figure matches any figure, but zero only zero, `...` matches
anything, the width of columns does not count, and lines may be left out between two that are shown.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FENCE: Final = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN: Final = re.compile(r"<!-- not run: ((?:(?!-->).)+?) -->\s*\Z", re.DOTALL)
_FIGURE: Final = r"\d+(?:\.\d+)?"
_ZERO: Final = r"0+(?:\.0+)?(?![.\d])"


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    line: int
    language: str
    text: str
    not_run: str
    """Why nobody runs it; empty: it is run."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something to type, and what it is said to print."""

    line: int
    commands: str
    printed: tuple[str, ...]


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order."""
    for found in _FENCE.finditer(page):
        before = page[: found.start()]
        reason = _NOT_RUN.search(before)
        yield Block(before.count("\n") + 1, found[1], found[2], reason[1] if reason else "")


def steps(page: str) -> list[Step]:
    """Return what a reader types, each with what the page says that it prints."""
    typed: list[Step] = []
    for block in blocks(page):
        if block.language == "sh" and not block.not_run:
            typed.append(Step(block.line, block.text, ()))
        elif block.language == "text" and typed:
            last = typed[-1]
            typed[-1] = Step(last.line, last.commands, (*last.printed, *block.text.splitlines()))
    return typed


def missing(said: tuple[str, ...], printed: str) -> list[str]:
    """Return the lines of a page that are not found in this order in what was printed."""
    lines = iter(printed.splitlines())
    return [line for line in said if line.strip() and not any(_pattern(line).search(it) for it in lines)]


def _pattern(line: str) -> re.Pattern[str]:
    words = [_word(word) for word in line.split()]
    return re.compile(r"\s+".join(words))


def _word(word: str) -> str:
    pieces = re.split(rf"(\.\.\.|{_FIGURE})", word)
    return "".join(_piece(it) for it in pieces)


def _piece(text: str) -> str:
    if text == "...":
        return ".*"
    if re.fullmatch(_ZERO, text):
        return _ZERO
    return rf"(?!{_ZERO}){_FIGURE}" if re.fullmatch(_FIGURE, text) else re.escape(text)


def pages(folder: Path) -> list[Path]:
    """Return every page of the documentation."""
    return sorted(folder.rglob("*.md"))


def typed(commands: str, folder: Path, environment: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """Run commands in a shell that stops at the first that fails; return its status and what it printed.

    Raises subprocess.TimeoutExpired, with everything that it started gone.
    """
    with subprocess.Popen(  # noqa: S603 - the project's own pages
        ["/bin/bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            raise
        return shell.returncode, printed
