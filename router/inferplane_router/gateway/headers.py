"""Headers: what a client may say to the router, what goes on to the agent, what comes back.

Invariant: no header that steers routing or an engine passes from a client to an agent; every internal header that an
agent sees was written here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from inferplane_engine.identity import Adapter
from inferplane_router.core.values import Routed
from inferplane_router.gateway.errors import BadRequestError
from inferplane_runtime.http.api import Headers
from inferplane_runtime.http.hop_by_hop import HOP_BY_HOP, named_by_connection
from inferplane_runtime.values import value

INTERNAL_PREFIX: Final = b"x-inferplane-"
RETRY: Final = b"x-inferplane-retry"
# An ext_proc front's word is not a client's; ranks and priorities are the router's business; what the engine answers
# must be readable here, so it is not asked to compress.
_DROPPED: Final = HOP_BY_HOP | frozenset(
    (
        b"x-request-id",
        b"x-gateway-destination-endpoint",
        b"x-gateway-destination-endpoint-subset",
        b"x-data-parallel-rank",
        b"x-vllm-priority",
        b"accept-encoding",
    )
)
_STEERING: Final = _DROPPED - HOP_BY_HOP - {b"x-request-id"}
_OURS: Final = frozenset((b"x-request-id", RETRY))
_REQUEST_ID: Final = re.compile(rb"[!-~]{1,128}")
_MAX_PRIORITY: Final = 100
_DIGITS: Final = 9
_MAX_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Hints:
    """What a client says about one request besides its body."""

    request_id: str = ""
    """Empty: the gateway draws one."""
    session: str = ""
    priority: int = 0
    ttft_s: float | None = None
    tpot_s: float | None = None


_HINTS: Final = (INTERNAL_PREFIX, b"x-request-id")
_NO_HINTS: Final = Hints()


def read_hints(headers: Headers) -> Hints:
    """Read the client's headers; a malformed one is an error that names it."""
    found = {name: value for name, value in headers.pairs if name.startswith(_HINTS)}
    if not found:
        return _NO_HINTS
    return Hints(
        request_id=_usable_id(found.get(b"x-request-id", b"")),
        session=found.get(b"x-inferplane-session", b"").decode("latin-1"),
        priority=_priority(found.get(b"x-inferplane-priority")),
        ttft_s=_milliseconds(found, "x-inferplane-ttft-ms"),
        tpot_s=_milliseconds(found, "x-inferplane-tpot-ms"),
    )


def request_id_of(headers: Headers) -> str:
    """Return the client's own id for a request, empty when it gave none that can be used."""
    return _usable_id(headers.get(b"x-request-id") or b"")


def _usable_id(value: bytes) -> str:
    return value.decode() if _REQUEST_ID.fullmatch(value) else ""


def _priority(value: bytes | None) -> int:
    if value is None:
        return 0
    digits = value.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _DIGITS or int(digits) > _MAX_PRIORITY:
        message = f"x-inferplane-priority must be a whole number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}"
        raise BadRequestError(message, param="x-inferplane-priority")
    return int(value)


def _milliseconds(found: dict[bytes, bytes], name: str) -> float | None:
    value = found.get(name.encode())
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number <= _MAX_MS:
        raise BadRequestError(f"{name} must be a number of milliseconds above 0", param=name)
    return number / 1000


@value(frozen=True, slots=True)
class Particulars:
    """What an agent is told of a request besides where it goes."""

    tenant: str = ""
    adapter: Adapter | None = None
    priority: int = 0
    hand_off: bool = True
    """The route can be split between prefill and decode."""


def steering(client: Headers) -> list[bytes]:
    """Name the client's headers that no agent may see, for a front that passes on all the others by itself."""
    return [name for name, _ in client.pairs if name.startswith(INTERNAL_PREFIX) or name in _STEERING]


class HeaderWriter:
    """Writes the headers between gateway and agent for one router process."""

    __slots__ = ("_epoch",)

    def __init__(self, *, subscriber_epoch: int) -> None:
        self._epoch = (b"x-inferplane-router-epoch", b"%d" % subscriber_epoch)

    def to_agent(self, client: Headers, routed: Routed, particulars: Particulars) -> Headers:
        """Return the client's own headers and the router's decision."""
        dropped = _DROPPED | named_by_connection(client)
        pairs = [pair for pair in client.pairs if pair[0] not in dropped and not pair[0].startswith(INTERNAL_PREFIX)]
        return Headers((*pairs, *self.decision(routed, particulars)))

    def decision(self, routed: Routed, particulars: Particulars) -> list[tuple[bytes, bytes]]:
        """Return the internal headers alone."""
        pairs = [
            (b"x-request-id", routed.request_id.encode()),
            self._epoch,
            (b"x-inferplane-prompt-tokens", b"%d" % routed.prompt_tokens),
            (b"x-inferplane-uncached-tokens", b"%d" % routed.uncached_tokens),
            (b"x-inferplane-dp-rank", b"%d" % routed.decode.rank),
        ]
        if routed.nonce:
            pairs.append((b"x-inferplane-nonce", b"%d" % routed.nonce))
        if particulars.hand_off and routed.prefill:
            addresses = ",".join(target.address for target in routed.prefill)
            pairs.append((b"x-inferplane-prefill", addresses.encode()))
            ranks = ",".join(str(target.rank) for target in routed.prefill)
            pairs.append((b"x-inferplane-prefill-dp-rank", ranks.encode()))
        return pairs + _described(particulars)


def _described(particulars: Particulars) -> list[tuple[bytes, bytes]]:
    pairs: list[tuple[bytes, bytes]] = []
    if particulars.priority:
        pairs.append((b"x-inferplane-priority", b"%d" % particulars.priority))
    if particulars.tenant:
        pairs.append((b"x-inferplane-tenant", particulars.tenant.encode("utf-8")))
    if (adapter := particulars.adapter) is not None:
        pairs.append((b"x-inferplane-adapter", adapter.name.encode("utf-8")))
        if adapter.revision:
            pairs.append((b"x-inferplane-adapter-revision", adapter.revision.encode("utf-8")))
    return pairs


def to_client(headers: Headers, request_id: str, *, exposed: Routed | None) -> Headers:
    """Return what the client sees of an agent's answer; `exposed` when the service shows how it was routed."""
    pairs = [(b"x-request-id", request_id.encode())]
    for pair in headers.pairs:
        name = pair[0]
        if name in _OURS or (exposed is None and name.startswith(INTERNAL_PREFIX)):
            continue
        pairs.append(pair)
    if exposed is not None:
        pairs.append((b"x-inferplane-predicted-cached-tokens", b"%d" % exposed.prefill_cached_tokens))
    return Headers(tuple(pairs))


def id_source(random_bytes: Callable[[int], bytes]) -> Callable[[], str]:
    """Draw request ids: a random prefix for the process, then a counter, so that an id costs nothing."""
    prefix = random_bytes(8).hex()
    count = 0

    def draw() -> str:
        nonlocal count
        count += 1
        return f"{prefix}-{count:x}"

    return draw
