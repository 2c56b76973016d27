"""Clients that leave: in the middle of what they say, at once, before or within the answer, or after all of it.

Whatever they do, a service must be as it was before: no request, connection or load entry stays behind.
"""

import asyncio
import random
from collections import Counter
from enum import StrEnum
from typing import Final

import orjson

_READ: Final = 4096
_ANSWER_S: Final = 60.0


class Leaving(StrEnum):
    """How a client leaves."""

    WITHIN_ITS_HEAD = "within its head"
    WITHIN_ITS_BODY = "within its body"
    AT_ONCE = "at once"
    POLITELY = "at once, politely"
    AT_THE_FIRST_BYTES = "at the first bytes"
    LATER = "later"
    SERVED = "served"


_KINDS: Final = tuple(Leaving)


def spoken(number: int, *, tokens: int) -> tuple[bytes, bytes]:
    """Write the head and the body of a request for a stream."""
    prompt = " ".join(f"w{number}x{word}" for word in range(40))
    body = orjson.dumps({"model": "tiny", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True})
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body), body


async def visit(host: str, port: int, number: int, rng: random.Random, *, tokens: int) -> Leaving:
    """Come, and leave in a way that is drawn."""
    how = rng.choice(_KINDS)
    head, body = spoken(number, tokens=2 if how is Leaving.SERVED else tokens)
    reader, writer = await asyncio.open_connection(host, port)
    try:
        async with asyncio.timeout(_ANSWER_S):
            await _act(how, reader, writer, (head, body), rng)
    except (ConnectionError, TimeoutError):
        pass  # a router may end a connection too; what stays behind is looked at afterwards
    finally:
        if how in {Leaving.POLITELY, Leaving.SERVED}:
            writer.close()
        else:
            writer.transport.abort()
    return how


async def _act(
    how: Leaving,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    request: tuple[bytes, bytes],
    rng: random.Random,
) -> None:
    head, body = request
    said = {
        Leaving.WITHIN_ITS_HEAD: head[: rng.randrange(len(head))],
        Leaving.WITHIN_ITS_BODY: head + body[: rng.randrange(len(body))],
    }
    writer.write(said.get(how, head + body))
    await writer.drain()
    if how is Leaving.AT_THE_FIRST_BYTES:
        await reader.read(_READ)
    elif how is Leaving.LATER:
        for _ in range(rng.randrange(1, 6)):
            await reader.read(_READ)
    elif how is Leaving.SERVED:
        await reader.readuntil(b"0\r\n\r\n")


async def crowd(address: str, count: int, *, at_once: int, seed: int, tokens: int = 500) -> Counter[Leaving]:
    """Let so many clients come and leave, some at a time; return how they left."""
    host, _, port = address.rpartition(":")
    rng, numbers, left = random.Random(seed), iter(range(count)), Counter[Leaving]()  # noqa: S311 - nothing secret

    async def come_and_go() -> None:
        for number in numbers:
            left[await visit(host, int(port), number, rng, tokens=tokens)] += 1

    async with asyncio.TaskGroup() as group:
        for worker in range(at_once):
            group.create_task(come_and_go(), name=f"clients {worker}")
    return left
