"""`kv warm`: have the prompts of a list computed before somebody needs them."""

import asyncio
from pathlib import Path
from typing import Final

import click

from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.instances import choose
from inferplane.options import instance_options
from inferplane.warming import Done, Sum, Wanted, Warming, read_list

_DEADLINE_S: Final = 600.0


@click.command("warm")
@click.argument("prompts", type=click.Path(path_type=Path))
@click.option("--url", help="Gateway to ask, as http://127.0.0.1:8000.  [default: the local instance's]")
@click.option("--model", help="Model of lines that name none.  [default: the local instance's first]")
@click.option("--at-once", type=click.IntRange(1, 256), default=4, show_default=True, help="Prompts on their way.")
@click.option(
    "--progress", type=click.Path(path_type=Path), help="File of what is done: the same command goes on after a break."
)
@instance_options
@click.pass_obj
def command(
    context: Context,
    *,
    prompts: Path,
    url: str | None,
    model: str | None,
    at_once: int,
    progress: Path | None,
    name: str | None,
    state_dir: Path | None,
) -> None:
    """Have the prompts of a list computed and kept; says what was there already.

    A line of PROMPTS is a prompt, or a JSON object with `prompt` or `messages`.  Each is asked for one token, behind
    all other requests.
    """
    if url is None or model is None:
        here, first = _local(context, name, state_dir)
        url, model = url or here, model or first
    wanted = _read(prompts, model)
    came = asyncio.run(_warm(url, wanted, Done(progress), at_once))
    click.echo(came.words())
    if came.failed:
        raise CommandError(f"{came.failed} prompts failed; the same command with --progress FILE leaves out the others")


def _local(context: Context, name: str | None, state_dir: Path | None) -> tuple[str, str]:
    instance = choose(context, name=name, state_dir=state_dir)
    status = instance.status()
    if status is None or not status.url or not instance.running:
        raise CommandError(f"{instance.name} does not run; start it, or name a gateway with --url and --model")
    return status.url, next(iter(status.served_names), "")


def _read(path: Path, model: str) -> list[Wanted]:
    try:
        return read_list(path.read_text(encoding="utf-8"), model=model)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"{path}: cannot be read ({error}); give a file of UTF-8 lines") from error
    except InvalidError as error:
        raise InvalidError(f"{path}: {error}") from error


async def _warm(url: str, wanted: list[Wanted], done: Done, at_once: int) -> Sum:
    import httpx  # noqa: PLC0415  heavy, and only this verb of `kv` needs it

    from inferplane.gateway_client import PatientGateway  # noqa: PLC0415  as above

    async with httpx.AsyncClient(base_url=url, timeout=_DEADLINE_S, trust_env=False) as client:
        warming = Warming(PatientGateway(client), done, lambda line: click.echo(line, err=True), at_once)
        return await warming.run(wanted)
