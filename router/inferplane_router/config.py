"""The router's configuration: one file, read once; errors name the path of the field."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from inferplane_runtime.http.api import Limits
from inferplane_runtime.logs import LogFormat, LogLevel
from inferplane_runtime.settings import SettingsError, from_mapping, parse_address, setting
from inferplane_runtime.tracing.config import Tracing

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_LABEL: Final = 63


@dataclass(frozen=True, slots=True)
class Flags:
    """HTTP gateway, Router service and worker streams."""

    config: Path = setting(help="configuration file, YAML or JSON")
    log_format: LogFormat = setting(help="logfmt, json or console", default=LogFormat.LOGFMT)
    log_level: LogLevel = setting(help="debug, info, warning or error", default=LogLevel.INFO)


@dataclass(frozen=True, slots=True)
class Listen:
    """Addresses as host:port; port 0 takes any free one."""

    http: str = setting(help="OpenAI surface", default="127.0.0.1:8000", parse=parse_address)
    grpc: str = setting(help="Router service", default="127.0.0.1:9000", parse=parse_address)
    metrics: str = setting(help="/metrics", default="127.0.0.1:9090", parse=parse_address)
    ext_proc: str | None = setting(help="endpoint picker for an Envoy; none: off", default=None, parse=parse_address)
    report: Path | None = None
    """Where the addresses that were got are written, as JSON."""


def _namespace(text: str) -> str:
    if text and (len(text) > _LONGEST_LABEL or not _LABEL.fullmatch(text)):
        raise ValueError(f"{text!r} is not a namespace: write its name, or nothing for all")
    return text


@dataclass(frozen=True, slots=True)
class KubernetesDiscovery:
    """Which cluster is watched; the defaults are those of a Pod in it."""

    namespace: str = setting(help="the only one that is watched; empty: all", default="", parse=_namespace)
    kubeconfig: Path | None = None
    """Default: the Pod's service account, else the file that KUBECONFIG names, else ~/.kube/config."""
    context: str = setting(help="context of the kubeconfig; empty: its current one", default="")


@dataclass(frozen=True, slots=True)
class Discovery:
    """Where services and workers come from: exactly one of the two."""

    file: Path | None = None
    """A catalogue, replaced atomically and watched."""
    kubernetes: KubernetesDiscovery | None = None

    def __post_init__(self) -> None:
        if (self.file is None) == (self.kubernetes is None):
            found = "nothing" if self.file is None else "both"
            raise SettingsError("discovery", f"has {found}: write either file: PATH or kubernetes: {{}}")


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Bounds of the HTTP side; see `inferplane_runtime.http.api.Limits`."""

    max_body_bytes: int = setting(help="bytes", default=Limits().max_body_bytes, minimum=1)
    max_header_bytes: int = setting(help="bytes", default=Limits().max_header_bytes, minimum=1024)
    header_timeout_s: float = setting(help="seconds", default=10.0, minimum=0.1)
    body_timeout_s: float = setting(help="seconds", default=60.0, minimum=0.1)
    least_body_rate: int = setting(help="bytes a second of a body, on average", default=1024, minimum=1)
    idle_timeout_s: float = setting(help="seconds", default=75.0, minimum=0.1)
    stall_timeout_s: float = setting(help="seconds without a byte taken of an answer", default=60.0, minimum=0.1)
    max_connections: int = setting(help="count", default=10_000, minimum=1)

    def limits(self) -> Limits:
        return Limits(
            max_body_bytes=self.max_body_bytes,
            max_header_bytes=self.max_header_bytes,
            header_timeout_s=self.header_timeout_s,
            body_timeout_s=self.body_timeout_s,
            least_body_rate=self.least_body_rate,
            idle_timeout_s=self.idle_timeout_s,
            stall_timeout_s=self.stall_timeout_s,
            max_connections=self.max_connections,
        )


@dataclass(frozen=True, slots=True)
class ExtProc:
    """How an Envoy is answered; where it is listened for stands in `listen`."""

    fallbacks: int = setting(
        help="endpoints named besides the chosen one, for retries; 0 for an original-destination cluster",
        default=2,
        minimum=0,
        maximum=16,
    )
    certificate: Path | None = None
    """Certificate chain, PEM; with it and `key` the picker speaks TLS."""
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            lacking = "certificate" if self.certificate is None else "key"
            raise SettingsError(f"extProc.{lacking}", "is missing: TLS takes a certificate and its key")


@dataclass(frozen=True, slots=True)
class Tls:
    """What the OpenAI surface shows of itself, as PEM files; they are read again when they change."""

    certificate: Path
    """With its chain."""
    key: Path


@dataclass(frozen=True, slots=True)
class Records:
    """What happened and what was decided, as JSON lines for `inferplane incident` and `explain`."""

    folder: Path | None = None
    """None: nothing is written."""
    max_bytes: int = setting(help="bytes that the folder may hold", default=64 * 1024 * 1024, minimum=1024 * 1024)


@dataclass(frozen=True, slots=True)
class RouterConfig:
    discovery: Discovery
    cache_dir: Path
    """Tokenizer files fetched from agents, by digest."""
    listen: Listen = field(default_factory=Listen)
    tls: Tls | None = None
    """None: plain HTTP, for clients in the cluster or behind what ends TLS."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    ext_proc: ExtProc = field(default_factory=ExtProc)
    tracing: Tracing = field(default_factory=Tracing)
    records: Records = field(default_factory=Records)
    console: bool = setting(
        help="serve /console beside the OpenAI routes: workers and decisions, no prompts", default=False
    )
    drain_timeout_s: float = setting(help="longest time to finish what runs", default=30.0, minimum=0)
    processes: int = setting(
        help="gateway processes, one for each core that the router may use; with more than one, one more hears agents",
        default=1,
        minimum=1,
        maximum=64,
    )
    lame_duck_s: float = setting(help="how long a draining router still takes connections", default=0.0, minimum=0)


def read_config(path: Path) -> RouterConfig:
    """Read and check the file; every problem is a `SettingsError`."""
    try:
        document: object = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), f"is neither YAML nor JSON: {error}") from error
    return from_mapping(RouterConfig, document)
