"""`top`: services and workers as they are now, in the terminal."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from inferplane.cluster import Connection
from inferplane.completing import complete_instance
from inferplane.console_feed import console_state
from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.instances import choose
from inferplane.options import Duration, state_dir_option
from inferplane.output import Format, output_option, show_document, table_lines
from inferplane.target import Target, cluster_meant, world_options
from inferplane.top_view import Document, footer, pages

_GATEWAY_PORT = 8000


@click.command("top")
@click.argument("name", required=False, shell_complete=complete_instance)
@state_dir_option
@click.option("--url", default="", help="A gateway's address; needed in a cluster.")
@click.option("--once", is_flag=True, help="Print once and end, for scripts.")
@click.option("--interval", type=Duration(), default=2.0, show_default="2s", help="Time between two looks.")
@world_options
@output_option
@click.pass_obj
def command(
    context: Context,
    *,
    name: str | None,
    state_dir: Path | None,
    url: str,
    once: bool,
    interval: float,
    target: Target,
    output: str,
) -> None:
    """Show services, objectives and workers, again and again until Ctrl-C.

    It shows what one router sees, as its console does.
    """
    address = url or _gateway(context, target, name, state_dir)
    if Format(output) is not Format.TABLE:
        show_document(console_state(address), Format(output))
    elif once or not context.terminal:
        click.echo("\n".join(drawn(console_state(address), colour=context.terminal and context.colour)))
    else:
        with suppress(KeyboardInterrupt):  # how it ends
            _watch(lambda: _now(address, context), interval)


def drawn(state: Document, *, colour: bool) -> list[str]:
    """Return the lines of one look."""
    lines: list[str] = []
    for page in pages(state):
        table = table_lines(page.workers.heads, page.workers.rows, right=page.workers.right, colour=colour)
        lines += [*page.lines, "", *table, ""]
    return [*(lines or ["no service is known here yet", ""]), footer(state)]


def _now(address: str, context: Context) -> list[str]:
    try:
        return drawn(console_state(address), colour=context.colour)
    except CommandError as error:
        return [error.message]


def _watch(look: Callable[[], list[str]], interval_s: float) -> None:
    from rich.live import Live  # noqa: PLC0415  slow to import, and only for a terminal
    from rich.text import Text  # noqa: PLC0415

    def text() -> Text:
        return Text.from_ansi("\n".join([*look(), "", f"every {interval_s:g} s; Ctrl-C ends"]), no_wrap=True)

    with Live(text(), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval_s)
            live.update(text(), refresh=True)


def _gateway(context: Context, target: Target, name: str | None, state_dir: Path | None) -> str:
    """Return the gateway's address of a local instance.  Raises CommandError."""
    connection = cluster_meant(context, target, name=name, state_dir=state_dir)
    if connection is not None:
        raise InvalidError(_how_to_reach(connection))
    instance = choose(context, name=name, state_dir=state_dir)
    status = instance.status()
    if not instance.running or status is None or not status.url:
        raise CommandError(f"{instance.name} is not running; start it with `inferplane up`")
    return status.url


def _how_to_reach(connection: Connection) -> str:
    from inferplane.kube.gateways import gateway_pods  # noqa: PLC0415  slow to import, and only for a cluster

    pods = gateway_pods(connection)
    if not pods:
        return "no gateway runs in this cluster that you may see; see `inferplane preflight`"
    forward = f"kubectl -n {pods[0].namespace} port-forward pod/{pods[0].name} {_GATEWAY_PORT}"
    return (
        f"gateways answer inside the cluster: forward a port of one whose console is on (`gateway.console` in the "
        f"chart), `{forward}`, then --url http://127.0.0.1:{_GATEWAY_PORT}"
    )
