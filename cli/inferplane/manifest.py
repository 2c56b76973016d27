"""Reading the file a user gives: every problem at once, each with its line, field and fix."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import click

from inferplane.errors import InvalidError
from inferplane_api.v1alpha1.inference_service import InferenceService
from inferplane_api.v1alpha1.kinds import Resource
from inferplane_api.v1alpha1.kv_store import KVStore, KVStoreStatus
from inferplane_api.v1alpha1.manifests import ManifestError, dump_resource, load_manifests
from inferplane_api.v1alpha1.yaml_document import read_documents
from inferplane_operator.local.assemble import the_service
from inferplane_operator.local.statedir import StateError

_SIZE_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Manifest:
    """A valid file: what its documents mean, paths in it made absolute."""

    resources: tuple[Resource, ...]
    service: InferenceService
    written: tuple[Mapping[str, Any], ...] = ()
    """The documents as the file has them, as an apply would send them."""

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [dump_resource(resource) for resource in self.resources]

    @property
    def store(self) -> KVStore | None:
        """The KVStore that the service names, where the file has it; with the Secret that the operator will make."""
        wanted = self.service.spec.kv_store
        stores = (it for it in self.resources if isinstance(it, KVStore))
        found = next((it for it in stores if wanted is not None and it.metadata.name == wanted.name), None)
        if found is None or found.integrity_secret is not None:
            return found
        # Its name ends with part of the store's uid, which is not known before there is one.
        made = KVStoreStatus(integrity_secret=f"{found.metadata.name}-integrity")
        return found.model_copy(update={"status": made})

    @property
    def names_namespace(self) -> bool:
        return "namespace" in self.service.metadata.model_fields_set

    def within(self, namespace: str) -> "Manifest":
        """Return the same with what names no namespace in this one, as `kubectl apply -n` puts it there."""
        if not namespace:
            return self
        resources = tuple(_within(resource, namespace) for resource in self.resources)
        service = next(it for it in resources if isinstance(it, InferenceService))
        return replace(self, resources=resources, service=service)


def _values(text: str) -> Iterator[Mapping[str, Any]]:
    for document in read_documents(text):
        value: object = document.value
        if isinstance(value, Mapping):
            yield cast("Mapping[str, Any]", value)


def _one_service(resources: Sequence[Resource]) -> InferenceService:
    found = [it for it in resources if isinstance(it, InferenceService)]
    if len(found) != 1:
        raise StateError(f"holds {len(found)} InferenceServices; this command wants exactly one: split the file")
    return found[0]


def _within(resource: Resource, namespace: str) -> Resource:
    if "namespace" in resource.metadata.model_fields_set:
        return resource
    metadata = resource.metadata.model_copy(update={"namespace": namespace})
    return resource.model_copy(update={"metadata": metadata})


def read_manifest(filename: Path, *, for_cluster: bool = False) -> Manifest:
    """Read and validate a file (`-`: standard input).  Raises InvalidError with everything that is wrong.

    `for_cluster`: it may hold what cannot run on this machine.
    """
    text = _read(filename)
    piped = str(filename) == "-"
    name = "standard input" if piped else str(filename)
    folder = Path.cwd() if piped else filename.absolute().parent
    try:
        resources = load_manifests(text, relative_to=folder)
        service = _one_service(resources) if for_cluster else the_service(resources)
    except ManifestError as error:
        lines = "\n".join(f"  {problem}" for problem in error.problems)
        raise InvalidError(f"{name} is not valid:\n{lines}") from error
    except StateError as error:
        raise InvalidError(f"{name}: {error}") from error
    return Manifest(resources, service, tuple(_values(text)))


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
