"""Durations and quantities: strings with a unit on the wire, float seconds and numbers inside.

A bare number in a manifest is ambiguous (seconds? milliseconds?), so durations from outside must carry a unit.
Durations are written as Go writes them ("1h30m", "1500ms"), quantities as Kubernetes does ("64Mi", "1500m").
Invariant: parsing what was formatted gives the same value, to the nanosecond and to the byte.
"""

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

from inferplane_api.v1alpha1.wire import FORM, FROM_OUTSIDE, Finding, invalid

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_DURATION_PART: Final = r"(?:[0-9]+(?:\.[0-9]+)?)(?:ns|us|µs|ms|s|m|h)"
DURATION_PATTERN: Final = rf"^(?:{_DURATION_PART})+$"
_MAX_DURATION_S: Final = 10 * 365 * 24 * 3600.0

_SUFFIX: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
QUANTITY_PATTERN: Final = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?$"
_QUANTITY_PARTS: Final = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]{1,3})?)([A-Za-z]*)$")
_MAX_TEXT: Final = 64
_MAX_BYTES: Final = 2**60


def parse_duration(text: str) -> float:
    """Parse a Go-like duration into seconds; ValueError when it is not one."""
    if len(text) > _MAX_TEXT or not re.fullmatch(DURATION_PATTERN, text):
        msg = f"{text[:_MAX_TEXT]!r} is not a duration"
        raise ValueError(msg)
    parts = re.findall(r"([0-9.]+)([a-zµ]+)", text)
    nanoseconds = sum(Decimal(number) * _NANOSECONDS[unit] for number, unit in parts)
    return float(nanoseconds / 10**9)


def format_duration(seconds: float) -> str:
    """Write seconds as an exact Go-like duration that reads well ("1500ms", "3.1ms", "2s", "1h30m")."""
    left = round(seconds * 10**9)
    if left == 0:
        return "0s"
    text = ""
    for unit in ("h", "m"):
        whole, left = divmod(left, _NANOSECONDS[unit])
        text += f"{whole}{unit}" if whole else ""
    return text + _below_a_minute(left) if left else text


def _below_a_minute(nanoseconds: int) -> str:
    """Write whole seconds, else milliseconds, which are what people compare, else what is small in its own unit."""
    if nanoseconds % _NANOSECONDS["s"] == 0:
        return f"{nanoseconds // _NANOSECONDS['s']}s"
    unit = next(unit for unit in ("ms", "us", "ns") if nanoseconds >= _NANOSECONDS[unit])
    return f"{(Decimal(nanoseconds) / _NANOSECONDS[unit]).normalize():f}{unit}"


def parse_quantity(text: str) -> Decimal:
    """Parse a Kubernetes quantity ("64Mi", "1500m", "2e9", "4"); ValueError when it is not one."""
    written = text
    match = _QUANTITY_PARTS.match(written) if re.fullmatch(QUANTITY_PATTERN, written) else None
    if len(written) > _MAX_TEXT or match is None:
        msg = f"{written[:_MAX_TEXT]!r} is not a quantity"
        raise ValueError(msg)
    number, suffix = match.groups()
    # "1E" is an exa-suffix and "1E3" an exponent; the pattern's alternatives keep them apart.
    return Decimal(number) * _SUFFIX[suffix]


def format_bytes(count: int) -> str:
    """Write a byte count with the largest binary suffix that is exact."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if count and count % int(_SUFFIX[suffix]) == 0:
            return f"{count // int(_SUFFIX[suffix])}{suffix}"
    return str(count)


def _duration(value: object, info: ValidationInfo) -> object:
    from_outside = bool(info.context and info.context.get(FROM_OUTSIDE))
    if isinstance(value, str):
        try:
            return _bounded(parse_duration(value))
        except ValueError as error:
            raise invalid(
                Finding("", str(error), 'write a number and a unit, such as "1500ms", "2s" or "5m"')
            ) from error
    if from_outside or isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(
            Finding("", f"{value!r} is not a duration", f'write it with a unit, such as "{value}s" or "{value}ms"')
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_DURATION_S
            else Finding("", f"{value!r} is not a duration", 'write a string such as "1500ms", "2s" or "5m"')
        )
    return _bounded(float(value))


def _bounded(seconds: float) -> float:
    if not 0 <= seconds <= _MAX_DURATION_S:
        raise invalid(Finding("", f"{seconds:g} s is out of range", "give a duration between 0 and ten years"))
    return seconds


def _number_or_text(value: object) -> str:
    # A fraction has to be quoted, as an API server takes whole numbers or text alone.
    if isinstance(value, bool) or not isinstance(value, str | int):
        msg = f"{value!r} is not a quantity"
        raise ValueError(msg)  # noqa: TRY004 - pydantic's validators report ValueError
    return str(value)


def _byte_count(value: object) -> object:
    try:
        count = parse_quantity(_number_or_text(value))
    except ValueError as error:
        raise invalid(Finding("", str(error), 'write bytes such as "64Mi", "2Gi" or 268435456')) from error
    if count != int(count) or not 0 <= count <= _MAX_BYTES:
        raise invalid(
            Finding("", f"{value!r} is not a whole number of bytes up to 1Ei", 'write bytes such as "64Mi" or "2Gi"')
        )
    return int(count)


def _quantity(value: object) -> object:
    try:
        parse_quantity(_number_or_text(value))
    except ValueError as error:
        raise invalid(Finding("", str(error), 'write a quantity such as "500m", "4" or "64Gi"')) from error
    return str(value)


Duration = Annotated[
    float,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "maxLength": _MAX_TEXT, FORM: "duration"}),
]
"""Float seconds inside, a Go-like string on the wire."""

ByteCount = Annotated[
    int,
    BeforeValidator(_byte_count),
    PlainSerializer(format_bytes, return_type=str),
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN, "maxLength": _MAX_TEXT, FORM: "bytes"}
    ),
]
"""Bytes inside, a Kubernetes quantity on the wire."""

Quantity = Annotated[
    str,
    BeforeValidator(_quantity),
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN, "maxLength": _MAX_TEXT, FORM: "quantity"}
    ),
]
"""A Kubernetes quantity kept as it was written (resource requests and limits)."""
