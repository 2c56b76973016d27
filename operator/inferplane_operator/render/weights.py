"""How weights get into a Pod: volumes, mounts, environment, and the path that the engine is given.

A hub's files are downloaded by a container that ends before the engine starts (`downloads`), into a cache that engine
and agent see read-only; the engine asks no hub and gets the folder of one commit.  On a machine the engine reads the
hub itself, into the user's own cache.  Everything else is mounted read-only, a node's directory at its own path, so
that the same path is right in a local process.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inferplane_api.v1alpha1.model import ModelSpec
from inferplane_api.v1alpha1.source import CaBundle, ModelSource, WeightsCache
from inferplane_engine.launch.sim import BUILT_IN_MODEL
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.names import DEFAULT_MODEL_CACHE, MODEL_CACHE, RUN_DIR, ref
from inferplane_operator.render.values import Manifest

MODEL_MOUNT: Final = "/mnt/model"
DRAFT_MOUNT: Final = "/mnt/draft"
CACHE_VOLUME: Final = "model-cache"
HUB_FOLDER: Final = f"{ref(MODEL_CACHE)}/hub"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubAccess:
    """How a service's Pods reach a hub."""

    downloads: bool = True
    """False on a machine, whose engines download for themselves."""
    endpoint: str = ""
    """Mirror; empty: the library's own default."""
    ca_bundle: CaBundle | None = None
    cache: WeightsCache | None = None

    @property
    def volume(self) -> Manifest:
        if self.cache is None:
            return {"name": CACHE_VOLUME, "emptyDir": {}}
        if self.cache.claim_name is not None:
            return {"name": CACHE_VOLUME, "persistentVolumeClaim": {"claimName": self.cache.claim_name}}
        return {"name": CACHE_VOLUME, "hostPath": {"path": self.cache.host_path, "type": "DirectoryOrCreate"}}


@dataclass(frozen=True, slots=True)
class Download:
    """A repository that a Pod needs; `secret` names the Secret whose key `token` opens it."""

    name: str
    """What it is for: part of its container's name."""
    repository: str
    revision: str
    secret: str | None


@dataclass(frozen=True, slots=True)
class Weights:
    """Where one set of weights is; `path` is what the engine is told, `directory` where its files are."""

    path: str
    directory: str
    revision: str = ""
    """What the engine is told besides the path: "" where the path says it."""
    offline: bool = True
    volumes: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()
    env: tuple[Manifest, ...] = ()
    pull_secrets: tuple[Manifest, ...] = ()
    downloads: tuple[Download, ...] = ()


def model_weights(model: ModelSpec, revision: str, hub: HubAccess, *, built_in_directory: str) -> Weights:
    """Locate the weights of a service; without a source the model is built into the simulated engine."""
    if model.source is None:
        return Weights(path=BUILT_IN_MODEL, directory=built_in_directory)
    return source_weights(
        model.source, volume="model", mount=MODEL_MOUNT, secret=model.secret_ref, hub=hub, revision=revision
    )


def source_weights(
    source: ModelSource, *, volume: str, mount: str, secret: str | None, hub: HubAccess, revision: str = ""
) -> Weights:
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
    return _hub(source.hf or "", hub, Download(volume, source.hf or "", revision, secret))


def together(parts: Sequence[Weights]) -> Weights:
    """Join the needs of several weights; where they are is the first one's.  Raises RenderError."""
    return Weights(
        path=parts[0].path,
        directory=parts[0].directory,
        revision=parts[0].revision,
        offline=all(part.offline for part in parts),
        volumes=_unique([volume for part in parts for volume in part.volumes], "name"),
        mounts=_unique([mount for part in parts for mount in part.mounts], "mountPath"),
        env=_unique([variable for part in parts for variable in part.env], "name"),
        pull_secrets=_unique([secret for part in parts for secret in part.pull_secrets], "name"),
        downloads=tuple(download for part in parts for download in part.downloads),
    )


def _unique(entries: Sequence[Manifest], key: str) -> tuple[Manifest, ...]:
    kept: dict[str, Manifest] = {}
    for entry in entries:
        if kept.setdefault(entry[key], entry) != entry:
            raise RenderError(
                "spec.model", f"model and adapters need {entry[key]} in different ways", "give them different places"
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


def _hub(repository: str, hub: HubAccess, download: Download) -> Weights:
    # The hub's own layout: snapshots/COMMIT below it, refs/BRANCH name the commit.
    directory = f"{HUB_FOLDER}/models--{repository.replace('/', '--')}"
    home = {"name": "HF_HOME", "value": ref(MODEL_CACHE)}
    mount = {"name": CACHE_VOLUME, "mountPath": DEFAULT_MODEL_CACHE}
    if not hub.downloads:
        return Weights(
            repository, directory, download.revision, offline=False, volumes=(hub.volume,), mounts=(mount,), env=(home,)
        )
    pinned = f"{directory}/snapshots/{download.revision}" if _COMMIT.fullmatch(download.revision) else ""
    return Weights(
        path=pinned or repository,
        directory=pinned or directory,
        revision="" if pinned else download.revision,
        volumes=(hub.volume,),
        mounts=({**mount, "readOnly": True},),
        # A model's own code is copied before it runs, which a cache that cannot be written would not take.
        env=(home, {"name": "HF_MODULES_CACHE", "value": f"{ref(RUN_DIR)}/hf-modules"}),
        downloads=(download,),
    )
