"""`up`: the file becomes what runs here; on a running instance it becomes what runs next."""

import json
import signal
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import click

from inferplane import preflight, runner
from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.instances import Instance
from inferplane.manifest import Manifest, read_manifest
from inferplane.options import Duration, file_option, state_dir_option
from inferplane.progress import Progress, make_progress
from inferplane.waiting import Wait, wait_ended, wait_ready
from inferplane_operator.local.desired import DEFAULT_GATEWAY_PORT, Desired, read_desired
from inferplane_operator.local.machine import find_gpus
from inferplane_operator.local.port_owner import complaint
from inferplane_operator.local.statedir import StateDir, StateError
from inferplane_operator.local.status import Status

_END_TIMEOUT_S = 3600.0
"""Drains are bounded by the service's own drainTimeout; this only bounds the loop."""


@click.command("up")
@file_option
@click.option("-d", "--detach", is_flag=True, help="Return when it is ready and leave it running.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the gateway, 0: any.  [default: 8000]")
@state_dir_option
@click.option("--timeout", type=Duration(), default="10m", show_default=True, help="Longest wait until it is ready.")
@click.option("--engine-python", envvar="INFERPLANE_ENGINE_PYTHON", help="Python of an environment with vLLM.")
@click.option("--gpus", default="auto", show_default=True, help="GPUs to use: auto, none, or ids such as 0,1.")
@click.pass_obj
def command(
    context: Context,
    *,
    filename: Path,
    detach: bool,
    port: int | None,
    state_dir: Path | None,
    timeout: float,
    engine_python: str | None,
    gpus: str,
) -> None:
    """Start the service of a file on this machine, or bring the running one up to date.

    In the foreground Ctrl-C drains and ends it, a second Ctrl-C kills it.
    """
    manifest = read_manifest(filename)
    python = engine_python or _engine_python(context.working_dir)
    _check(manifest, python, gpus)
    instance = _instance(context, manifest, state_dir)
    running = _runs_on(context, instance)
    now_on = _gateway_port(instance) if running else None
    wanted = Desired(
        manifests=manifest.documents,
        gateway_port=_first(port, now_on, DEFAULT_GATEWAY_PORT),
        engine_python=python,
        gpus=gpus,
    )
    if wanted.gateway_port and wanted.gateway_port != now_on:
        _require_free(wanted.gateway_port)
    desired = instance.change(lambda _: wanted)
    if running:
        _follow_running(context, instance, desired.generation, timeout)
    elif detach:
        _start_detached(context, instance, desired.generation, timeout)
    else:
        _run_in_foreground(context, instance, desired.generation, timeout)


def _engine_python(working_dir: Path) -> str:
    """Return the interpreter of an environment beside the user's own, as `make` sets it up."""
    found = working_dir / ".venv-engine" / "bin" / "python"
    return str(found) if found.exists() else ""


def _check(manifest: Manifest, engine_python: str, gpus: str) -> None:
    try:
        find_gpus(gpus)
    except StateError as error:
        raise InvalidError(str(error)) from error
    found = preflight.findings(manifest, engine_python=engine_python)
    if found:
        raise InvalidError("this cannot run here:\n" + "\n".join(f"  {finding}" for finding in found))


def _instance(context: Context, manifest: Manifest, state_dir: Path | None) -> Instance:
    name = manifest.service.metadata.name
    folder = state_dir.absolute() if state_dir is not None else context.state_root / name
    instance = Instance(name, StateDir(folder))
    try:
        instance.state.create()
    except StateError as error:
        raise CommandError(str(error)) from error
    status = instance.status()
    if instance.running and status is not None and status.service not in ("", name):
        raise InvalidError(f"{folder}: runs service {status.service!r}; give {name!r} another --state-dir")
    return instance


def _runs_on(context: Context, instance: Instance) -> bool:
    """Say whether there is a runner to take a change; one that was told to stop takes none and is waited for."""
    if not instance.running:
        return False
    desired = _desired(instance)
    if desired is None or not desired.stopped:
        return True
    click.echo("it is being stopped; waiting for that", err=True)
    _wait_ended(instance, make_progress(context))
    return False


def _desired(instance: Instance) -> Desired | None:
    """Return what is wanted so far, None where that is lost: this command replaces it."""
    try:
        return read_desired(instance.state)
    except StateError:
        return None


def _gateway_port(instance: Instance) -> int | None:
    """Return the port that a running instance was asked to serve; the one it serves where that is lost."""
    desired, status = _desired(instance), instance.status()
    if desired is not None:
        return desired.gateway_port
    return urlsplit(status.url).port if status else None


def _first(*ports: int | None) -> int:
    return next(port for port in ports if port is not None)


def _require_free(port: int) -> None:
    problem = complaint(port)
    if problem:
        raise CommandError(problem)


def _follow_running(context: Context, instance: Instance, generation: int, timeout_s: float) -> None:
    wait = Wait(instance, generation, timeout_s, alive=lambda: instance.running)
    with make_progress(context) as progress:
        status = wait_ready(wait, progress)
    click.echo(f"{instance.name} is up to date")
    _tell_how_to_call(status)


def _start_detached(context: Context, instance: Instance, generation: int, timeout_s: float) -> None:
    process = runner.start(instance.state, context.environment, detached=True)
    # Another `up` may have been faster: then its runner takes this change too.
    wait = Wait(instance, generation, timeout_s, alive=lambda: process.poll() is None or instance.running)
    try:
        with make_progress(context) as progress:
            status = wait_ready(wait, progress)
    except CommandError as error:
        if process.poll() is not None:
            raise
        hint = f"it is left running: `inferplane logs --name {instance.name}`, `inferplane down {instance.name}`"
        raise type(error)(f"{error.message}\n{hint}") from error
    _tell_how_to_call(status)


def _run_in_foreground(context: Context, instance: Instance, generation: int, timeout_s: float) -> None:
    signal.signal(signal.SIGTERM, _like_ctrl_c)
    process = runner.start(instance.state, context.environment, detached=False)
    wait = Wait(instance, generation, timeout_s, alive=lambda: process.poll() is None)
    try:
        with make_progress(context) as progress:
            status = wait_ready(wait, progress)
        _tell_how_to_call(status)
        click.echo("Ctrl-C drains and ends it", err=True)
        code = process.wait()
    except KeyboardInterrupt:
        drained = _end(context, instance)
        code = process.wait()
        if not drained:
            raise CommandError("killed before everything had drained") from None
        click.echo(f"{instance.name} is down", err=True)
    except CommandError:
        runner.ask_to_end(instance.state)
        process.wait()
        raise
    if code != 0:
        raise CommandError(f"the runner ended with status {code}; see {instance.state.log('runner')}")


def _like_ctrl_c(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end(context: Context, instance: Instance) -> bool:
    """Drain; a second Ctrl-C kills.  Say whether it was a drain."""
    click.echo("draining; Ctrl-C again kills", err=True)
    runner.ask_to_end(instance.state)
    try:
        _wait_ended(instance, make_progress(context))
    except KeyboardInterrupt:
        click.echo("killing", err=True)
        runner.ask_to_end(instance.state)
        return False
    return True


def _wait_ended(instance: Instance, progress: Progress) -> None:
    with progress:
        wait_ended(instance, timeout_s=_END_TIMEOUT_S, progress=progress)


def _tell_how_to_call(status: Status) -> None:
    body = {"model": status.served_names[0], "messages": [{"role": "user", "content": "Hello"}]}
    click.echo(f"ready: {status.url}")
    click.echo(
        f"curl {status.url}/v1/chat/completions -H 'content-type: application/json' "
        f"-d {_quoted(json.dumps(body, ensure_ascii=False))}"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
