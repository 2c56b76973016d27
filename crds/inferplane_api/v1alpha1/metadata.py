"""Object metadata by Kubernetes' rules, so that a file accepted locally is accepted by an API server too."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, WithJsonSchema

from inferplane_api.v1alpha1.wire import Finding, WireModel, invalid

GROUP: Final = "inferplane.dev"
API_VERSION: Final = "inferplane.dev/v1alpha1"

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_LENGTH: Final = 63
_PREFIX_LENGTH: Final = 253
_ANNOTATIONS_BYTES: Final = 256 * 1024


def _dns_label(value: str) -> str:
    if len(value) > _LABEL_LENGTH or not _LABEL.fullmatch(value):
        raise invalid(
            Finding(
                "",
                f"{value[:80]!r} is not a DNS label",
                "use lower-case letters, digits and '-', begin and end with a letter or digit, at most 63 characters",
            )
        )
    return value


def _dns_subdomain(value: str) -> str:
    if len(value) > _PREFIX_LENGTH or not all(_LABEL.fullmatch(part) for part in value.split(".")):
        raise invalid(
            Finding(
                "",
                f"{value[:80]!r} is not a DNS subdomain",
                "use lower-case letters, digits, '-' and '.', begin and end with a letter or digit, "
                "at most 253 characters",
            )
        )
    return value


def _qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _PREFIX_LENGTH or not all(_LABEL.fullmatch(part) for part in prefix.split("."))):
        return False
    return len(name) <= _LABEL_LENGTH and bool(_QUALIFIED.fullmatch(name))


def _labels(value: dict[str, str]) -> dict[str, str]:
    findings = [
        Finding(key, f"{key!r} is not a label key", "use [prefix/]name, such as example.com/team")
        for key in value
        if not _qualified(key)
    ]
    findings += [
        Finding(key, f"{text[:80]!r} is not a label value", "use at most 63 letters, digits, '-', '_' and '.'")
        for key, text in value.items()
        if text and (len(text) > _LABEL_LENGTH or not _QUALIFIED.fullmatch(text))
    ]
    if findings:
        raise invalid(*findings)
    return value


def _annotations(value: dict[str, str]) -> dict[str, str]:
    findings = [
        Finding(key, f"{key!r} is not an annotation key", "use [prefix/]name, such as example.com/owner")
        for key in value
        if not _qualified(key)
    ]
    size = sum(len(key.encode()) + len(text.encode()) for key, text in value.items())
    if size > _ANNOTATIONS_BYTES:
        findings.append(Finding("", f"annotations take {size} bytes", "keep them under 256 KiB in all"))
    if findings:
        raise invalid(*findings)
    return value


DnsLabel = Annotated[
    str,
    AfterValidator(_dns_label),
    WithJsonSchema({"type": "string", "maxLength": _LABEL_LENGTH, "pattern": rf"^{_LABEL.pattern}$"}),
]
DnsSubdomain = Annotated[
    str,
    AfterValidator(_dns_subdomain),
    WithJsonSchema(
        {"type": "string", "maxLength": _PREFIX_LENGTH, "pattern": rf"^{_LABEL.pattern}(\.{_LABEL.pattern})*$"}
    ),
]
Labels = Annotated[dict[str, str], AfterValidator(_labels)]
Annotations = Annotated[dict[str, str], AfterValidator(_annotations)]


class OwnerReference(WireModel):
    api_version: str = Field(description="API group and version of the owner.")
    kind: str = Field(description="Kind of the owner.")
    name: str = Field(description="Name of the owner.")
    uid: str = Field(description="UID of the owner.")
    controller: bool = Field(default=False, description="Whether the owner manages this object.")
    block_owner_deletion: bool = Field(default=False, description="Whether the owner waits for this object's deletion.")


class ObjectMeta(WireModel):
    """What Kubernetes keeps about every object; in a file only name, namespace, labels and annotations are written."""

    name: DnsSubdomain = Field(description="Unique within its kind and namespace; a DNS-1123 name.")
    namespace: DnsLabel = Field(default="default", description="Namespace; a DNS-1123 label.")
    labels: Labels = Field(default_factory=dict, description="Selectable key-value pairs.")
    annotations: Annotations = Field(default_factory=dict, description="Free key-value pairs.")
    generation: int = Field(default=0, ge=0, description="Rises with every change of the spec; set by the server.")
    uid: str = Field(default="", description="Identity across names; set by the server.")
    resource_version: str = Field(default="", description="Version of this object; set by the server.")
    creation_timestamp: str | None = Field(default=None, description="RFC 3339; set by the server.")
    deletion_timestamp: str | None = Field(default=None, description="RFC 3339; set when deletion was asked for.")
    deletion_grace_period_seconds: int | None = Field(default=None, ge=0, description="Seconds; set by the server.")
    generate_name: str = Field(default="", description="Prefix of a generated name.")
    self_link: str = Field(default="", description="Set by old servers.")
    finalizers: tuple[str, ...] = Field(default=(), description="Set by whoever must act before deletion.")
    owner_references: tuple[OwnerReference, ...] = Field(default=(), description="Objects this one goes away with.")
    managed_fields: tuple[dict[str, object], ...] = Field(default=(), description="Who owns which field.")
