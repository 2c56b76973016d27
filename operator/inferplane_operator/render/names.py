"""Names that a rendered Pod template is made of, shared with whoever runs it.

Variables: a template refers to addresses, ports and folders as `$(NAME)` only.  In Kubernetes the container's own
environment (rendered beside it) gives the values; a local runner overrides every name of `RUNNER_VARIABLES` with its
own and expands with `expansion.expand`, by the same rules.
"""

from typing import Final

from inferplane_api import workload

AGENT_CONTAINER: Final = workload.AGENT_CONTAINER
ENGINE_CONTAINER: Final = workload.ENGINE_CONTAINER

LABEL_SERVICE: Final = workload.LABEL_SERVICE
LABEL_POOL: Final = workload.LABEL_POOL
LABEL_ROLE: Final = workload.LABEL_ROLE
LABEL_REVISION: Final = workload.LABEL_REVISION
LABEL_COMPONENT: Final = workload.LABEL_COMPONENT
OUR_PREFIX: Final = workload.OUR_PREFIX

WORKER_ID: Final = "INFERPLANE_POD_NAME"
"""Name of the worker: the Pod's name."""
NAMESPACE: Final = "INFERPLANE_NAMESPACE"
ZONE: Final = "INFERPLANE_ZONE"
ADDRESS: Final = "INFERPLANE_POD_IP"
"""Address at which other workers reach this one."""
BIND_HOST: Final = "INFERPLANE_BIND_HOST"
"""Address on which the agent listens."""
HTTP_PORT: Final = "INFERPLANE_HTTP_PORT"
STREAM_PORT: Final = "INFERPLANE_STREAM_PORT"
METRICS_PORT: Final = "INFERPLANE_METRICS_PORT"
CONTROL_PORT: Final = "INFERPLANE_CONTROL_PORT"
"""Where the operator loads adapters; only workers that may have some listen there."""
ENGINE_PORT: Final = "INFERPLANE_ENGINE_PORT"
SIDE_CHANNEL_PORT: Final = "INFERPLANE_SIDE_CHANNEL_PORT"
"""First of one port per data-parallel rank; for SGLang the bootstrap's one port."""
RUN_DIR: Final = "INFERPLANE_RUN_DIR"
"""Memory-backed folder that agent and engine share: sockets, the start file, the agent's state.  Short: socket paths
are limited to about 100 bytes."""
MODEL_CACHE: Final = "INFERPLANE_MODEL_CACHE"
"""Hugging Face home, shared by agent and engine; locally the user's own cache."""

KV_SOCKET: Final = "INFERPLANE_KV_SOCKET"
"""Where the node's KV store listens; only workers that have one know it."""
KV_SECRET: Final = "INFERPLANE_KV_SECRET"  # noqa: S105 - a name
"""File with the secret that keys its checksums."""
KV_PATH: Final = "INFERPLANE_KV_PATH"
"""Folder with the store's connector, for the engine's Python."""

RUNNER_VARIABLES: Final = (
    WORKER_ID,
    NAMESPACE,
    ZONE,
    ADDRESS,
    BIND_HOST,
    HTTP_PORT,
    STREAM_PORT,
    METRICS_PORT,
    CONTROL_PORT,
    ENGINE_PORT,
    SIDE_CHANNEL_PORT,
    RUN_DIR,
    MODEL_CACHE,
    KV_SOCKET,
    KV_SECRET,
    KV_PATH,
)
"""Variables whose values a runner of templates may replace; anything else in `env` it takes as it is."""

DEFAULT_HTTP_PORT: Final = workload.DEFAULT_HTTP_PORT
DEFAULT_STREAM_PORT: Final = workload.DEFAULT_STREAM_PORT
DEFAULT_METRICS_PORT: Final = workload.DEFAULT_METRICS_PORT
DEFAULT_CONTROL_PORT: Final = 8102
DEFAULT_ENGINE_PORT: Final = 8200
DEFAULT_SIDE_CHANNEL_PORT: Final = 5600
DEFAULT_BOOTSTRAP_PORT: Final = 8998
"""Where SGLang's prefill engines are looked up, in place of a side channel."""
DEFAULT_RUN_DIR: Final = "/run/inferplane"
DEFAULT_MODEL_CACHE: Final = "/var/cache/inferplane/models"


def ref(name: str) -> str:
    """Return the reference that is expanded to the variable's value."""
    return f"$({name})"


START_FILE: Final = f"{ref(RUN_DIR)}/engine-start"
EVENTS_ENDPOINT: Final = f"ipc://{ref(RUN_DIR)}/inproc-kv-events"
"""vLLM derives the endpoints of further data-parallel ranks from names that hold "inproc" (see the launch module)."""
REPLAY_ENDPOINT: Final = f"ipc://{ref(RUN_DIR)}/inproc-kv-replay"
