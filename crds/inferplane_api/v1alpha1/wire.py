"""How every custom resource value looks on the wire: camelCase, closed, frozen.

Inside, fields say their unit (`ttft_s`, `kv_cache_memory_bytes`); on the wire the unit is in the value ("2s", "64Mi"),
so the suffix is dropped.  A typo must never be ignored: unknown fields are errors.
Invariant: what comes from a file or an API server is validated by wire names only (see `manifests.parse_resource`);
Python code constructs values by field names.
"""

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

INVALID: Final = "inferplane_invalid"
"""Error type of checks that already know their fix; the context carries `findings`."""

FROM_OUTSIDE: Final = "wire"
"""Key of the validation context: the value comes from a file or a server, so a number without a unit is an error."""
INT32_MAX: Final = 2**31 - 1
"""The largest count that every client of an API server can hold."""
UNIT: Final = "x-unit"
"""Key in a field's JSON schema: what its number counts; for the reference, not for an API server."""
FORM: Final = "x-form"
"""Key in a type's JSON schema: how its text is to be read, where a pattern cannot say it (see `schema.rules`)."""
RELATIVE_TO: Final = "relative_to"
"""Key of the validation context: the absolute folder that paths beginning with "./" or "../" are relative to."""


def wire_name(field: str) -> str:
    """Return the wire name of a field: `ttft_s` is `ttft`, `kv_cache_memory_bytes` is `kvCacheMemory`."""
    return to_camel(field.removesuffix("_s").removesuffix("_bytes"))


def keyed_by(*fields: str) -> dict[str, JsonValue]:
    """Say that entries of a list are told apart by `fields`: an API server refuses equal ones and merges by them."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(fields)}


def counted_in(unit: str) -> dict[str, JsonValue]:
    """Say what a field's number counts."""
    return {UNIT: unit}


class WireModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=wire_name, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong inside a value: `field` is relative to it, dotted, in wire names ("" for itself)."""

    field: str
    message: str
    fix: str


def invalid(*findings: Finding) -> PydanticCustomError:
    """Make the error that a validator raises for `findings`; all of them reach the user."""
    text = "; ".join(f"{finding.message} ({finding.fix})" for finding in findings)
    return PydanticCustomError(INVALID, "{text}", {"text": text, "findings": findings})
