"""The headers between gateway and agent, and which headers reach an engine.

Internal headers carry the router's decision.  They are read here once into a value and never forwarded, so what a
client sends under such a name has no effect beyond the gateway, which removes it first.
"""

import uuid
from dataclasses import dataclass

from inferplane_runtime.http.api import Headers
from inferplane_runtime.http.hop_by_hop import HOP_BY_HOP, named_by_connection
from inferplane_workers.agent.errors import BadRequestError

INTERNAL_PREFIX = b"x-inferplane-"
_MAX_RANK = 4096
_MAX_U64 = 2**64 - 1
_MAX_U32 = 2**32 - 1
_MAX_CANDIDATES = 16
_MAX_ROOM = 2**63 - 1

# Headers by which vLLM lets its caller choose ranks, order and sessions: the router's business, not the client's.
_ENGINE_CONTROL = frozenset((b"x-data-parallel-rank", b"x-vllm-priority"))
_OVERRIDES = b"x-override-"
"""Begins the headers by which SGLang lets its caller change fields of the body, transfers among them."""
_FROM_CLIENT_DROPPED = HOP_BY_HOP | _ENGINE_CONTROL | {b"accept-encoding", b"x-request-id"}


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the engines of two halves meet that are sent at once: the prefill engine's place, and a number."""

    host: str
    port: int
    room: int


@dataclass(frozen=True, slots=True)
class Routing:
    """The router's decision about one request, as its headers say."""

    request_id: str
    router_epoch: int = 0
    prefill: tuple[str, ...] = ()
    dp_rank: int = 0
    rank_chosen: bool = False
    prefill_dp_ranks: tuple[int, ...] = ()
    """One for each candidate, or one for all of them; none: 0."""
    tenant: str = ""
    adapter: str = ""
    adapter_revision: str = ""
    prompt_tokens: int = 0
    uncached_tokens: int = 0
    priority: int = 0
    handoff_prefill: bool = False
    rendezvous: Rendezvous | None = None
    nonce: int = 0
    """What the router tells requests of one id apart by; 0: nothing."""

    def prefill_rank(self, candidate: int) -> int:
        """Return the rank that a candidate, by its place in `prefill`, is asked for."""
        ranks = self.prefill_dp_ranks
        if len(ranks) > 1:
            return ranks[candidate]
        return sum(ranks)  # one for all, or none: 0


def read_routing(headers: Headers) -> Routing:
    """Parse the internal headers; a malformed one is an error that names it."""
    found = {name: value for name, value in headers.pairs if name.startswith(INTERNAL_PREFIX)}
    request_id = headers.get(b"x-request-id")
    rank = found.get(b"x-inferplane-dp-rank")
    candidates = _candidates(found.get(b"x-inferplane-prefill", b""))
    return Routing(
        request_id=request_id.decode("latin-1") if request_id else uuid.uuid4().hex,
        router_epoch=_number(found, b"x-inferplane-router-epoch", _MAX_U64),
        prefill=candidates[:_MAX_CANDIDATES],
        dp_rank=_number(found, b"x-inferplane-dp-rank", _MAX_RANK),
        rank_chosen=rank is not None,
        prefill_dp_ranks=_ranks(found, len(candidates))[:_MAX_CANDIDATES],
        tenant=_text(found, b"x-inferplane-tenant"),
        adapter=_text(found, b"x-inferplane-adapter"),
        adapter_revision=_text(found, b"x-inferplane-adapter-revision"),
        prompt_tokens=_number(found, b"x-inferplane-prompt-tokens", _MAX_U32),
        uncached_tokens=_number(found, b"x-inferplane-uncached-tokens", _MAX_U32),
        priority=_signed(found, b"x-inferplane-priority"),
        handoff_prefill=found.get(b"x-inferplane-handoff") == b"prefill",
        rendezvous=_rendezvous(found),
        nonce=_number(found, b"x-inferplane-nonce", _MAX_U64),
    )


def engine_headers(headers: Headers, routing: Routing) -> Headers:
    """Return what the engine gets: the client's own headers, our request id and the chosen rank."""
    kept = _clients_own(headers)
    ours: tuple[tuple[bytes, bytes], ...] = ((b"x-request-id", routing.request_id.encode("latin-1")),)
    if routing.rank_chosen:
        ours += ((b"x-data-parallel-rank", b"%d" % routing.dp_rank),)
    return Headers(kept + ours)


def prefill_headers(headers: Headers, routing: Routing, dp_rank: int, rendezvous: Rendezvous | None = None) -> Headers:
    """Return what the prefill agent gets for its half of a hand-off; the rank is one of its engine's."""
    kept = _clients_own(headers)
    ours: tuple[tuple[bytes, bytes], ...] = (
        (b"x-request-id", routing.request_id.encode("latin-1")),
        (b"x-inferplane-handoff", b"prefill"),
        (b"x-inferplane-router-epoch", b"%d" % routing.router_epoch),
        (b"x-inferplane-dp-rank", b"%d" % dp_rank),
        (b"x-inferplane-prompt-tokens", b"%d" % routing.prompt_tokens),
        (b"x-inferplane-uncached-tokens", b"%d" % routing.uncached_tokens),
        (b"x-inferplane-tenant", routing.tenant.encode("latin-1")),
        (b"x-inferplane-adapter", routing.adapter.encode("latin-1")),
        (b"x-inferplane-adapter-revision", routing.adapter_revision.encode("latin-1")),
    )
    if routing.nonce:
        ours += ((b"x-inferplane-nonce", b"%d" % routing.nonce),)
    if rendezvous is not None:
        place = f"{rendezvous.host}:{rendezvous.port}/{rendezvous.room}"
        ours += ((b"x-inferplane-rendezvous", place.encode("latin-1")),)
    return Headers(kept + ours)


def _clients_own(headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
    dropped = _FROM_CLIENT_DROPPED | named_by_connection(headers)
    prefixes = (INTERNAL_PREFIX, _OVERRIDES)
    return tuple(pair for pair in headers.pairs if pair[0] not in dropped and not pair[0].startswith(prefixes))


def answer_headers(headers: Headers) -> Headers:
    """Drop from an engine's answer what belongs to its connection, and what is ours to say."""
    dropped = (HOP_BY_HOP | named_by_connection(headers)) - {b"content-length"}
    return Headers(
        tuple(pair for pair in headers.pairs if pair[0] not in dropped and not pair[0].startswith(INTERNAL_PREFIX))
    )


def _number(found: dict[bytes, bytes], name: bytes, top: int) -> int:
    raw = found.get(name)
    if raw is None:
        return 0
    if not raw.isdigit() or len(raw) > 20 or int(raw) > top:  # noqa: PLR2004 - digits of 2**64
        raise BadRequestError(f"header {name.decode()} must be a whole number up to {top}", param=name.decode())
    return int(raw)


def _signed(found: dict[bytes, bytes], name: bytes) -> int:
    raw = found.get(name)
    if raw is None:
        return 0
    digits = raw[1:] if raw.startswith(b"-") else raw
    if not digits.isdigit() or len(digits) > 9:  # noqa: PLR2004 - fits sint32
        raise BadRequestError(f"header {name.decode()} must be a whole number", param=name.decode())
    return int(raw)


def _text(found: dict[bytes, bytes], name: bytes) -> str:
    return found.get(name, b"").decode("latin-1")


def _candidates(raw: bytes) -> tuple[str, ...]:
    names = tuple(part.strip().decode("latin-1") for part in raw.split(b",") if part.strip())
    for name in names:
        host, _, port = name.rpartition(":")
        if not host or not port.isdigit():
            raise BadRequestError("header x-inferplane-prefill must list host:port", param="x-inferplane-prefill")
    return names


def _ranks(found: dict[bytes, bytes], candidates: int) -> tuple[int, ...]:
    """Read one rank for each candidate, or one for all."""
    name = b"x-inferplane-prefill-dp-rank"
    if name not in found:
        return ()
    ranks = tuple(_number({name: part.strip()}, name, _MAX_RANK) for part in found[name].split(b","))
    if len(ranks) not in (1, candidates):
        raise BadRequestError(
            f"header {name.decode()} must list a rank for each prefill candidate", param=name.decode()
        )
    return ranks


def _rendezvous(found: dict[bytes, bytes]) -> Rendezvous | None:
    name = b"x-inferplane-rendezvous"
    raw = found.get(name)
    if raw is None:
        return None
    place, _, room = raw.decode("latin-1").rpartition("/")
    host, _, port = place.rpartition(":")
    numbers = all(part.isascii() and part.isdecimal() and len(part) < 20 for part in (port, room))  # noqa: PLR2004 - digits of 2**63
    if not host or not numbers or int(room) > _MAX_ROOM:
        raise BadRequestError("header x-inferplane-rendezvous must be HOST:PORT/ROOM", param=name.decode())
    return Rendezvous(host, int(port), int(room))
