"""docs/architecture.md leads a reader to modules and files: each that it names must be there."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TEXT = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULE = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")
FILE_ENDINGS = (".json", ".md", ".yaml")


def quoted(line: str) -> list[str]:
    return re.findall(r"`([^`]+)`", line)


def modules() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every named module with the names it may stand for: a short one belongs to a package named before it."""
    for line in TEXT.splitlines():
        packages: list[str] = []
        for name in quoted(line):
            if not MODULE.fullmatch(name) or name.endswith(FILE_ENDINGS):
                continue
            if name.startswith("inferplane"):
                parts = name.split(".")
                packages = [".".join(parts[:length]) for length in range(1, len(parts))]
                yield name, (name,)
            elif "." in name:
                yield name, tuple(f"{package}.{name}" for package in packages)


def exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize(("name", "meant"), [pytest.param(*it, id=it[0]) for it in modules()])
def test_each_module_exists(name: str, meant: tuple[str, ...]) -> None:
    assert any(exists(full) for full in meant), f"docs/architecture.md names {name}, which is not there"


def test_each_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)

    assert [link for link in links if not (REPOSITORY / "docs" / link).exists()] == []


def test_the_page_names_modules_of_each_process() -> None:
    named = {name.split(".")[0] for name, _ in modules()}

    assert {
        "inferplane",
        "inferplane_engine",
        "inferplane_operator",
        "inferplane_router",
        "inferplane_workers",
    } <= named
