"""Help, completion and version, and that they load nothing heavy."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from inferplane.cli import VERBS, root
from inferplane.testing import Call

HEAVY = {"rich", "grpc", "yaml", "pydantic", "httpx", "numpy", "numba"}


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from inferplane.cli import root\n"
        "try: root(['--help'])\n"
        "except SystemExit: pass\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=170)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("inferplane.commands.up", {"numpy", "structlog", "grpc", "httpx", "rich"}),
        ("inferplane_operator.local.__main__", {"numpy", "numba", "grpc"}),
        ("inferplane_engine.capabilities", {"inferplane_api.v1alpha1.inference_service", "numpy"}),
        ("inferplane_workers.agent.__main__", {"inferplane_api.v1alpha1.inference_service"}),
        ("inferplane_workers.sim.__main__", {"pydantic", "numba", "grpc"}),
    ],
    ids=["up", "runner", "capabilities", "agent", "sim"],
)
def test_a_process_imports_nothing_heavy_that_it_does_not_need(module: str, unneeded: set[str]) -> None:
    """A local instance starts eight processes at once: what each imports is what `up` takes."""
    program = f"import sys, {module}\nprint(sorted({unneeded!r} & set(sys.modules)))\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=170)

    assert done.stdout.splitlines()[-1] == "[]"


def test_a_closed_or_full_output_is_no_traceback() -> None:
    for redirection in (">&-", "> /dev/full") if Path("/dev/full").exists() else (">&-",):
        command = f"{shlex.quote(sys.executable)} -m inferplane --help {redirection}"
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False, timeout=170)

        assert "Traceback" not in done.stderr


def test_every_verb_of_the_table_exists_and_explains_itself(call: Call) -> None:
    for verb in VERBS:
        result = call(verb, "--help")

        assert result.exit_code == 0
        assert "Usage:" in result.stdout


def test_no_command_shows_the_verbs_and_is_wrong_usage(call: Call) -> None:
    result = call()

    assert result.exit_code == 2
    assert all(verb in result.output for verb in VERBS)


def test_an_unknown_verb_is_wrong_usage(call: Call) -> None:
    result = call("upp")

    assert result.exit_code == 2
    assert "No such command 'upp'" in result.stderr


def test_completion_scripts_are_printed_for_each_shell(call: Call) -> None:
    for shell in ("bash", "zsh", "fish"):
        result = call("completion", shell)

        assert result.exit_code == 0
        assert "_INFERPLANE_COMPLETE" in result.stdout


def test_version_is_printed(call: Call) -> None:
    assert call("version").stdout.startswith("inferplane ")
    assert list(json.loads(call("version", "-o", "json").stdout)) == ["version"]


def test_a_duration_that_is_none_is_wrong_usage(call: Call) -> None:
    result = call("down", "--timeout", "soon")

    assert result.exit_code == 2
    assert "is not a duration" in result.stderr


def test_the_root_command_is_called_inferplane() -> None:
    assert root.name == "inferplane"


def test_a_mistyped_verb_is_told_the_nearest(call: Call) -> None:
    assert "No such command 'stauts'; did you mean 'status'?" in call("stauts").stderr
    assert "No such command 'xyzzy'" in call("xyzzy").stderr
