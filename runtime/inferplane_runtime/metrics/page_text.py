"""The text format of a metrics page, as far as our own metrics need it: heads, labels, numbers.

Invariant: whoever reads it reads what the client library would have written of the same metrics.
"""

from collections.abc import Mapping
from typing import Final

from inferplane_runtime.metrics.spec import MetricSpec

_ESCAPED: Final[Mapping[int, str]] = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPED: Final[Mapping[int, str]] = str.maketrans({"\\": r"\\", "\n": r"\n"})
_NOT_FINITE: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
_KEPT: Final = 20_000


class LabelText:
    """Label values as text, remembered: most series are on every page."""

    __slots__ = ("_known", "_names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._known: dict[tuple[str, ...], str] = {}

    def of(self, values: tuple[str, ...]) -> str:
        """Return the values in braces, in the order of the labels' names."""
        text = self._known.get(values)
        if text is None:
            if len(self._known) >= _KEPT:  # workers come and go for as long as a process lives
                self._known.clear()
            text = self._known[values] = self._write(values)
        return text

    def _write(self, values: tuple[str, ...]) -> str:
        pairs = sorted(zip(self._names, values, strict=True))
        inner = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in pairs)
        return f"{{{inner}}}" if inner else ""


def head(spec: MetricSpec) -> str:
    return f"# HELP {spec.name} {spec.help.translate(_HELP_ESCAPED)}\n# TYPE {spec.name} {spec.kind}\n"


def number(value: float) -> str:
    text = repr(float(value))
    return _NOT_FINITE.get(text, text)
