"""The verbs of an API server on raw objects."""

from collections.abc import AsyncIterator
from typing import Any, Final, cast

import orjson

from inferplane_operator.cluster.kinds import Kind, kind_of
from inferplane_operator.cluster.raw import items, text
from inferplane_operator.cluster.stored import controller_of
from inferplane_operator.cluster.transport import (
    APPLY_PATCH,
    MERGE_PATCH,
    METADATA_ONLY,
    Call,
    Transport,
    raise_for,
)
from inferplane_operator.reconcile.values import Manifest, Reference

_PAGE = 100
"""Metadata of an object is mostly `managedFields`: a page of five hundred takes 25 MiB when parsed."""

_ESCAPED: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


class Objects:
    """Each method is one request; errors are those of `cluster.errors`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def apply(self, manifest: Manifest, *, manager: str, force: bool) -> Manifest:
        """Apply server-side, taking over by `force` fields that others own; else their values are a ConflictError."""
        kind, namespace, name = _address(manifest)
        query = (("fieldManager", manager), ("force", str(force).lower()))
        return await self._object(Call("PATCH", kind.path(namespace, name), query, _json(manifest), APPLY_PATCH))

    async def create(self, manifest: Manifest, *, manager: str) -> Manifest:
        kind, namespace, _ = _address(manifest)
        return await self._object(Call("POST", kind.path(namespace), (("fieldManager", manager),), _json(manifest)))

    async def replace(self, manifest: Manifest, *, manager: str) -> Manifest:
        """Write the whole object; its resourceVersion must be the current one."""
        kind, namespace, name = _address(manifest)
        query = (("fieldManager", manager),)
        return await self._object(Call("PUT", kind.path(namespace, name), query, _json(manifest)))

    async def merge(self, reference: Reference, patch: Manifest, *, subresource: str, manager: str) -> Manifest:
        kind = kind_of(reference.api_version, reference.kind)
        path = kind.path(reference.namespace, reference.name, subresource)
        return await self._object(Call("PATCH", path, (("fieldManager", manager),), _json(patch), MERGE_PATCH))

    async def delete(self, reference: Reference) -> None:
        kind = kind_of(reference.api_version, reference.kind)
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if reference.uid:
            options["preconditions"] = {"uid": reference.uid}
        await self._object(Call("DELETE", kind.path(reference.namespace, reference.name), (), _json(options)))

    async def read(self, kind: Kind, namespace: str, name: str) -> Manifest:
        return await self._object(Call("GET", kind.path(namespace, name)))

    async def plurals(self, api_version: str) -> frozenset[str]:
        """Return the resources of a group and version."""
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        answer = await self._object(Call("GET", root))
        return frozenset(str(entry["name"]) for entry in items(answer, "resources"))

    async def controller(self, manifest: Manifest) -> str:
        """Return the uid of what controls the object that has this one's name; "" where nothing does."""
        kind, namespace, name = _address(manifest)
        query = (("fieldSelector", f"metadata.name={name}"),)  # a list, which needs no right that watching does not
        page = await self._object(Call("GET", kind.path(namespace), query, accept=METADATA_ONLY))
        named = [item["metadata"] for item in items(page, "items") if item["metadata"]["name"] == name]
        return controller_of(named[0]) if named else ""

    async def metadata(self, kind: Kind, namespace: str) -> AsyncIterator[Manifest]:
        """Page through all objects, their metadata alone."""
        after = ""
        while True:
            query = [("limit", str(_PAGE))]
            query += [("labelSelector", kind.selector)] if kind.selector else []
            query += [("continue", after)] if after else []
            page = await self._object(Call("GET", kind.path(namespace), tuple(query), accept=METADATA_ONLY))
            for item in items(page, "items"):
                yield item
            after = text(page, "metadata", "continue")
            if not after:
                return

    async def _object(self, call: Call) -> Manifest:
        answer = await self._transport.send(call)
        raise_for(call, answer)
        return cast("Manifest", orjson.loads(answer.body))


def reference_to(manifest: Manifest) -> Reference:
    metadata = manifest["metadata"]
    return Reference(
        str(manifest["apiVersion"]), str(manifest["kind"]), str(metadata.get("namespace", "")), str(metadata["name"])
    )


def _address(manifest: Manifest) -> tuple[Kind, str, str]:
    metadata = manifest["metadata"]
    kind = kind_of(str(manifest["apiVersion"]), str(manifest["kind"]))
    return kind, str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _json(document: object) -> bytes:
    """Encode as an API server does when it patches: keys in order, and what HTML would read escaped.

    It compares the immutable data of a ControllerRevision byte by byte with what a patch of another field makes of it.
    """
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    for raw, escaped in _ESCAPED:
        text = text.replace(raw, escaped)
    return text
