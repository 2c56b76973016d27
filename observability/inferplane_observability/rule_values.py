"""Rules as values: what Prometheus evaluates, before anybody writes it as YAML.

Problem: a rule is text in a text in YAML; a wrong duration or a forgotten runbook shows when it should have fired.
Idea: rules are frozen values with one form each for a plain file and for a Kubernetes object.
Invariant: an alert has a severity, a summary that names what it is about, and a runbook of its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

RUNBOOKS: Final = "docs/runbooks"
SERVICE: Final = "namespace, service"
"""What tells a service: two namespaces may each have one of the same name."""
Document = dict[str, Any]


class Severity(StrEnum):
    PAGE = "page"
    """Somebody has to act now."""
    TICKET = "ticket"
    """Somebody has to act this week."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A query whose result is kept under a name."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    def document(self) -> Document:
        labels = {"labels": dict(self.labels)} if self.labels else {}
        return {"record": self.record, "expr": self.expr, **labels}


@dataclass(frozen=True, slots=True)
class Alert:
    """A query whose results are alerts."""

    name: str
    expr: str
    severity: Severity
    summary: str
    runbook: str
    """The page's name, without folder and ending."""
    wait_s: float = 0.0
    """How long it has to be true before it fires."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    def document(self, runbooks: str = RUNBOOKS) -> Document:
        wait = {"for": duration(self.wait_s)} if self.wait_s else {}
        return {
            "alert": self.name,
            "expr": self.expr,
            **wait,
            "labels": {"severity": self.severity.value, **self.labels},
            "annotations": {"summary": self.summary, "runbook_url": f"{runbooks}/{self.runbook}.md"},
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other, every `interval_s` seconds."""

    name: str
    rules: Sequence[Recording | Alert]
    interval_s: float | None = None
    """None: as the server's configuration says."""

    def document(self, runbooks: str = RUNBOOKS) -> Document:
        interval = {"interval": duration(self.interval_s)} if self.interval_s else {}
        return {"name": self.name, **interval, "rules": [_rule(rule, runbooks) for rule in self.rules]}


def _rule(rule: Recording | Alert, runbooks: str) -> Document:
    return rule.document(runbooks) if isinstance(rule, Alert) else rule.document()


def rule_file(groups: Sequence[Group], runbooks: str = RUNBOOKS) -> Document:
    """Return what a file of `rule_files` holds."""
    return {"groups": [group.document(runbooks) for group in groups]}


def duration(seconds: float) -> str:
    """Write seconds as PromQL does, in the largest unit that divides them; never less than a millisecond."""
    milliseconds = max(1, math.ceil(seconds * 1000 - 1e-6))
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"
