"""Which of the two a command means: this machine or a cluster.

A cluster is meant where an option names one, or where no local instance of that name runs; `--local` says otherwise.
Where there is no kubeconfig at all, only this machine is left.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from inferplane.cluster import Choice, Connection
from inferplane.context import Context
from inferplane.errors import InvalidError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Target:
    choice: Choice = field(default_factory=Choice)
    local: bool = False


def cluster_options(function: F) -> F:
    """Add the options that choose a cluster; the command gets them as `target`."""
    return _options(function, local=False)


def world_options(function: F) -> F:
    """Add the options that choose a cluster, and `--local`; the command gets them as `target`."""
    return _options(function, local=True)


def _options(function: F, *, local: bool) -> F:
    @functools.wraps(function)
    def with_target(
        *args: Any, kube_context: str, namespace: str, kubeconfig: Path | None, local: bool = False, **others: Any
    ) -> Any:
        return function(*args, target=Target(Choice(kube_context, namespace, kubeconfig), local), **others)

    options = [
        click.option("--context", "kube_context", default="", help="Context of the kubeconfig: which cluster."),
        click.option("-n", "--namespace", default="", help="Namespace in the cluster."),
        click.option("--kubeconfig", type=click.Path(path_type=Path), help="File that says how to reach clusters."),
        *([click.option("--local", is_flag=True, help="Look at this machine, not at a cluster.")] if local else []),
    ]
    for option in reversed(options):
        option(with_target)
    return with_target  # type: ignore[return-value]  # click calls it with more than `function` takes


def cluster_meant(
    context: Context, target: Target, *, name: str | None = None, state_dir: Path | None = None
) -> Connection | None:
    """Return the cluster that a command means; None: it means this machine.  Raises InvalidError."""
    if target.local or state_dir is not None:
        if target.choice.named:
            option = "--local" if target.local else "--state-dir"
            raise InvalidError(f"{option} means this machine, --context, -n and --kubeconfig a cluster; leave one out")
        return None
    if not target.choice.named and _runs_here(context, name):
        return None
    return context.connect(target.choice)


def cluster_needed(context: Context, target: Target) -> Connection:
    """Return the cluster that a command means which exists for clusters only.  Raises InvalidError."""
    found = context.connect(target.choice)
    if found is None:
        raise InvalidError(
            "there is no kubeconfig, and this command works on a cluster; pass --kubeconfig FILE or set KUBECONFIG"
        )
    return found


def _runs_here(context: Context, name: str | None) -> bool:
    from inferplane.instances import all_instances  # noqa: PLC0415  reads manifests' types, for local instances only

    return any(it.running for it in all_instances(context) if name in (None, it.name))
