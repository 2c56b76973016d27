"""What an operator writes on the objects of a service and what others read there: labels, ports, container names.

Labels find and show objects; they prove nothing, since anyone who may create a Pod may write them.  Who belongs to
whom is decided by controller references.
"""

from typing import Final

OUR_PREFIX: Final = "inferplane.dev/"
LABEL_SERVICE: Final = "inferplane.dev/service"
LABEL_POOL: Final = "inferplane.dev/pool"
LABEL_ROLE: Final = "inferplane.dev/role"
LABEL_REVISION: Final = "inferplane.dev/revision"
LABEL_COMPONENT: Final = "inferplane.dev/component"
COMPONENT_WORKER: Final = "worker"

AGENT_CONTAINER: Final = "agent"
ENGINE_CONTAINER: Final = "engine"

HTTP_PORT_NAME: Final = "http"
STREAM_PORT_NAME: Final = "stream"
METRICS_PORT_NAME: Final = "metrics"
"""Names of the agent container's ports."""
DEFAULT_HTTP_PORT: Final = 8100
DEFAULT_STREAM_PORT: Final = 8101
DEFAULT_METRICS_PORT: Final = 9090
