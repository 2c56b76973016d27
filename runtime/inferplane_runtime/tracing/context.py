"""Which trace a request belongs to, as the `traceparent` header says (W3C Trace Context, version 00).

Invariant: what cannot be read is no context; a request is never refused for it.
"""

import re
from typing import Final

from inferplane_runtime.values import value

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"
_SHAPE: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1
_NOBODY: Final = bytes(16)


@value(frozen=True, slots=True)
class SpanContext:
    """A span as others name it."""

    trace_id: bytes
    """16 bytes, not all zero."""
    span_id: bytes
    """8 bytes, not all zero."""
    sampled: bool = True

    @property
    def header(self) -> bytes:
        """Write it as the value of `traceparent`."""
        return b"00-%b-%b-%02x" % (self.trace_id.hex().encode(), self.span_id.hex().encode(), self.sampled)


def read_traceparent(text: bytes) -> SpanContext | None:
    """Read a header's value; later versions may have more after what is known of them, version 00 may not."""
    match = _SHAPE.fullmatch(text)
    if match is None or match[1] == b"ff" or (match[1] == b"00" and match[5]):
        return None
    trace_id, span_id = bytes.fromhex(match[2].decode()), bytes.fromhex(match[3].decode())
    if trace_id == _NOBODY or span_id == _NOBODY[:8]:
        return None
    return SpanContext(trace_id, span_id, bool(int(match[4], 16) & _SAMPLED))
