"""Where no cluster can run, `make e2e` says at once what is missing: by root, namespaces, control groups, programs."""

import os
import sys
from pathlib import Path

import pytest

from e2e.cluster import machine
from e2e.cluster.packages import why_not_installed


def program(folder: Path, script: str) -> list[str]:
    """Return a command that stands in for `unshare`."""
    path = folder / "unshare"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return [str(path)]


def hierarchy(root: Path, *, unified: str = "", apart: tuple[str, ...] = ()) -> Path:
    """Make what a mount of control groups looks like: version 2 of them, or version 1."""
    if unified:
        (root / "cgroup.controllers").write_text(unified)
    for name in apart:
        (root / name).mkdir()
    return root


def test_another_user_is_told_to_be_root() -> None:
    assert "root" in machine.of_root(user=1000)
    assert not machine.of_root(user=0)


def test_who_is_not_root_is_told_that_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "platform", "linux")

    assert machine.lacks() == [machine.of_root(user=1000)]


def test_refused_namespaces_are_named_with_the_reason(tmp_path: Path) -> None:
    refusing = program(tmp_path, "echo 'unshare failed: Operation not permitted' >&2; exit 1")

    said = machine.of_namespaces(tmp_path, refusing)

    assert said.startswith("mount, PID and network namespaces: unshare failed: Operation not permitted")


def test_what_failed_within_namespaces_is_named(tmp_path: Path) -> None:
    refusing = program(tmp_path, "echo 'a tmpfs on /run'; echo 'a network bridge'; echo refused >&2; exit 1")

    assert machine.of_namespaces(tmp_path, refusing).startswith("a network bridge, in namespaces of its own: refused")


def test_namespaces_that_never_answer_are_not_waited_for(tmp_path: Path) -> None:
    silent = program(tmp_path, "exec sleep 60")

    assert "namespaces that answer" in machine.of_namespaces(tmp_path, silent, limit_s=0.05)


def test_a_machine_without_unshare_is_told_where_it_comes_from(tmp_path: Path) -> None:
    assert "util-linux" in machine.of_namespaces(tmp_path, [str(tmp_path / "absent")])


def test_nothing_is_left_of_what_was_tried(tmp_path: Path) -> None:
    machine.of_namespaces(tmp_path, program(tmp_path.parent, "exit 1"))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("unified", "apart"),
    [("cpu cpuset io memory pids", ()), ("", ("cpu,cpuacct", "cpuset", "memory", "pids"))],
    ids=["one hierarchy", "one each"],
)
def test_all_controllers_are_enough(tmp_path: Path, unified: str, apart: tuple[str, ...]) -> None:
    assert not machine.of_groups(hierarchy(tmp_path, unified=unified, apart=apart))


@pytest.mark.parametrize(
    ("unified", "apart", "absent"),
    [("cpu io pids", (), "cpuset, memory"), ("", ("cpu", "cpuset", "pids"), "memory")],
    ids=["one hierarchy", "one each"],
)
def test_an_absent_controller_is_named(tmp_path: Path, unified: str, apart: tuple[str, ...], absent: str) -> None:
    assert f"controllers {absent}:" in machine.of_groups(hierarchy(tmp_path, unified=unified, apart=apart))


def test_control_groups_that_are_not_mounted_are_named(tmp_path: Path) -> None:
    assert str(tmp_path / "absent") in machine.of_groups(tmp_path / "absent")


def test_packages_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # and so no apt-get

    assert "apt-get install --yes --no-install-recommends some-package" in why_not_installed(
        {"/absent": "some-package"}
    )
    assert not why_not_installed({"/bin/sh": "dash"})


def test_all_that_is_missing_is_told_at_once() -> None:
    said = machine.told(["one thing", "another"])

    assert "  - one thing\n  - another\n" in said
    assert machine.GIVEN in said
