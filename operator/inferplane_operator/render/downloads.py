"""Containers that bring a hub's files into a Pod, one a repository, and end before the engine starts.

They alone are given the token: an engine runs code of others (a model's, with `trustRemoteCode`) and needs no hub.
They come after the agent, a sidecar, which so can say what is waited for.
"""

from collections.abc import Mapping
from typing import Final

from inferplane_operator.render import names
from inferplane_operator.render.values import Manifest
from inferplane_operator.render.weights import CACHE_VOLUME, HUB_FOLDER, Download, HubAccess

PREFIX: Final = "fetch-"
CA_VOLUME: Final = "hub-ca"
CA_MOUNT: Final = "/etc/inferplane/hub-ca"
CA_FILE: Final = "ca.crt"


def download_container(
    download: Download, hub: HubAccess, *, image: str, program: tuple[str, ...], security: Mapping[str, object]
) -> Manifest:
    args = ["--repository", download.repository, "--cache", HUB_FOLDER]
    if download.revision:
        args += ["--revision", download.revision]
    if hub.endpoint:
        args += ["--endpoint", hub.endpoint]
    mounts = [{"name": CACHE_VOLUME, "mountPath": names.DEFAULT_MODEL_CACHE}]
    if hub.ca_bundle is not None:
        args += ["--ca-bundle", f"{CA_MOUNT}/{CA_FILE}"]
        mounts.append({"name": CA_VOLUME, "mountPath": CA_MOUNT})
    return {
        "name": f"{PREFIX}{download.name}",
        "image": image,
        "command": list(program),
        "args": args,
        "env": _environment(download),
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": dict(security),
        # The last lines say in words what is wrong: they become the container's message.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def ca_volumes(hub: HubAccess) -> list[Manifest]:
    """Return the volume that holds the certificates of a mirror, if there are any."""
    bundle = hub.ca_bundle
    if bundle is None:
        return []
    items = [{"key": bundle.key, "path": CA_FILE}]
    if bundle.config_map_name is not None:
        return [{"name": CA_VOLUME, "configMap": {"name": bundle.config_map_name, "items": items}}]
    return [{"name": CA_VOLUME, "secret": {"secretName": bundle.secret_name, "items": items}}]


def _environment(download: Download) -> list[Manifest]:
    env: list[Manifest] = [
        {"name": names.MODEL_CACHE, "value": names.DEFAULT_MODEL_CACHE},
        {"name": "HF_HOME", "value": names.ref(names.MODEL_CACHE)},
    ]
    if download.secret is None:
        return env
    key = {"name": download.secret, "key": "token"}
    return [*env, {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}}]
