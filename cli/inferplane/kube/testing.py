"""A cluster in memory that behaves as an API server does in what commands use: paths, selectors, patches, refusals."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from inferplane.cluster import APPLY_PATCH, JSON_PATCH, ClusterError, Object, Question, Reply, refusal
from inferplane.kube.fields import part

_BUILT_IN = (
    "/api/v1",
    "/apis/apps/v1",
    "/apis/policy/v1",
    "/apis/authorization.k8s.io/v1",
    "/apis/coordination.k8s.io/v1",
    "/apis/storage.k8s.io/v1",
    "/apis/apiextensions.k8s.io/v1",
    "/apis/node.k8s.io/v1",
    "/apis/admissionregistration.k8s.io/v1",
)
_OURS = "/apis/inferplane.dev/v1alpha1"
_PAGE = 2
"""Items on one page: few, so that every test turns pages."""


@dataclass
class FakeCluster:
    """Holds objects by path; what is no object, such as the version, is a document of its own."""

    served: set[str] = field(default_factory=lambda: {*_BUILT_IN, _OURS})
    documents: dict[str, Any] = field(default_factory=dict[str, Any])
    log_lines: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By the path of a log and its container, or of what a Pod serves."""
    forbidden: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(verb, plural) pairs that somebody may not do."""
    refused: dict[str, str] = field(default_factory=dict[str, str])
    """Path to the message with which a change is refused."""
    served_at: float | None = None
    written: list[Question] = field(default_factory=list[Question])
    """Every change asked for, dry runs included."""
    _objects: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _version: int = 100

    def add(self, plural: str, *objects: Object) -> "FakeCluster":
        for it in objects:
            stored = copy.deepcopy(dict(it))
            stored.setdefault("metadata", {}).setdefault("uid", f"uid-{plural}-{stored['metadata']['name']}")
            stored["metadata"].setdefault("resourceVersion", str(self._version))
            self._objects[self._path(plural, stored)] = stored
        return self

    def held(self, plural: str, name: str, namespace: str = "default") -> dict[str, Any]:
        return next(
            it
            for path, it in self._objects.items()
            if path.endswith((f"/namespaces/{namespace}/{plural}/{name}", f"1/{plural}/{name}"))
        )

    def remove(self, plural: str, name: str) -> None:
        self._objects = {path: it for path, it in self._objects.items() if not path.endswith(f"/{plural}/{name}")}

    def remove_all(self, plural: str) -> None:
        self._objects = {path: it for path, it in self._objects.items() if path.split("/")[-2] != plural}

    @staticmethod
    def _path(plural: str, it: Mapping[str, Any]) -> str:
        version = str(it["apiVersion"])
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        namespace = it["metadata"].get("namespace")
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{middle}/{plural}/{it['metadata']['name']}"

    def ask(self, question: Question) -> Reply:
        if question.path in self.documents:
            return self._reply(self.documents[question.path])
        self._require_served(question)
        verb = {"GET": "get", "POST": "create", "PATCH": "patch"}[question.method]
        if question.path.endswith("/selfsubjectaccessreviews"):
            return self._reply(self._review(cast("Mapping[str, Any]", question.body)))
        collection = self._is_collection(question.path)
        plural = self._plural(question.path)
        self._require_allowed("list" if verb == "get" and collection else verb, plural, question)
        if question.method == "GET":
            return self._reply(self._list(question) if collection else self._get(question))
        self.written.append(question)
        if question.path in self.refused:
            raise _error(question, 422, self.refused[question.path], "Invalid")
        return self._reply(self._patch(question))

    def lines(self, question: Question) -> Iterator[str]:
        if "/proxy/" in question.path:
            yield from self._proxied(question)
            return
        pod = question.path.removesuffix("/log")
        self._require_allowed("get", "pods/log", question)
        if pod not in self._objects:
            raise _absent(question, pod)
        found = self.log_lines.get(f"{question.path}?container={question.query.get('container', '')}", [])
        tail = question.query.get("tailLines")
        yield from found if tail is None else found[len(found) - min(int(tail), len(found)) :]

    def _proxied(self, question: Question) -> list[str]:
        self._require_allowed("get", "pods/proxy", question)
        if question.path not in self.log_lines:
            raise _error(question, 503, "error trying to reach service: dial tcp: i/o timeout", "ServiceUnavailable")
        return self.log_lines[question.path]

    def _reply(self, document: object) -> Reply:
        return Reply(json.loads(json.dumps(document)), self.served_at)

    def _require_served(self, question: Question) -> None:
        if not any(question.path.startswith(f"{root}/") for root in self.served):
            raise refusal(404, "404 page not found", question)

    def _require_allowed(self, verb: str, plural: str, question: Question) -> None:
        if (verb, plural) in self.forbidden:
            message = f'{plural} is forbidden: User "me" cannot {verb} resource "{plural}"'
            raise _error(question, 403, message, "Forbidden")

    @staticmethod
    def _parts(path: str) -> list[str]:
        parts = path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        return rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest  # noqa: PLR2004  namespaces, its name

    def _is_collection(self, path: str) -> bool:
        return len(self._parts(path)) == 1

    def _plural(self, path: str) -> str:
        plural, *rest = self._parts(path)
        return f"{plural}/{rest[1]}" if len(rest) > 1 else plural

    def _get(self, question: Question) -> object:
        found = self._objects.get(question.path)
        if found is None:
            raise _absent(question, question.path)
        if question.metadata_only:
            return {"kind": "PartialObjectMetadata", "metadata": found["metadata"]}
        return found

    def _list(self, question: Question) -> object:
        plural = self._plural(question.path)
        root, _, rest = question.path.partition("/namespaces/")
        within = f"{root}/namespaces/{rest}/" if rest else root.removesuffix(plural)
        found = [
            it
            for path, it in sorted(self._objects.items())
            if path.startswith(within) and path.split("/")[-2] == plural and _selected(it, question.query)
        ]
        start = int(question.query.get("continue", "0"))
        size = min(int(question.query.get("limit", "500")), _PAGE)
        following = {"continue": str(start + size)} if start + size < len(found) else {}
        kind = str(found[0]["kind"]) if found else "Thing"
        bare = [{key: value for key, value in it.items() if key not in ("apiVersion", "kind")} for it in found]
        return {"kind": f"{kind}List", "metadata": following, "items": bare[start : start + size]}

    def _patch(self, question: Question) -> object:
        path, _, sub = question.path.partition("/scale")
        if path not in self._objects and question.content_type != APPLY_PATCH:
            raise _absent(question, path)
        changed = copy.deepcopy(self._objects.get(path, {"metadata": {}}))
        if question.content_type == JSON_PATCH:
            _apply_operations(changed, cast("Sequence[Mapping[str, Any]]", question.body), question)
        else:
            _merge(changed, cast("Mapping[str, Any]", question.body))
        del sub  # the scale subresource's fields lie where ours lie
        if question.query.get("dryRun") != "All":
            self._version += 1
            changed["metadata"]["resourceVersion"] = str(self._version)
            self._objects[path] = changed
        return changed

    def _review(self, review: Mapping[str, Any]) -> object:
        asked = review["spec"]["resourceAttributes"]
        sub = asked.get("subresource")
        plural = f"{asked['resource']}/{sub}" if sub else asked["resource"]
        return {**review, "status": {"allowed": (asked["verb"], plural) not in self.forbidden}}


def _selected(it: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    labels = part(it, "metadata", "labels")
    wanted = [pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair]
    return all(labels.get(key) == value for key, value in wanted)


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a merge patch."""
    result = copy.deepcopy(dict(target))
    _merge(result, patch)
    return result


def _merge(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """RFC 7386."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping):
            below = target.get(key)
            target[key] = below if isinstance(below, dict) else {}
            _merge(target[key], cast("Mapping[str, Any]", value))
        else:
            target[key] = value


def _apply_operations(target: dict[str, Any], operations: Sequence[Mapping[str, Any]], question: Question) -> None:
    """RFC 6902, as far as it is used here: test and replace."""
    for operation in operations:
        *parents, last = str(operation["path"]).strip("/").split("/")
        place = target
        for key in parents:
            place = place[key]
        if operation["op"] == "test" and place[last] != operation["value"]:
            raise _error(question, 422, "the server rejected our request due to an error in our request", "Invalid")
        if operation["op"] == "replace":
            place[last] = operation["value"]


def _absent(question: Question, path: str) -> ClusterError:
    *_, plural, name = path.split("/")
    body = {
        "kind": "Status",
        "reason": "NotFound",
        "message": f'{plural} "{name}" not found',
        "details": {"name": name, "kind": plural},
    }
    return refusal(404, body, question)


def _error(question: Question, status: int, message: str, reason: str) -> ClusterError:
    return refusal(status, {"kind": "Status", "message": message, "reason": reason}, question)
