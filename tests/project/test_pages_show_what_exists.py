"""What a page tells its reader to write or to type is valid, whether or not a test runs it elsewhere."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click
import pytest
import yaml

from doc_blocks import blocks, pages
from inferplane.cli import root
from inferplane_api.v1alpha1.manifests import load_manifests

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *pages(REPOSITORY / "docs")]
TYPED = {"", "sh", "bash", "console"}


def manifests() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in blocks(page.read_text("utf-8")):
            if block.language == "yaml" and "apiVersion: inferplane.dev/" in block.text:
                yield f"{page.relative_to(REPOSITORY)}:{block.line}", block.text


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield each `inferplane VERB ...` of every page, up to what a shell would take for itself."""
    for page in PAGES:
        for block in blocks(page.read_text("utf-8")):
            for line in block.text.replace("\\\n", " ").splitlines() if block.language in TYPED else ():
                found = re.match(r"(?:\.venv/bin/)?inferplane (.*?)(?:\s*(?:[|>;&#]|<\().*)?$", line)
                if found and "[OPTIONS]" not in line and found[1].split()[0].isalpha():
                    yield f"{page.relative_to(REPOSITORY)}:{block.line}", shlex.split(found[1])


MANIFESTS = dict(manifests())
COMMANDS = list(commands())


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_resources_are_valid(text: str) -> None:
    assert load_manifests(text, relative_to=REPOSITORY / "examples")


def test_commands_are_understood() -> None:
    refused = [f"{where}: {shlex.join(words)}: {why}" for where, words in COMMANDS if (why := _refusal(words))]

    assert len(COMMANDS) > 40
    assert refused == []


def _refusal(words: list[str]) -> str:
    verb, *arguments = words
    command = root.get_command(click.Context(root), verb)
    if command is None:
        return "no such verb"
    try:
        command.make_context(verb, arguments)
    except click.UsageError as error:
        said = error.format_message()
        return "" if said.endswith("does not exist.") else said  # the reader's own file
    except click.exceptions.Exit:  # --help
        return ""
    return ""


CHART: dict[str, Any] = yaml.safe_load((REPOSITORY / "helm" / "inferplane" / "values.yaml").read_text("utf-8"))


def chart_values() -> Iterator[tuple[str, str]]:
    """Yield each path of a value that a page sets, in a block or by `--set`."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in blocks(text):
            found: Any = yaml.safe_load(block.text) if block.language == "yaml" else None
            if isinstance(found, dict) and found.keys() <= CHART.keys():
                where = f"{page.relative_to(REPOSITORY)}:{block.line}"
                yield from ((where, path) for path in leaves(cast("dict[str, Any]", found), CHART))
        yield from ((str(page.relative_to(REPOSITORY)), path) for path in re.findall(r"--set ([a-zA-Z.]+)=", text))


def leaves(values: dict[str, Any], known: dict[str, Any], above: str = "") -> Iterator[str]:
    """Yield paths down to where the chart leaves the rest to its user."""
    for name, value in values.items():
        below = known.get(name)
        if isinstance(value, dict) and isinstance(below, dict) and below:
            yield from leaves(cast("dict[str, Any]", value), cast("dict[str, Any]", below), f"{above}{name}.")
        else:
            yield f"{above}{name}"


def is_value(path: str) -> bool:
    at: Any = CHART
    for name in path.split("."):
        if isinstance(at, dict) and not at:
            return True
        if not isinstance(at, dict) or name not in at:
            return False
        at = cast("dict[str, Any]", at)[name]
    return True


def test_values_of_the_chart_exist() -> None:
    shown = list(chart_values())

    assert len(shown) > 20
    assert [f"{where}: {path}" for where, path in shown if not is_value(path)] == []
