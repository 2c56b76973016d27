"""Strategic merge of a user's Pod template over ours, as `kubectl patch` does it.

Maps merge key by key and null removes a key.  Lists of named things merge by their key (containers by name, mounts by
path, ports by number); any other list replaces ours.  A volume replaces ours of the same name whole: a volume has one
kind.  `$patch: delete` removes a list's element, `$patch: replace` replaces a map.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.names import AGENT_CONTAINER, ENGINE_CONTAINER, OUR_PREFIX

_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "claims": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
_RETAIN: Final = frozenset({"volumes"})
"""Lists whose elements are replaced, not merged."""
_DIRECTIVE: Final = "$patch"


def strategic_merge(base: Mapping[str, Any], over: Mapping[str, Any], *, path: str) -> dict[str, Any]:
    """Return `base` with `over` merged in; neither is changed.  Raises RenderError naming `path` and below."""
    if over.get(_DIRECTIVE) == "replace":
        return {key: value for key, value in over.items() if key != _DIRECTIVE}
    merged = dict(base)
    for key, value in over.items():
        where = f"{path}.{key}"
        if value is None:
            merged.pop(key, None)
        elif key in _KEYS:
            merged[key] = _merge_list(key, merged.get(key, []), value, where)
        elif isinstance(value, dict):
            ours = merged.get(key)
            below = cast("dict[str, Any]", ours) if isinstance(ours, dict) else {}
            merged[key] = strategic_merge(below, cast("dict[str, Any]", value), path=where)
        elif isinstance(merged.get(key), dict):
            raise RenderError(where, "is not a mapping", "write key: value pairs, or null to remove it")
        else:
            merged[key] = value
    return merged


def _merge_list(name: str, base: Sequence[dict[str, Any]], over: Any, path: str) -> list[dict[str, Any]]:
    key = _KEYS[name]
    if not isinstance(over, list):
        raise RenderError(path, "is not a list", "write one entry per line, each beginning with '-'")
    merged: dict[str | int, dict[str, Any]] = {element[key]: element for element in base}
    for index, element in enumerate(cast("list[object]", over)):
        where = f"{path}[{index}]"
        fields = cast("dict[str, Any]", element) if isinstance(element, dict) else {}
        identity = fields.get(key)
        if not isinstance(identity, str | int):
            raise RenderError(where, f"has no {key}", f"give each entry of {name} its {key}")
        if fields.get(_DIRECTIVE) == "delete":
            merged.pop(identity, None)
        elif name in _RETAIN:
            merged[identity] = fields
        else:
            merged[identity] = strategic_merge(merged.get(identity, {}), fields, path=where)
    return list(merged.values())


def _strings(template: Mapping[str, Any], part: str) -> Mapping[str, str]:
    metadata: Mapping[str, Any] = template.get("metadata") or {}
    strings: Mapping[str, str] | None = metadata.get(part)
    return strings or {}


def check_merged(ours: Mapping[str, Any], merged: Mapping[str, Any], *, path: str) -> None:
    """Raise RenderError when a merge broke what discovery and draining rely on."""
    for part in ("labels", "annotations"):
        kept, found = _strings(ours, part), _strings(merged, part)
        for key in {*kept, *found}:
            if key.startswith(OUR_PREFIX) and found.get(key) != kept.get(key):
                raise RenderError(f"{path}.metadata.{part}.{key}", "the prefix is reserved", "use a prefix of your own")
    body: Mapping[str, Any] = merged.get("spec") or {}
    sidecars = [container["name"] for container in body.get("initContainers") or ()]
    mains = [container["name"] for container in body.get("containers") or ()]
    if AGENT_CONTAINER in mains:
        raise RenderError(f"{path}.spec.containers", "the agent is a sidecar", "move it to initContainers")
    if AGENT_CONTAINER not in sidecars or ENGINE_CONTAINER not in mains:
        raise RenderError(f"{path}.spec", "agent or engine is gone", "a template may change them, not delete them")
    if twice := sorted({*sidecars} & {*mains}):
        raise RenderError(f"{path}.spec.containers", f"{twice[0]} is there twice", "give it another name")
