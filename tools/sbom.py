"""Write what an image holds as a CycloneDX document: Python's distributions, and the packages of a Debian base.

It runs inside the image, on the standard library alone.  The same image gives the same text: no time, no serial number.
"""

import json
import platform
import sys
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

_DPKG = Path("/var/lib/dpkg/status")
_PROJECT = "inferplane"


def main() -> None:
    found = [_distribution(each) for each in distributions()]
    project = next((each for each in found if each["name"] == _PROJECT), None)
    parts = sorted(
        (*(each for each in found if each is not project), *_debian(_DPKG)), key=lambda each: str(each["purl"])
    )
    document: dict[str, Any] = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
    if project is not None:
        document["metadata"] = {"component": {**project, "type": "application"}}
    document["components"] = [_interpreter(), *parts]
    json.dump(document, sys.stdout, indent=1)


def _distribution(found: Distribution) -> dict[str, Any]:
    name = found.metadata["Name"]
    component = _component(name, found.version, f"pkg:pypi/{quote(name.lower().replace('_', '-'))}")
    if "License-Expression" in found.metadata:
        component["licenses"] = [{"expression": found.metadata["License-Expression"]}]
    return component


def _debian(status: Path) -> Iterator[dict[str, Any]]:
    if not status.exists():
        return
    for paragraph in status.read_text("utf-8").split("\n\n"):
        fields = HeaderParser().parsestr(paragraph)
        if str(fields["Status"]).endswith(" installed"):
            yield _component(fields["Package"], fields["Version"], f"pkg:deb/debian/{quote(fields['Package'])}")


def _interpreter() -> dict[str, Any]:
    return _component("python", platform.python_version(), "pkg:generic/python")


def _component(name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": "library", "name": name, "version": version, "purl": f"{purl}@{quote(version)}"}


if __name__ == "__main__":
    main()
