"""The router's configuration file, as a mapping to be written as JSON or YAML."""

import math
from dataclasses import dataclass
from typing import Final

from inferplane_operator.render.values import Manifest

_CLOSING_S: Final = 15.0
"""From the end of a drain, or from its limit, to the end of the process."""


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Addresses are host:port (port 0: the system chooses), paths absolute, times in seconds."""

    cache_dir: str
    catalogue_file: str = ""
    """Empty: the router watches the cluster that it runs in."""
    namespace: str = ""
    """The only one that is watched; empty: all.  Not for a file."""
    http: str = "0.0.0.0:8000"
    grpc: str = "0.0.0.0:9000"
    metrics: str = "0.0.0.0:9090"
    report: str = ""
    """File to which the router writes the addresses it got; empty: none."""
    processes: int = 1
    """Gateway processes."""
    console: bool = False
    records: str = ""
    """Folder for what happens and is decided; empty: nothing is written."""
    trace_endpoint: str = ""
    """Where spans go; empty: nothing is traced."""
    trace_ratio: str = ""
    """Share of the requests that are traced, as the router reads it; empty: its own default."""
    drain_timeout_s: float = 30.0
    lame_duck_s: float = 0.0
    """How long connections are still taken after SIGTERM, in addition to the drain."""


def cluster_router(*, namespace: str = "", cache_dir: str = "/var/cache/inferplane") -> RouterSettings:
    """Return the settings of a router Pod: streams may take minutes, endpoints take seconds to hear of its end."""
    return RouterSettings(cache_dir, namespace=namespace, drain_timeout_s=600.0, lame_duck_s=5.0)


def router_config(settings: RouterSettings) -> Manifest:
    listen = {"http": settings.http, "grpc": settings.grpc, "metrics": settings.metrics}
    if settings.report:
        listen["report"] = settings.report
    config: Manifest = {
        "listen": listen,
        "discovery": _discovery(settings),
        "cacheDir": settings.cache_dir,
        "drainTimeoutS": settings.drain_timeout_s,
    }
    if settings.lame_duck_s:
        config["lameDuckS"] = settings.lame_duck_s
    if settings.processes > 1:
        config["processes"] = settings.processes
    if settings.console:
        config["console"] = True
    if settings.records:
        config["records"] = {"folder": settings.records}
    if settings.trace_endpoint:
        ratio = {"ratio": settings.trace_ratio} if settings.trace_ratio else {}
        config["tracing"] = {"endpoint": settings.trace_endpoint, **ratio}
    return config


def router_grace_period_s(settings: RouterSettings) -> int:
    """Return the least `terminationGracePeriodSeconds` with which a kubelet lets the router end by itself."""
    return math.ceil(settings.lame_duck_s + settings.drain_timeout_s + _CLOSING_S)


def _discovery(settings: RouterSettings) -> Manifest:
    if settings.catalogue_file:
        return {"file": settings.catalogue_file}
    return {"kubernetes": {"namespace": settings.namespace}}
