"""Writes what is generated of observability: `python -m inferplane_observability ROOT`."""

import sys
from pathlib import Path
from typing import Final

import yaml

from inferplane_observability import alerts, recording, reference
from inferplane_observability.rule_values import rule_file

RULES: Final = "helm/inferplane/files/rules/inferplane.yaml"
_HEAD: Final = "# Made by `make generate`; do not edit.  Rules that hold for every service.\n"


def generated() -> dict[str, str]:
    """Return every generated file's text by its path."""
    from inferplane_observability.dashboards import dashboards  # noqa: PLC0415 - its library is for development only

    return {reference.PAGE: reference.page(), RULES: rules(), **dashboards()}


def rules() -> str:
    document = rule_file((recording.GROUP, *alerts.GROUPS))
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=1000)  # pyright: ignore[reportUnknownMemberType]  # the stub's


def main() -> int:
    root = Path(sys.argv[1])
    for path, text in generated().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
