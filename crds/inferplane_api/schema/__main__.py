"""Writes the definitions, one file a kind, and the reference: python -m inferplane_api.schema MANIFESTS REFERENCE."""

import argparse
from pathlib import Path
from typing import Any, Final, cast

import yaml

from inferplane_api.schema.definitions import NAMES, custom_resource_definition
from inferplane_api.schema.reference import reference

_HEAD: Final = "# Made by 'make generate' from the types in crds/inferplane_api; do not edit.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write custom resource definitions and their reference.")
    parser.add_argument("manifests", type=Path, help="folder of the definitions; other YAML files in it are removed")
    parser.add_argument("reference", type=Path, help="Markdown file of the reference")
    options = parser.parse_args()
    write_definitions(options.manifests)
    options.reference.parent.mkdir(parents=True, exist_ok=True)
    options.reference.write_text(reference(), encoding="utf-8")


def write_definitions(folder: Path) -> None:
    """Make `folder` hold the definition of each kind and no other."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {f"{names.plural}.yaml": kind for kind, names in NAMES.items()}
    for path in folder.glob("*.yaml"):
        if path.name not in wanted:
            path.unlink()
    for name, kind in wanted.items():
        (folder / name).write_text(_HEAD + definition_yaml(kind), encoding="utf-8")


def definition_yaml(kind: str) -> str:
    dump = cast("Any", yaml).safe_dump  # the stubs leave it untyped
    return str(dump(custom_resource_definition(kind), sort_keys=False, width=120, allow_unicode=True))


if __name__ == "__main__":
    main()
