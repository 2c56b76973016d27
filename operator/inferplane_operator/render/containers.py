"""The two containers of a worker: the agent, a native sidecar, and the engine, from an unmodified image.

The engine container's command is in two parts.  `command` is a shell prelude that marks the start in a file that the
agent watches (a container that is restarted is a new engine with an empty cache) and lets the agent's group use the
sockets that the engine makes; it then becomes `args`: the program (`vllm serve`) and its arguments.  Another
interpreter is put in through `RenderOptions.engine_programs`, not by editing the template.

Drain: a kubelet runs preStop hooks of all containers at once and signals only when they have returned, so it is the
*engine's* hook that calls the agent's blocking /drain.  The agent, a sidecar, ends after the engine.

Start: the agent has no start-up probe, since a kubelet would hold the engine back for it, and neither needs the other
to begin with.  The engine's probe waits inside for the engine, so that its end is seen at once at the price of one
process in eight seconds; one that only looked, every second, would cost a loading engine the CPU of ten.  Its period
is short all the same: a kubelet's first look comes before the container, and the second a period later.
"""

import math
from typing import Final

from inferplane_api.v1alpha1.engine import EngineSpec, EngineType
from inferplane_engine.launch import Launch
from inferplane_operator.render import names
from inferplane_operator.render.values import Manifest
from inferplane_operator.render.weights import Weights

_PRELUDE: Final = 'umask 0002 && date > "$0" && exec "$@"'
_HOOK_MARGIN_S: Final = 5
_STARTUP_PERIOD_S: Final = 1
_STARTUP_WAIT_S: Final = 8
"""How long one probe waits for the engine; the next one follows at once."""
_STARTING_S: Final = 60
"""For how long nobody asks whether an agent lives: on a machine that others keep busy it takes that long to begin."""
_AGENT_USER: Final = 65532
RUN_VOLUME: Final = "run"
SHM_VOLUME: Final = "shm"

_DRAIN: Final = (
    "import os, urllib.request as u; "
    "u.urlopen(u.Request('http://127.0.0.1:' + os.environ['{port}'] + '/drain', method='POST'), timeout={timeout})"
)
_HEALTH: Final = (
    "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ['{port}'] + '/health', timeout=8)"
)
_AWAITED_HEALTH: Final = """\
import os, time, urllib.request as u
end = time.monotonic() + {wait}
while True:
    try:
        u.urlopen('http://127.0.0.1:' + os.environ['{port}'] + '/health', timeout=8)
        break
    except OSError:
        if time.monotonic() > end: raise
        time.sleep(0.2)
"""


def environment(engine: EngineType) -> list[Manifest]:
    """Return the variables that both containers have; the order matters, later ones may refer to earlier ones."""
    fields = (
        (names.WORKER_ID, "metadata.name"),
        (names.NAMESPACE, "metadata.namespace"),
        (names.ADDRESS, "status.podIP"),
        (names.ZONE, "metadata.labels['topology.kubernetes.io/zone']"),
    )
    values = (
        (names.BIND_HOST, "0.0.0.0"),  # noqa: S104 - other Pods have to reach the agent
        (names.HTTP_PORT, str(names.DEFAULT_HTTP_PORT)),
        (names.STREAM_PORT, str(names.DEFAULT_STREAM_PORT)),
        (names.METRICS_PORT, str(names.DEFAULT_METRICS_PORT)),
        (names.ENGINE_PORT, str(names.DEFAULT_ENGINE_PORT)),
        (names.SIDE_CHANNEL_PORT, str(first_transfer_port(engine))),
        (names.RUN_DIR, names.DEFAULT_RUN_DIR),
        (names.MODEL_CACHE, names.DEFAULT_MODEL_CACHE),
    )
    return [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields),
        *({"name": name, "value": value} for name, value in values),
    ]


def first_transfer_port(engine: EngineType) -> int:
    return names.DEFAULT_BOOTSTRAP_PORT if engine is EngineType.SGLANG else names.DEFAULT_SIDE_CHANNEL_PORT


def agent_container(
    *, image: str, program: tuple[str, ...], args: tuple[str, ...], weights: Weights, engine: EngineType
) -> Manifest:
    """Make the sidecar; the engine starts a moment after it, and neither waits for the other."""
    return {
        "name": names.AGENT_CONTAINER,
        "image": image,
        "restartPolicy": "Always",
        "command": list(program),
        "args": list(args),
        "env": environment(engine),
        "ports": [
            _port("http", names.DEFAULT_HTTP_PORT),
            _port("stream", names.DEFAULT_STREAM_PORT),
            _port("metrics", names.DEFAULT_METRICS_PORT),
        ],
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": "http"},
            "periodSeconds": 1,
            "timeoutSeconds": 2,
            "failureThreshold": 5,
        },
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": "http"},
            "initialDelaySeconds": _STARTING_S,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "resources": {
            "requests": {"cpu": "250m", "memory": "256Mi"},
            "limits": {"memory": "1Gi"},
        },
        "securityContext": own_security(),
        "volumeMounts": [_run_mount(), *weights.mounts],
    }


def engine_container(
    *,
    image: str,
    spec: EngineSpec,
    launch: Launch,
    weights: Weights,
    resources: Manifest,
    ranks: int,
    drain_timeout_s: float,
) -> Manifest:
    """Make the engine; `weights` are the model's and the adapters', `ranks` of them transfer and have a port each."""
    first = first_transfer_port(spec.type)
    ports = [_port(f"kv-{rank}", first + rank) for rank in range(ranks)]
    container: Manifest = {
        "name": names.ENGINE_CONTAINER,
        "image": image,
        "command": ["/bin/sh", "-c", _PRELUDE, names.START_FILE],
        "args": list(launch.argv),
        "env": [*environment(spec.type), *weights.env, *({"name": name, "value": value} for name, value in launch.env)],
        "resources": resources,
        "lifecycle": {"preStop": {"exec": {"command": _drain_command(drain_timeout_s)}}},
        **_engine_probes(spec.startup_timeout_s),
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [_run_mount(), {"name": SHM_VOLUME, "mountPath": "/dev/shm"}, *weights.mounts],  # noqa: S108 - the Pod's own shared memory
    }
    return {**container, "ports": ports} if ports else container


def own_security() -> Manifest:
    """Return what our own programs may do: nothing but run."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _AGENT_USER,
        "runAsGroup": _AGENT_USER,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def pod_security() -> Manifest:
    """Let the agent's group own the shared folder, so that it can use the sockets of an engine that runs as root."""
    return {
        "fsGroup": _AGENT_USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _drain_command(drain_timeout_s: float) -> list[str]:
    # Every engine's image has Python; not every one has curl.
    timeout = math.ceil(drain_timeout_s) + _HOOK_MARGIN_S
    return ["python3", "-c", _DRAIN.format(port=names.HTTP_PORT, timeout=timeout)]


def _engine_probes(startup_timeout_s: float) -> Manifest:
    tries = max(1, math.ceil(startup_timeout_s / _STARTUP_WAIT_S))
    return {
        "startupProbe": {
            **_engine_probe(_AWAITED_HEALTH),
            "periodSeconds": _STARTUP_PERIOD_S,
            "timeoutSeconds": 2 * _STARTUP_WAIT_S + 4,
            "failureThreshold": tries,
        },
        "livenessProbe": {**_engine_probe(_HEALTH), "periodSeconds": 30, "timeoutSeconds": 10, "failureThreshold": 4},
    }


def _engine_probe(program: str) -> Manifest:
    # The engine listens on the Pod's loopback, which a kubelet's HTTP probe cannot reach.
    return {"exec": {"command": ["python3", "-c", program.format(port=names.ENGINE_PORT, wait=_STARTUP_WAIT_S)]}}


def _run_mount() -> Manifest:
    return {"name": RUN_VOLUME, "mountPath": names.DEFAULT_RUN_DIR}


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "containerPort": number, "protocol": "TCP"}
