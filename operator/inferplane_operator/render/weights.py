"""How weights get into a Pod: volumes, mounts, environment, and the path that the engine is given.

A hub is read by the engine itself into a cache that the agent shares; everything else is mounted read-only, a node's
directory at its own path, so that the same path is right in a local process.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inferplane_api.v1alpha1.model import ModelSpec
from inferplane_api.v1alpha1.source import ModelSource
from inferplane_engine.launch.sim import BUILT_IN_MODEL
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.names import DEFAULT_MODEL_CACHE, MODEL_CACHE, ref
from inferplane_operator.render.values import Manifest

MODEL_MOUNT: Final = "/mnt/model"
ADAPTER_MOUNT: Final = "/mnt/adapters"
CACHE_VOLUME: Final = "model-cache"


@dataclass(frozen=True, slots=True)
class Weights:
    """Where one set of weights is; `path` is what the engine is told, `directory` where its files are."""

    path: str
    directory: str
    offline: bool = True
    volumes: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()
    env: tuple[Manifest, ...] = ()
    pull_secrets: tuple[Manifest, ...] = ()


def model_weights(model: ModelSpec, built_in_directory: str) -> Weights:
    """Locate the weights of a service; without a source the model is built into the simulated engine."""
    if model.source is None:
        return Weights(path=BUILT_IN_MODEL, directory=built_in_directory)
    return source_weights(model.source, volume="model", mount=MODEL_MOUNT, secret=model.secret_ref)


def source_weights(source: ModelSource, *, volume: str, mount: str, secret: str | None) -> Weights:
    if source.path is not None:
        host = {"path": source.path, "type": "Directory"}
        return _mounted(source.path, volume, source.path, {"hostPath": host})
    if source.pvc is not None:
        claim = {"claimName": source.pvc.claim_name, "readOnly": True}
        inside = f"{mount}/{source.pvc.path}".rstrip("/")
        return _mounted(inside, volume, mount, {"persistentVolumeClaim": claim})
    if source.oci is not None:
        image = {"reference": source.oci, "pullPolicy": "IfNotPresent"}
        pull = ({"name": secret},) if secret else ()
        return _mounted(mount, volume, mount, {"image": image}, pull)
    return _hub(source.hf or "", secret)


def together(parts: Sequence[Weights]) -> Weights:
    """Join the needs of several weights; `path` and `directory` are the first one's.  Raises RenderError."""
    return Weights(
        path=parts[0].path,
        directory=parts[0].directory,
        offline=all(part.offline for part in parts),
        volumes=_unique([volume for part in parts for volume in part.volumes], "name"),
        mounts=_unique([mount for part in parts for mount in part.mounts], "mountPath"),
        env=_unique([variable for part in parts for variable in part.env], "name"),
        pull_secrets=_unique([secret for part in parts for secret in part.pull_secrets], "name"),
    )


def _unique(entries: Sequence[Manifest], key: str) -> tuple[Manifest, ...]:
    kept: dict[str, Manifest] = {}
    for entry in entries:
        if kept.setdefault(entry[key], entry) != entry:
            raise RenderError(
                "spec.model", f"model and adapters need {entry[key]} in different ways", "use one Secret for all hubs"
            )
    return tuple(kept.values())


def _mounted(path: str, volume: str, mount: str, content: Manifest, pull_secrets: tuple[Manifest, ...] = ()) -> Weights:
    return Weights(
        path=path,
        directory=path,
        volumes=({"name": volume, **content},),
        mounts=({"name": volume, "mountPath": mount, "readOnly": True},),
        pull_secrets=pull_secrets,
    )


def _hub(repository: str, secret: str | None) -> Weights:
    token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "token"}}}
    return Weights(
        path=repository,
        # The hub's own layout: snapshots/COMMIT below it, refs/BRANCH name the commit.
        directory=f"{ref(MODEL_CACHE)}/hub/models--{repository.replace('/', '--')}",
        offline=False,
        volumes=({"name": CACHE_VOLUME, "emptyDir": {}},),
        mounts=({"name": CACHE_VOLUME, "mountPath": DEFAULT_MODEL_CACHE},),
        env=({"name": "HF_HOME", "value": ref(MODEL_CACHE)}, *((token,) if secret else ())),
    )
