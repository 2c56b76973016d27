"""Where weights come from: exactly one of a hub, a volume claim, a directory or an OCI image."""

import os
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from inferplane_api.v1alpha1.metadata import DnsSubdomain
from inferplane_api.v1alpha1.wire import FORM, RELATIVE_TO, Finding, WireModel, invalid


def _absolute(value: str, info: ValidationInfo) -> str:
    folder = info.context.get(RELATIVE_TO) if info.context else None
    if folder is not None and value.startswith(("./", "../")):
        return os.path.normpath(os.path.join(folder, value))  # noqa: PTH118 - a pure computation on text
    if not value.startswith("/") or ".." in value.split("/"):
        raise invalid(Finding("", f"{value!r} is not an absolute path", 'begin with "/" and leave out ".."'))
    if not value.strip("/."):
        raise invalid(Finding("", f"{value!r} is the root of the file system", "name a directory in it"))
    return value


def _relative(value: str) -> str:
    if value.startswith("/") or ".." in value.split("/"):
        raise invalid(Finding("", f"{value!r} leaves the volume", 'give a path inside the volume, without ".."'))
    return value


AbsolutePath = Annotated[
    str, Field(max_length=4096, json_schema_extra={FORM: "absolute-path"}), AfterValidator(_absolute)
]
RelativePath = Annotated[
    str, Field(max_length=4096, json_schema_extra={FORM: "relative-path"}), AfterValidator(_relative)
]


class PvcSource(WireModel):
    claim_name: DnsSubdomain = Field(description="PersistentVolumeClaim in the same namespace, mounted read-only.")
    path: RelativePath = Field(default="", description="Directory of the weights inside the volume.")


class ModelSource(WireModel):
    """Exactly one field is set."""

    hf: str | None = Field(
        default=None,
        max_length=256,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+$",
        description="Hugging Face repository, owner/name.",
    )
    pvc: PvcSource | None = Field(default=None, description="A PersistentVolumeClaim that holds the weights.")
    path: AbsolutePath | None = Field(
        default=None, description="Absolute directory on the node (or, locally, on this machine)."
    )
    oci: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="OCI image or artifact that holds the weights, mounted as a volume.",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in ("hf", "pvc", "path", "oci") if getattr(self, name) is not None]
        if len(given) != 1:
            found = "none is given" if not given else f"{' and '.join(given)} are given"
            raise invalid(Finding("", f"exactly one source is needed, {found}", "keep one of hf, pvc, path, oci"))
        return self


class WeightsCache(WireModel):
    """A folder that Pods share; exactly one field is set."""

    claim_name: DnsSubdomain | None = Field(
        default=None, description="PersistentVolumeClaim in the same namespace, one that many Pods may mount."
    )
    host_path: AbsolutePath | None = Field(
        default=None, description="Absolute directory on each node, writable for group 65532."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.claim_name is None) == (self.host_path is None):
            raise invalid(Finding("", "exactly one place is needed", "set claimName or hostPath"))
        return self


class CaBundle(WireModel):
    """Certificates in PEM, from exactly one ConfigMap or Secret of the same namespace."""

    config_map_name: DnsSubdomain | None = Field(default=None, description="ConfigMap that holds them.")
    secret_name: DnsSubdomain | None = Field(default=None, description="Secret that holds them.")
    key: str = Field(
        default="ca.crt", min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$", description="Key within it."
    )

    @model_validator(mode="after")
    def _one_object(self) -> Self:
        if (self.config_map_name is None) == (self.secret_name is None):
            raise invalid(Finding("", "exactly one object is needed", "set configMapName or secretName"))
        return self
