"""How soon a manifest is an endpoint: from `kubectl apply` to the first token through the gateway's Service.

Figures are noted and printed, not asserted: a machine may be busy.  What engines take to start is theirs, from the
first one's process to the last one's readiness, so it is told apart from what is ours.
"""

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from e2e.support.cluster import Cluster
from e2e.support.conversation import Chat
from e2e.support.figures import note
from e2e.support.release import Release
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

TICKS = os.sysconf("SC_CLK_TCK")


def test_a_token_comes_through_the_gateway(cluster: Cluster, release: Release, namespace: str) -> None:
    assert cluster.node  # whose engines are processes of this machine
    chat = Chat(release.url, namespace, tokens=4)
    service = Service(cluster, namespace, "first")
    began = time.time()
    service.apply(sim_service("first", served=namespace))

    first = until(lambda: first_token(chat), what="a first token")

    took = first - began
    # a token may come before the kubelet has told of the engine that gave it
    until(lambda: all(container_of(pod) for pod in service.pods()), what="the engines in their Pods' status")
    pods = service.pods()
    engines = max(served_at(cluster, pod) for pod in pods) - min(started_at(pod) for pod in pods)
    note("kubectl apply to first token, s", took)
    note("kubectl apply to first token outside engine start, s", took - engines)
    assert 0 < engines < took


def first_token(chat: Chat) -> float:
    """Ask; return when the first token came, and 0 where there is no answer yet."""
    try:
        with httpx.stream("POST", f"{chat.url}/v1/chat/completions", json=chat.body("Hello"), timeout=30) as reply:
            if not reply.is_success:
                return 0
            return next((time.time() for line in reply.iter_lines() if _has_token(line)), 0)
    except httpx.ConnectError:
        return 0


def _has_token(line: str) -> bool:
    event = line.removeprefix("data: ")
    if event in (line, "[DONE]"):
        return False
    choices: list[dict[str, Any]] = json.loads(event).get("choices", [])
    return any(choice["delta"].get("content") for choice in choices)


def served_at(cluster: Cluster, pod: dict[str, Any]) -> float:
    """Return when a Pod's engine said that it serves."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    lines = cluster.kubectl("logs", "--timestamps", "-n", namespace, name, "-c", "engine").splitlines()
    return next(datetime.fromisoformat(line.split()[0]).timestamp() for line in lines if "serving" in line)


def container_of(pod: dict[str, Any]) -> str:
    """Return the id of a Pod's engine container, "" while it is not told."""
    statuses: list[dict[str, str]] = pod["status"].get("containerStatuses", [])
    (told,) = (each.get("containerID", "") for each in statuses if each["name"] == "engine") if statuses else ("",)
    return told.partition("://")[2]


def started_at(pod: dict[str, Any]) -> float:
    """Return when the first process of a Pod's engine began: finer than what its status says."""
    container = container_of(pod)
    ticks = min(_ticks_at_start(process) for process in _processes_of(container))
    uptime_s = float(Path("/proc/uptime").read_text("utf-8").split()[0])
    return time.time() - (uptime_s - ticks / TICKS)


def _processes_of(container: str) -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if container in (process / "cgroup").read_text("utf-8"):
                yield process
        except OSError:
            continue  # it has ended meanwhile


def _ticks_at_start(process: Path) -> int:
    """Return clock ticks from the machine's start; the program's name, in brackets, may hold anything."""
    return int((process / "stat").read_text("utf-8").rpartition(")")[2].split()[19])
