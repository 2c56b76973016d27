"""Progress of gateway and workers: one line per change in a pipe or log, a table that is redrawn on a terminal."""

from types import TracebackType
from typing import Protocol, Self

import click

from inferplane.context import Context
from inferplane.output import COLOURS
from inferplane_operator.local.status import AdapterStatus, InstancePhase, Status, WorkerPhase


class Progress(Protocol):
    def show(self, status: Status) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_progress(context: Context) -> Progress:
    return _TerminalProgress(context) if context.terminal else _LineProgress()


class _LineProgress:
    """Writes to standard error: standard output is for the result."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def show(self, status: Status) -> None:
        parts = _parts(status)
        for name, phase, reason in parts:
            self._tell(name, f"{name}: {phase}{f' ({reason})' if reason else ''}")
        for name in self._shown.keys() - {name for name, _, _ in parts}:
            click.echo(f"{name}: gone", err=True)
            del self._shown[name]

    def _tell(self, name: str, line: str) -> None:
        if self._shown.get(name) != line:
            self._shown[name] = line
            click.echo(line, err=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


def _parts(status: Status) -> list[tuple[str, str, str]]:
    """Return name, phase and reason of everything that is waited for; the gateway may well be the last."""
    workers = [
        (worker.name, worker.phase.value, "" if worker.reason == worker.phase.lower() else worker.reason)
        for worker in status.workers
    ]
    adapters = [
        (f"adapter {each.served_name}", _adapter_phase(each).value, "" if each.ready else each.message)
        for each in status.adapters
    ]
    phase = _gateway_phase(status)
    gateway = [("gateway", phase.value, status.gateway_reason)] if phase else []
    return [*gateway, *workers, *adapters]


def _adapter_phase(adapter: AdapterStatus) -> WorkerPhase:
    if adapter.ready:
        return WorkerPhase.READY
    return WorkerPhase.NOT_READY if adapter.failed else WorkerPhase.STARTING


def _gateway_phase(status: Status) -> WorkerPhase | None:
    """Return None for a gateway that has gone."""
    if status.phase in (InstancePhase.STOPPING, InstancePhase.STOPPED):
        return WorkerPhase.DRAINING if status.router and status.router.pid else None
    return WorkerPhase.STARTING if status.gateway_reason else WorkerPhase.READY


class _TerminalProgress:
    def __init__(self, context: Context) -> None:
        from rich.console import Console  # noqa: PLC0415  slow to import, not needed in a pipe
        from rich.live import Live  # noqa: PLC0415

        self._live = Live(console=Console(stderr=True, no_color=not context.colour), transient=True)

    def show(self, status: Status) -> None:
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=None, pad_edge=False, header_style="bold")
        for head in ("", "PHASE", "REASON"):
            table.add_column(head, overflow="ellipsis", no_wrap=True)
        for name, phase, reason in _parts(status):
            table.add_row(name, Text(phase, style=COLOURS.get(phase, "")), Text(reason))
        self._live.update(table, refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
