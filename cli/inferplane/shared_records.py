"""Records of decisions as they may be given away: who asked is told apart, and not named.  Pure.

Problem: whoever helps wants to know that one tenant's requests went wrong, and not which customer that is.  Idea: each
tenant and session becomes a short digest, keyed anew for each archive, so that equal ones stay equal within it.
Trade-off: ids of requests stay, since logs and traces have them; a client that puts names into its ids gives them away.
Invariant: a line that cannot be read as JSON is left out; records hold neither prompts nor answers.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, cast

from inferplane.redaction import redacted

_PEOPLE: Final = frozenset({"tenant", "session"})


def shared(lines: Iterable[bytes], key: bytes) -> Iterator[bytes]:
    """Yield each record without names; `key` is the archive's own, 16 to 64 bytes."""
    for line in lines:
        try:
            found: object = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            record = redacted(cast("dict[str, Any]", _unnamed(cast("object", found), key)))
            yield json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _unnamed(value: object, key: bytes) -> object:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {name: _digest(it, key) if name in _PEOPLE else _unnamed(it, key) for name, it in entries.items()}
    if isinstance(value, list):
        return [_unnamed(it, key) for it in cast("list[object]", value)]
    return value


def _digest(value: object, key: bytes) -> object:
    if not value:
        return value
    return f"#{blake2b(str(value).encode(), key=key, digest_size=4).hexdigest()}"
