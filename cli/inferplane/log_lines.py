"""Lines of our processes' logs as values: logfmt, one event a line."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_PAIR: Final = re.compile(r'([A-Za-z_][\w.]*)=("(?:[^"\\]|\\.)*"|\S*)')
_ESCAPED: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event; `at` in seconds since 1970."""

    at: float
    event: str
    fields: dict[str, str]

    def get(self, name: str) -> str:
        return self.fields.get(name, "")


def read_line(text: str) -> LogLine | None:
    """Read a line; None where it is not one of ours."""
    fields = {name: _plain(value) for name, value in _PAIR.findall(text)}
    try:
        at = datetime.fromisoformat(fields["ts"]).timestamp()
    except (KeyError, ValueError):
        return None
    return LogLine(at, fields.get("event", ""), fields)


def _plain(value: str) -> str:
    if len(value) > 1 and value.startswith('"') and value.endswith('"'):
        return _ESCAPED.sub(r"\1", value[1:-1])
    return value
