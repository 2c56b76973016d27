"""The planner's configuration: one file, read once; errors name the path of the field."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from inferplane_runtime.logs import LogFormat, LogLevel
from inferplane_runtime.settings import SettingsError, from_mapping, parse_address, setting


@dataclass(frozen=True, slots=True)
class Flags:
    """Plans how many workers a service has."""

    config: Path = setting(help="configuration file, YAML or JSON")
    log_format: LogFormat = setting(help="logfmt, json or console", default=LogFormat.LOGFMT)
    log_level: LogLevel = setting(help="debug, info, warning or error", default=LogLevel.INFO)


@dataclass(frozen=True, slots=True)
class Listen:
    """Addresses as host:port; port 0 takes any free one."""

    health: str = setting(help="/health and /ready", default="127.0.0.1:8080", parse=parse_address)
    metrics: str = setting(help="/metrics", default="127.0.0.1:9090", parse=parse_address)


@dataclass(frozen=True, slots=True)
class Price:
    """What one device of a class costs per hour."""

    accelerator: str
    per_hour: float = setting(help="in a currency of your choice", minimum=0)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Where the timing profile of an accelerator class is, as JSON."""

    accelerator: str
    file: Path


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster is planned; the defaults are those of a Pod in it."""

    namespace: str = setting(help="the only one whose services are planned; empty: all", default="")
    kubeconfig: Path | None = None
    """Default: the Pod's service account, else the file that KUBECONFIG names, else ~/.kube/config."""
    context: str = setting(help="context of the kubeconfig; empty: its current one", default="")
    release_namespace: str = setting(help="where routers and Lease are; empty: the planner's own", default="")
    routers: str = setting(help="Service whose endpoints are the routers", default="inferplane-gateway")
    router_port: int = setting(help="port of their Router service", default=9000, minimum=1, maximum=65535)
    lease: str = setting(help="name of the Lease", default="inferplane-planner")


@dataclass(frozen=True, slots=True)
class PlannerConfig:
    """What is planned: exactly one of `local` and `kubernetes`."""

    local: Path | None = None
    """State folder of the instance on this machine that is planned."""
    kubernetes: ClusterSettings | None = None
    period_s: float = setting(help="time between two plans", default=15.0, minimum=0.5)
    listen: Listen = field(default_factory=Listen)
    decisions: Path | None = None
    """File to which each decision is appended with what it was made from, as JSON lines."""
    prices: tuple[Price, ...] = ()
    calibrations: tuple[Calibration, ...] = ()


def read_config(path: Path) -> PlannerConfig:
    """Read and check the file; every problem is a `SettingsError`."""
    try:
        document: object = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), f"is neither YAML nor JSON: {error}") from error
    config = from_mapping(PlannerConfig, document)
    if (config.local is None) == (config.kubernetes is None):
        raise SettingsError("local", "give either local (a state folder) or kubernetes (a cluster), and not both")
    return config
