"""What the README and the rules of the repository promise, checked against the files."""

import re
import subprocess
from pathlib import Path

import pytest

README_TEST_COMMAND = "make test"


def tracked(repository: Path) -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


@pytest.mark.parametrize("name", ["dev.txt", "engine.txt", "tools.txt"])
def test_pinned_lists_hold_pins_alone(repository: Path, name: str) -> None:
    lines = (repository / "requirements" / name).read_text().splitlines()
    entries = [line for line in lines if line and not line.startswith("#")]

    assert entries
    assert [line for line in entries if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*==\S+", line)] == []


def test_no_file_names_a_package_index_or_is_a_lock_that_could(repository: Path) -> None:
    names = tracked(repository)
    configured = [repository / name for name in names if name.startswith("requirements/") or name == "pyproject.toml"]

    assert not {Path(name).name for name in names} & {"uv.lock", "poetry.lock", "package-lock.json", "pip.conf"}
    assert [path.name for path in configured if "://" in path.read_text()] == []


def test_nothing_hides_the_standard_librarys_operator(repository: Path) -> None:
    assert not (repository / "operator" / "__init__.py").exists()
    assert not (repository / "tests" / "operator" / "__init__.py").exists()


def test_every_make_target_of_the_readme_exists(repository: Path) -> None:
    readme = (repository / "README.md").read_text()
    named = set(re.findall(r"`make ([a-z][a-z-]*)`|^make ([a-z][a-z-]*)$", readme, re.MULTILINE))
    targets = {first or second for first, second in named}
    defined = set(re.findall(r"^([a-z][a-z-]*):", (repository / "Makefile").read_text(), re.MULTILINE))

    assert targets
    assert targets <= defined


def test_ci_runs_the_test_command_of_the_readme(repository: Path) -> None:
    assert README_TEST_COMMAND in (repository / "README.md").read_text()
    assert README_TEST_COMMAND in (repository / ".ci" / "run").read_text()


def test_links_between_documents_lead_somewhere(repository: Path) -> None:
    broken = [
        f"{name}: {target}"
        for name in tracked(repository)
        if name.endswith(".md")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (repository / name).read_text())
        if not (repository / name).parent.joinpath(target).exists()
    ]

    assert broken == []
