"""`rules`: what Prometheus has to evaluate for a service, made from its objective."""

from pathlib import Path
from typing import Final

import click

from inferplane.manifest import read_manifest
from inferplane.options import file_option
from inferplane.output import yaml_text
from inferplane_observability import alerts, recording
from inferplane_observability.burn import service_groups
from inferplane_observability.prometheus_rule import prometheus_rule
from inferplane_observability.rule_values import RUNBOOKS, rule_file

_SCRAPE_S: Final = 15.0


@click.command("rules")
@file_option
@click.option("-n", "--namespace", default="", help="Namespace of what names none.")
@click.option(
    "--kubernetes", is_flag=True, help="Print a PrometheusRule, which Prometheus' operator reads, not a rule file."
)
@click.option("--general", is_flag=True, help="Also the rules that hold for every service.")
@click.option(
    "--scrape-interval",
    type=click.FloatRange(min=0.1),
    default=_SCRAPE_S,
    show_default=True,
    help="Seconds between two scrapes; no window is shorter than four of them.",
)
@click.option("--runbooks", default=RUNBOOKS, show_default=True, help="Where the runbooks are: a folder or a URL.")
def command(
    *, filename: Path, namespace: str, kubernetes: bool, general: bool, scrape_interval: float, runbooks: str
) -> None:
    """Print recording rules and burn-rate alerts for the objectives of a file's service."""
    service = read_manifest(filename, for_cluster=True).within(namespace).service
    groups = service_groups(service, scrape_s=scrape_interval)
    if general:
        groups = (recording.GROUP, *alerts.GROUPS, *groups)
    shown = prometheus_rule(service, groups, runbooks) if kubernetes else rule_file(groups, runbooks)
    click.echo(yaml_text(shown), nl=False)
