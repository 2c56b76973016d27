"""The operator's configuration: flags, or `INFERPLANE_*`, read once in `__main__`."""

from dataclasses import dataclass, replace
from pathlib import Path

from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_observability.rule_values import RUNBOOKS
from inferplane_operator.reconcile.alerting import RuleSettings
from inferplane_operator.render import RenderOptions
from inferplane_operator.render.accelerators import Accelerators, AcceleratorsError, read_accelerators
from inferplane_runtime.logs import LogFormat, LogLevel
from inferplane_runtime.settings import SettingsError, parse_address, parse_duration, setting
from inferplane_runtime.tracing.config import parse_endpoint


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Carries out InferenceServices and what belongs to them in a Kubernetes cluster."""

    namespaces: tuple[str, ...] = setting(help="namespace to watch (repeatable); none: all of the cluster", default=())
    kubeconfig: str = setting(help="file; none: the Pod's service account, else ~/.kube/config", default="")
    context: str = setting(help="context of the kubeconfig; none: its current one", default="")
    agent_image: str = setting(help="image of worker agents, pinned in each revision; none: the release's", default="")
    engine_image: tuple[str, ...] = setting(
        help="image of an engine in place of the stock one (repeatable), as TYPE/DEVICE=IMAGE", default=()
    )
    accelerator_classes: str = setting(help="file with accelerator classes beside the built-in ones", default="")
    gateway_url: str = setting(help="where clients reach the gateway; shown in the status of services", default="")
    hub_endpoint: str = setting(help="base URL of the model hub or of its mirror; none: the public one", default="")
    trace_endpoint: str = setting(
        help="where agents send spans of traced requests, as http://HOST:4318; none: nowhere",
        default="",
        parse=parse_endpoint,
    )
    service_rules: bool = setting(
        help="make a PrometheusRule for each service's objectives, where the cluster knows the kind", default=False
    )
    rule_label: tuple[str, ...] = setting(
        help="label of these rules (repeatable), as KEY=VALUE: by it a Prometheus finds them", default=()
    )
    rule_scrape: float = setting(
        help="time between two scrapes; no window of an alert is shorter than four of them",
        default=15.0,
        parse=parse_duration,
        minimum=1,
    )
    rule_runbooks: str = setting(help="where alerts say that their runbooks are: a folder or a URL", default=RUNBOOKS)
    lease_namespace: str = setting(help="namespace of the Lease; none: the operator's own", default="")
    lease_name: str = setting(help="name of the Lease", default="inferplane-operator")
    identity: str = setting(help="holder named in the Lease; none: made from the host's name", default="")
    lease_duration: float = setting(
        help="others wait this long after the last renewal", default=15.0, parse=parse_duration, minimum=1
    )
    renew_deadline: float = setting(
        help="a leader that cannot renew for this long stops", default=10.0, parse=parse_duration, minimum=0.5
    )
    retry_period: float = setting(
        help="time between two looks at the Lease", default=2.0, parse=parse_duration, minimum=0.1
    )
    workers: int = setting(help="objects reconciled at the same time", default=8, minimum=1, maximum=64)
    audit_period: float = setting(
        help="time between two comparisons of what was watched with what there is",
        default=300.0,
        parse=parse_duration,
        minimum=1,
    )
    drain_timeout: float = setting(
        help="time for running reconciliations to finish", default=20.0, parse=parse_duration, minimum=0
    )
    listen_health: str = setting(help="address of /health and /ready", default="0.0.0.0:8080", parse=parse_address)
    listen_metrics: str = setting(help="address of /metrics", default="0.0.0.0:9090", parse=parse_address)
    log_format: LogFormat = setting(help="logfmt, json or console", default=LogFormat.LOGFMT)
    log_level: LogLevel = setting(help="debug, info, warning or error", default=LogLevel.INFO)


def check(settings: OperatorSettings) -> None:
    """Hold fields against each other.  Raises SettingsError."""
    if not settings.retry_period < settings.renew_deadline < settings.lease_duration:
        raise SettingsError(
            "--renew-deadline",
            f"{settings.renew_deadline:g}s must lie between --retry-period ({settings.retry_period:g}s) "
            f"and --lease-duration ({settings.lease_duration:g}s)",
        )


def rule_settings(settings: OperatorSettings) -> RuleSettings:
    """Return how the rules of services are made.  Raises SettingsError."""
    labels = dict[str, str]()
    for each in settings.rule_label:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise SettingsError("--rule-label", f"{each!r} is no label: write KEY=VALUE")
        labels[key] = value
    return RuleSettings(labels, settings.rule_scrape, settings.rule_runbooks)


def render_options(settings: OperatorSettings) -> RenderOptions:
    """Return the release's options with the images that were given.  Raises SettingsError."""
    options = RenderOptions()
    return replace(
        options,
        agent_image=settings.agent_image or options.agent_image,
        engine_images={**options.engine_images, **engine_images(settings)},
        accelerators=_accelerators(settings.accelerator_classes),
        hub_endpoint=settings.hub_endpoint,
        trace_endpoint=settings.trace_endpoint,
    )


def _accelerators(path: str) -> Accelerators:
    if not path:
        return Accelerators()
    try:
        return read_accelerators(Path(path).read_text(encoding="utf-8"), source=path)
    except (OSError, UnicodeDecodeError, AcceleratorsError) as error:
        raise SettingsError("--accelerator-classes", f"{path}: {error}") from error


def engine_images(settings: OperatorSettings) -> dict[tuple[EngineType, Device], str]:
    """Read `TYPE/DEVICE=IMAGE`.  Raises SettingsError."""
    return dict(_engine_image(text) for text in settings.engine_image)


def _engine_image(text: str) -> tuple[tuple[EngineType, Device], str]:
    target, equals, image = text.partition("=")
    engine, slash, device = target.partition("/")
    types, devices = [kind.value for kind in EngineType], [kind.value for kind in Device]
    if not equals or not slash or not image or engine not in types or device not in devices:
        raise SettingsError(
            "--engine-image",
            f"{text!r} is not TYPE/DEVICE=IMAGE; types: {', '.join(types)}; devices: {', '.join(devices)}",
        )
    return (EngineType(engine), Device(device)), image
