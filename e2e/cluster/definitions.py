"""Definitions of other projects' resources, as the Go modules hold them that those projects publish.

Trade-off.  A module's version and the checksum of its content stand here, where a `go.sum` would also list whatever
that module needs to be built, of which nothing is used.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import MissingError, go_command


@dataclass(frozen=True, slots=True)
class Definitions:
    """Files of one module."""

    module: str
    version: str
    checksum: str
    files: tuple[str, ...]


GATEWAYS: Final = (
    Definitions(
        "sigs.k8s.io/gateway-api",
        "v1.6.3",
        "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc=",
        ("config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",),
    ),
    Definitions(
        "sigs.k8s.io/gateway-api-inference-extension",
        "v1.1.0",
        "h1:MqRYk+3LNUWB0MbTgTZVhmJGNDTvm8l3ze4MOlzR7MU=",
        ("config/crd/bases/inference.networking.k8s.io_inferencepools.yaml",),
    ),
)


def gateway_definitions() -> Sequence[Path]:
    """Return the files of what a Gateway in front of us is told with.  Not to be called from inside a cluster."""
    return [_folder(each) / file for each in GATEWAYS for file in each.files]


def _folder(wanted: Definitions) -> Path:
    """Return a module's folder in Go's cache, downloaded if it is not there."""
    command = [go_command(), "mod", "download", "-json", f"{wanted.module}@{wanted.version}"]
    environment = {**os.environ, "GOSUMDB": "off", "GOWORK": "off"}  # the checksum is compared here
    with tempfile.TemporaryDirectory() as nowhere:  # where no module is the main one
        done = subprocess.run(command, cwd=nowhere, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, str] = json.loads(done.stdout or "{}")
    if done.returncode or found.get("Error"):
        raise MissingError(f"{wanted.module}@{wanted.version}: {found.get('Error') or done.stderr}")
    if found["Sum"] != wanted.checksum:
        raise MissingError(f"{wanted.module}@{wanted.version} is not what it was: its checksum is {found['Sum']}")
    return Path(found["Dir"])
