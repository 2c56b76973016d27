"""The router's configuration file, as a mapping to be written as JSON or YAML."""

from dataclasses import dataclass

from inferplane_operator.render.values import Manifest


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Addresses are host:port (port 0: the system chooses), paths absolute, times in seconds."""

    catalogue_file: str
    cache_dir: str
    http: str = "0.0.0.0:8000"
    grpc: str = "0.0.0.0:9000"
    metrics: str = "0.0.0.0:9090"
    report: str = ""
    """File to which the router writes the addresses it got; empty: none."""
    drain_timeout_s: float = 30.0


def router_config(settings: RouterSettings) -> Manifest:
    listen = {"http": settings.http, "grpc": settings.grpc, "metrics": settings.metrics}
    if settings.report:
        listen["report"] = settings.report
    return {
        "listen": listen,
        "discovery": {"file": settings.catalogue_file},
        "cacheDir": settings.cache_dir,
        "drainTimeoutS": settings.drain_timeout_s,
    }
