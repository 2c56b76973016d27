"""Pages are followed as a reader would, in a shell, and print what they say; what nobody follows says why."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from doc_blocks import blocks, missing, pages, steps, typed
from ended_with_us import ended_with_us
from inferplane_runtime.ports import hold_port

REPOSITORY = Path(__file__).parents[2]
PORT_OF_THE_PAGES = "8000"
HERE = (
    "tutorial/laptop.md",
    "how-to/local.md",
    "how-to/console.md",
    "how-to/incident.md",
    "how-to/traces.md",
    "how-to/dashboards.md",
    "how-to/simulate.md",
    "how-to/plan-capacity.md",
    "sizing.md",
)
"""Pages below docs/ that are typed on this machine."""
IN_A_CLUSTER = ("tutorial/cluster.md",)
"""Those that the end-to-end tests type."""
GENERATED = "docs/reference/cli.md"
"""Shows how commands are written, and nothing to type."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a reader who has installed everything, and has no instance yet."""
    environment = {
        **os.environ,
        "PATH": f"{REPOSITORY / '.venv' / 'bin'}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    down = ["inferplane", "down", "--force"]
    with ended_with_us(down, environment):
        yield environment
        subprocess.run(down, env=environment, capture_output=True, check=False, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the reader is: our examples, and a service of the reader's own."""
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    (tmp_path / "service.yaml").symlink_to(REPOSITORY / "examples" / "sim.yaml")
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", HERE)
def test_every_step_prints_what_the_page_says(page: str, folder: Path, shell: dict[str, str]) -> None:
    text = (REPOSITORY / "docs" / page).read_text("utf-8")

    with hold_port() as held:  # the machine's 8000 may be somebody else's
        for step in steps(text.replace(f":{PORT_OF_THE_PAGES}", f":{held.number}")):
            commands = step.commands.replace("up -f", f"up --port {held.number} -f")
            status, printed = typed(commands, folder, shell, timeout_s=120)

            assert status == 0, f"line {step.line} printed:\n{printed}"
            assert missing(step.printed, printed) == [], f"line {step.line} printed:\n{printed}"


def test_what_is_typed_on_no_page_that_is_followed_says_why() -> None:
    followed = {REPOSITORY / "docs" / page for page in (*HERE, *IN_A_CLUSTER)}
    silent = [
        f"{page.relative_to(REPOSITORY)}:{block.line}"
        for page in (REPOSITORY / "README.md", *pages(REPOSITORY / "docs"))
        for block in blocks(page.read_text("utf-8"))
        if block.language == "sh" and page not in followed and not block.not_run
    ]

    assert silent == []


def test_every_block_says_whether_it_is_typed() -> None:
    unmarked = [
        f"{page.relative_to(REPOSITORY)}:{block.line}"
        for page in (REPOSITORY / "README.md", *pages(REPOSITORY / "docs"))
        for block in blocks(page.read_text("utf-8"))
        if block.language in {"", "bash", "console", "shell"} and page != REPOSITORY / GENERATED
    ]

    assert unmarked == []
