"""Objects without what may be secret: values of environment variables, and what follows a secret's flag.  Pure.

Somebody sends an archive of these objects to strangers.  So whatever may hold a secret goes, and what is known to hold
none stays: a support case needs the arguments and the ports.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from inferplane.cluster import Object
from inferplane_operator.render.names import RUNNER_VARIABLES

REDACTED: Final = "(redacted)"
_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole object once more, as one string."""
_ENVIRONMENTS: Final = frozenset({"env"})
_ARGUMENTS: Final = frozenset({"args", "command"})
_SECRET: Final = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
_HARMLESS: Final = re.compile(r"--(max-|min-)?[a-z-]*tokens?$|--tokenizer[a-z-]*$|--[a-z-]*tokens=|--tokenizer[a-z-]*=")
_IN_URL: Final = re.compile(r"(?<=://)[^/@\s]+@")


def redacted(found: Object) -> dict[str, Any]:
    """Return an object that may be shown to strangers."""
    kept = cast("dict[str, Any]", _value(found))
    annotations = kept.get("metadata", {}).get("annotations")
    if isinstance(annotations, dict):
        cast("dict[str, Any]", annotations).pop(_ANNOTATION, None)
    return kept


def _value(value: object, key: str = "") -> object:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        if key in _ENVIRONMENTS:  # a mapping of names to values, as in `spec.engine.env`
            return {name: _environment_value(name, it) for name, it in entries.items()}
        return {name: _value(it, name) for name, it in entries.items()}
    if isinstance(value, str):
        return _IN_URL.sub(f"{REDACTED}@", value)
    if isinstance(value, list):
        several = cast("list[object]", value)
        if key in _ENVIRONMENTS:
            return [_variable(it) for it in several]
        return _arguments(several) if key in _ARGUMENTS else [_value(it) for it in several]
    return value


def _variable(entry: object) -> object:
    if not isinstance(entry, Mapping):
        return REDACTED
    fields = cast("Mapping[str, Any]", entry)
    shown = {name: _value(it, name) for name, it in fields.items() if name != "value"}
    return {
        **shown,
        **({"value": _environment_value(str(fields.get("name")), fields["value"])} if "value" in fields else {}),
    }


def _environment_value(name: str, value: object) -> object:
    return value if name in RUNNER_VARIABLES else REDACTED


def _arguments(arguments: Sequence[object]) -> list[object]:
    kept: list[object] = []
    hide = False
    for argument in arguments:
        text = argument if isinstance(argument, str) else ""
        flag = text.startswith("-") and bool(_SECRET.search(text.split("=")[0])) and not _HARMLESS.match(text)
        if hide and not text.startswith("--"):
            kept.append(REDACTED)
            hide = False
            continue
        hide = flag and "=" not in text
        kept.append(f"{text.split('=')[0]}={REDACTED}" if flag and "=" in text else _value(argument))
    return kept
