"""Kubernetes' `$(NAME)` expansion, for runners that are not a kubelet.

`$(NAME)` becomes the variable's value, `$$` a dollar, and a reference to an unknown name stays as it is.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def expand(text: str, environment: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else environment.get(name, match.group(0))

    return _REFERENCE.sub(value, text)


def container_environment(container: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Compute the environment of a rendered container as a kubelet would.

    `given` wins over the template's entries of the same name.  Entries without a plain value (fields of the Pod,
    Secrets) that `given` does not hold are left out.
    """
    environment: dict[str, str] = {}
    for entry in container.get("env", ()):
        name = entry["name"]
        if name in given:
            environment[name] = given[name]
        elif "valueFrom" not in entry:
            environment[name] = expand(entry.get("value", ""), environment)
    return environment


def container_command(container: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the expanded argument vector of a rendered container."""
    return tuple(expand(part, environment) for part in (*container.get("command", ()), *container.get("args", ())))
