"""Reads manifests: multi-document YAML in, typed resources out, every problem of the file at once.

Needs PyYAML (extra `operator`); components that only use the types do not import this module.
"""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from inferplane_api.v1alpha1.kinds import KINDS, Resource
from inferplane_api.v1alpha1.metadata import API_VERSION
from inferplane_api.v1alpha1.problems import Location, Problem, dotted, problems_of
from inferplane_api.v1alpha1.wire import FROM_OUTSIDE, RELATIVE_TO
from inferplane_api.v1alpha1.yaml_document import Document, DocumentError, read_documents


class ManifestError(Exception):
    """A manifest cannot be used; `problems` holds everything that is wrong with it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def load_manifests(text: str, *, relative_to: Path | None = None) -> tuple[Resource, ...]:
    """Parse and validate every document of `text`.  Raises ManifestError with all problems.

    With `relative_to`, the absolute folder of the file, a node's path may begin with "./" or "../"; the resource then
    holds the absolute path (see `dump_resource`).
    """
    try:
        documents = read_documents(text)
    except DocumentError as error:
        raise ManifestError((Problem(dotted(error.path), error.message, error.fix, error.line),)) from error
    if not documents:
        raise ManifestError((Problem("", "the file holds no resource", "add an InferenceService", 1),))
    resources: list[Resource] = []
    problems: list[Problem] = []
    for document in documents:
        try:
            resources.append(_resource(document.value, document, relative_to))
        except ManifestError as error:
            problems += error.problems
    problems += _duplicates(resources) if not problems else []
    if problems:
        raise ManifestError(tuple(problems))
    return tuple(resources)


def parse_resource(value: Mapping[str, Any]) -> Resource:
    """Validate one resource as an API server gives it.  Raises ManifestError with all problems."""
    return _resource(value, None, None)


def dump_resource(resource: Resource) -> dict[str, Any]:
    """Write a resource as it goes over the wire: camelCase, units in values, defaults left out."""
    body = resource.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _resource(value: object, document: Document | None, relative_to: Path | None) -> Resource:
    def line_of(location: Location) -> int | None:
        return document.line_of(location) if document is not None else None

    if not isinstance(value, Mapping):
        raise ManifestError((Problem("", "is not a mapping", "begin with apiVersion and kind", line_of(())),))
    fields = cast("Mapping[str, object]", value)
    if problems := _type_problems(fields, line_of(("apiVersion",)), line_of(("kind",))):
        raise ManifestError(problems)
    model = KINDS[str(fields["kind"])]
    context = {FROM_OUTSIDE: True, RELATIVE_TO: relative_to}
    try:
        # Strict, and so as an API server reads JSON: "3" is no number there.
        text = json.dumps(fields)
        return model.model_validate_json(text, strict=True, context=context, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ManifestError(problems_of(error, root=model, line_of=line_of)) from error


def _type_problems(value: Mapping[str, object], version_line: int | None, kind_line: int | None) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    version, kind = value.get("apiVersion"), value.get("kind")
    if version != API_VERSION:
        message = "is missing" if version is None else f"{version!r} is not known"
        problems.append(Problem("apiVersion", message, f"use {API_VERSION}", version_line))
    if not isinstance(kind, str) or kind not in KINDS:
        close = get_close_matches(str(kind), KINDS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        message = "is missing" if kind is None else f"{kind!r} is not a known kind"
        problems.append(Problem("kind", message, f"{hint}known kinds: {', '.join(KINDS)}", kind_line))
    return tuple(problems)


def _duplicates(resources: list[Resource]) -> list[Problem]:
    seen: set[tuple[str, str, str]] = set()
    problems: list[Problem] = []
    for resource in resources:
        key = (resource.kind, resource.metadata.namespace, resource.metadata.name)
        if key in seen:
            message = f"{resource.kind} {resource.metadata.namespace}/{resource.metadata.name} is given twice"
            problems.append(Problem("metadata.name", message, "rename or remove one of them"))
        seen.add(key)
    return problems
