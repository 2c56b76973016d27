"""Names that a rendered Pod template is made of, shared with whoever runs it.

Variables: a template refers to addresses, ports and folders as `$(NAME)` only.  In Kubernetes the container's own
environment (rendered beside it) gives the values; a local runner overrides every name of `RUNNER_VARIABLES` with its
own and expands with `expansion.expand`, by the same rules.
"""

from typing import Final

AGENT_CONTAINER: Final = "agent"
ENGINE_CONTAINER: Final = "engine"

LABEL_SERVICE: Final = "inferplane.dev/service"
LABEL_POOL: Final = "inferplane.dev/pool"
LABEL_ROLE: Final = "inferplane.dev/role"
LABEL_REVISION: Final = "inferplane.dev/revision"
LABEL_COMPONENT: Final = "inferplane.dev/component"
OUR_PREFIX: Final = "inferplane.dev/"

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
ENGINE_PORT: Final = "INFERPLANE_ENGINE_PORT"
SIDE_CHANNEL_PORT: Final = "INFERPLANE_SIDE_CHANNEL_PORT"
"""First of one port per data-parallel rank; for SGLang the bootstrap's one port."""
RUN_DIR: Final = "INFERPLANE_RUN_DIR"
"""Memory-backed folder that agent and engine share: sockets, the start file, the agent's state.  Short: socket paths
are limited to about 100 bytes."""
MODEL_CACHE: Final = "INFERPLANE_MODEL_CACHE"
"""Hugging Face home, shared by agent and engine; locally the user's own cache."""

RUNNER_VARIABLES: Final = (
    WORKER_ID,
    NAMESPACE,
    ZONE,
    ADDRESS,
    BIND_HOST,
    HTTP_PORT,
    STREAM_PORT,
    METRICS_PORT,
    ENGINE_PORT,
    SIDE_CHANNEL_PORT,
    RUN_DIR,
    MODEL_CACHE,
)
"""Variables whose values a runner of templates may replace; anything else in `env` it takes as it is."""

DEFAULT_HTTP_PORT: Final = 8100
DEFAULT_STREAM_PORT: Final = 8101
DEFAULT_METRICS_PORT: Final = 9090
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
