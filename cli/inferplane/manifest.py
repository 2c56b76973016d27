"""Reading the file a user gives: every problem at once, each with its line, field and fix."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from inferplane.errors import InvalidError
from inferplane_api.v1alpha1.inference_service import InferenceService
from inferplane_api.v1alpha1.kinds import Resource
from inferplane_api.v1alpha1.manifests import ManifestError, dump_resource, load_manifests
from inferplane_operator.local.assemble import the_service
from inferplane_operator.local.statedir import StateError

_SIZE_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Manifest:
    """A valid file: what its documents mean, paths in it made absolute."""

    resources: tuple[Resource, ...]
    service: InferenceService

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [dump_resource(resource) for resource in self.resources]


def read_manifest(filename: Path) -> Manifest:
    """Read and validate a file (`-`: standard input).  Raises InvalidError with everything that is wrong."""
    text = _read(filename)
    piped = str(filename) == "-"
    name = "standard input" if piped else str(filename)
    folder = Path.cwd() if piped else filename.absolute().parent
    try:
        resources = load_manifests(text, relative_to=folder)
        service = the_service(resources)
    except ManifestError as error:
        lines = "\n".join(f"  {problem}" for problem in error.problems)
        raise InvalidError(f"{name} is not valid:\n{lines}") from error
    except StateError as error:
        raise InvalidError(f"{name}: {error}") from error
    return Manifest(resources, service)


def _read(filename: Path) -> str:
    try:
        with click.open_file(str(filename), "rb") as file:
            data: bytes = file.read(_SIZE_LIMIT + 1)
    except OSError as error:
        raise InvalidError(f"{filename}: cannot be read: {error.strerror}") from error
    if len(data) > _SIZE_LIMIT:
        raise InvalidError(f"{filename}: is larger than {_SIZE_LIMIT} bytes; is it a manifest?")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidError(f"{filename}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
