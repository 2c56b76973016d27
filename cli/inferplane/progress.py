"""Progress of workers: one line per change in a pipe or log, a table that is redrawn on a terminal."""

from types import TracebackType
from typing import Protocol, Self

import click

from inferplane.context import Context
from inferplane_operator.local.status import Status, WorkerStatus


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
        for worker in status.workers:
            self._tell(worker.name, _line(worker))
        for name in self._shown.keys() - {worker.name for worker in status.workers}:
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


def _line(worker: WorkerStatus) -> str:
    return f"{worker.name}: {worker.phase.value}{f' ({worker.reason})' if worker.reason else ''}"


class _TerminalProgress:
    def __init__(self, context: Context) -> None:
        from rich.console import Console  # noqa: PLC0415  slow to import, not needed in a pipe
        from rich.live import Live  # noqa: PLC0415

        self._live = Live(console=Console(stderr=True, no_color=not context.colour), transient=True)

    def show(self, status: Status) -> None:
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=None, pad_edge=False, header_style="bold")
        for head in ("WORKER", "PHASE", "REASON"):
            table.add_column(head, overflow="ellipsis", no_wrap=True)
        for worker in status.workers:
            table.add_row(worker.name, worker.phase.value, Text(worker.reason))
        self._live.update(table, refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
