"""A need for adapters, put into a Pod: volumes for the engine, a control port and a writable cache for the agent."""

from collections.abc import Sequence
from typing import Final

from inferplane_operator.render import names
from inferplane_operator.render.adapter_need import AdapterNeed, Place, PlaceKind
from inferplane_operator.render.downloads import CA_FILE, CA_MOUNT, CA_VOLUME
from inferplane_operator.render.names import ref
from inferplane_operator.render.values import Manifest
from inferplane_operator.render.weights import CACHE_VOLUME, HUB_FOLDER, HubAccess, Weights

CONTROL_PORT_NAME: Final = "control"


def with_places(weights: Weights, need: AdapterNeed | None, hub: HubAccess) -> Weights:
    """Add the places that engines read adapters from."""
    if need is None:
        return weights
    mounted = {mount["mountPath"] for mount in weights.mounts}
    volumes, mounts = list(weights.volumes), list(weights.mounts)
    for place in need.places:
        if place.kind is PlaceKind.HUB:
            volumes += [] if hub.volume in volumes else [hub.volume]
        else:
            volumes += [] if place.mount in mounted else [_volume(place)]
        mounts += [mount for mount in _engine_mounts(place) if mount["mountPath"] not in mounted]
    pulls = [{"name": place.pull_secret} for place in need.places if place.pull_secret]
    return Weights(
        path=weights.path,
        directory=weights.directory,
        revision=weights.revision,
        offline=weights.offline,
        volumes=tuple(volumes),
        mounts=tuple(mounts),
        env=weights.env,
        pull_secrets=(*weights.pull_secrets, *(pull for pull in pulls if pull not in weights.pull_secrets)),
        downloads=weights.downloads,
    )


def with_control(agent: Manifest, need: AdapterNeed | None, hub: HubAccess) -> Manifest:
    """Let the operator load adapters through the agent, and the agent download them."""
    if need is None:
        return agent
    port = str(names.DEFAULT_CONTROL_PORT)
    return {
        **agent,
        "args": [*agent["args"], *_arguments(need, hub)],
        "env": [*agent["env"], {"name": names.CONTROL_PORT, "value": port}],
        "ports": [
            *agent["ports"],
            {"name": CONTROL_PORT_NAME, "containerPort": names.DEFAULT_CONTROL_PORT, "protocol": "TCP"},
        ],
        "volumeMounts": _agent_mounts(agent["volumeMounts"], need, hub),
    }


def _arguments(need: AdapterNeed, hub: HubAccess) -> list[str]:
    args = ["--listen-control", f"{ref(names.BIND_HOST)}:{ref(names.CONTROL_PORT)}"]
    args += ["--max-adapters", str(need.max_adapters), "--max-adapter-rank", str(need.max_rank)]
    for place in need.places:
        if place.kind in (PlaceKind.FOLDER, PlaceKind.CLAIM, PlaceKind.IMAGE):
            args += ["--adapter-root", place.mount]
    if need.from_hub:
        args += ["--adapter-cache", HUB_FOLDER]
        args += ["--hub-endpoint", hub.endpoint] if hub.endpoint else []
        args += ["--hub-ca", f"{CA_MOUNT}/{CA_FILE}"] if hub.ca_bundle is not None else []
    return args


def _agent_mounts(given: Sequence[Manifest], need: AdapterNeed, hub: HubAccess) -> list[Manifest]:
    tokens = [_mount(place) for place in need.places if place.kind is PlaceKind.TOKEN]
    if not need.from_hub:
        return [*given, *tokens]
    others = [mount for mount in given if mount["name"] not in (CACHE_VOLUME, CA_VOLUME)]
    cache = {"name": CACHE_VOLUME, "mountPath": names.DEFAULT_MODEL_CACHE}
    trusted = [{"name": CA_VOLUME, "mountPath": CA_MOUNT}] if hub.ca_bundle is not None else []
    return [*others, cache, *trusted, *tokens]


def _engine_mounts(place: Place) -> list[Manifest]:
    if place.kind is PlaceKind.TOKEN:
        return []
    if place.kind is PlaceKind.HUB:
        return [{"name": CACHE_VOLUME, "mountPath": names.DEFAULT_MODEL_CACHE, "readOnly": True}]
    return [_mount(place)]


def _mount(place: Place) -> Manifest:
    return {"name": place.volume, "mountPath": place.mount, "readOnly": True}


def _volume(place: Place) -> Manifest:
    match place.kind:
        case PlaceKind.FOLDER:
            return {"name": place.volume, "hostPath": {"path": place.source, "type": "Directory"}}
        case PlaceKind.CLAIM:
            return {"name": place.volume, "persistentVolumeClaim": {"claimName": place.source, "readOnly": True}}
        case PlaceKind.IMAGE:
            return {"name": place.volume, "image": {"reference": place.source, "pullPolicy": "IfNotPresent"}}
        case _:
            items = [{"key": "token", "path": "token"}]
            return {"name": place.volume, "secret": {"secretName": place.source, "items": items}}
