"""The operator with many services, on a real API server: `python -m e2e.operator_scale [--services 500] [--idle 600]`.

A control plane without nodes is started (etcd, API server, controllers); the operator runs as a process of its own with
a user of its own, so that the audit log tells what it wrote.  It is started again when it ends, as a kubelet does.
The last line is JSON: time until all services have converged, memory, writes while idle and after applying the same
manifests again, and how long one edit takes.
"""

import argparse
import asyncio
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from lightkube.config.kubeconfig import KubeConfig

from e2e.cluster.access import Access
from e2e.cluster.administrator import Administrator
from e2e.cluster.audit import AuditLog
from e2e.cluster.binaries import build_missing, path_of
from e2e.cluster.certificates import Identity
from e2e.cluster.control_plane import ADDRESS, ADMIN, control_plane, make_certificates
from e2e.cluster.enclosure import Enclosure
from e2e.cluster.places import REPOSITORY, RUNS
from inferplane_operator.cluster.transport import MERGE_PATCH, Call, KubeTransport, raise_for

OPERATOR: Final = Identity("scale-operator", "scale-operator", "system:masters")
NAMESPACE: Final = "many"
_SERVICES: Final = f"/apis/inferplane.dev/v1alpha1/namespaces/{NAMESPACE}/inferenceservices"
_POLL_S: Final = 0.01
_LIMIT_S: Final = 1800.0
_SETTLE_S: Final = 5.0
_MOST_RESTARTS: Final = 5
"""A machine that is busy with something else may cost the operator its Lease now and then."""
LEASE: Final = "update leases"


@dataclass(frozen=True, slots=True)
class Plane:
    """A running control plane."""

    kubeconfig: Path
    operator_kubeconfig: Path
    audit_log: Path


@contextmanager
def plane() -> Generator[Plane]:
    """Run a control plane without nodes; this process is in its network afterwards."""
    if not (path_of("kube-apiserver").exists() and path_of("pause").exists()):
        build_missing()
    folder = RUNS / f"inferplane-scale-{os.getpid()}"
    enclosure = Enclosure.make(folder, address=ADDRESS, name=folder.name)
    try:
        enclosure.enter_network()
        certificates = make_certificates(folder / "pki")
        operator = certificates.make_client(OPERATOR)
        parts = control_plane(enclosure)
        found = Plane(certificates.path(f"{ADMIN.name}.kubeconfig"), operator, folder / "log" / "audit.log")
        parts.etcd.start()
        parts.api_server.start()
        parts.api_server.await_(Administrator.of(certificates).finds_ready, limit_s=_LIMIT_S)
        parts.controllers.start()
        yield found
    finally:
        enclosure.end()
        shutil.rmtree(folder)


def _kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> str:
    found = Access(kubeconfig).try_kubectl(*arguments, stdin=stdin)
    if found.returncode:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {found.stderr}")
    return found.stdout


@dataclass(slots=True)
class Kept:
    """An operator that is started again when it ends, as a kubelet does: it ends when it has lost its Lease."""

    kubeconfig: Path
    log: Path
    restarts: int = 0
    _process: "subprocess.Popen[bytes] | None" = None
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        self.log.write_bytes(b"")
        self._start()
        self._thread = threading.Thread(target=self._keep, name="keep-operator")
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._running.send_signal(signal.SIGTERM)
        if self._thread is not None:
            self._thread.join(60)

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the operator was not started")
        return self._process

    def _start(self) -> None:
        """Run the operator as its image does, on free ports."""
        command = [sys.executable, "-m", "inferplane_operator", "--kubeconfig", str(self.kubeconfig)]
        command += ["--lease-namespace", "default", "--listen-health", "127.0.0.1:0", "--listen-metrics", "127.0.0.1:0"]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def _keep(self) -> None:
        while self.restarts <= _MOST_RESTARTS:
            self._running.wait()
            if self._over.is_set():
                return
            self.restarts += 1
            self._start()


@contextmanager
def operator(kubeconfig: Path, log: Path) -> Generator[Kept]:
    kept = Kept(kubeconfig, log)
    kept.begin()
    try:
        yield kept
    finally:
        kept.end()


def manifest(number: int) -> dict[str, Any]:
    """Make a service without workers."""
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": f"s{number:04d}", "namespace": NAMESPACE},
        "spec": {
            "model": {"name": f"many/m{number}", "servedNames": [f"m{number}"]},
            "engine": {"type": "sim", "blockSize": 16, "maxModelLen": 8192},
            "slo": {"ttft": "500ms", "tpot": "50ms"},
            "mode": "disaggregated",
            "prefill": {"replicas": 0, "minReplicas": 0, "maxReplicas": 4},
            "decode": {"replicas": 0, "minReplicas": 0, "maxReplicas": 4},
        },
    }


class Client:
    """The user's side, over the same connection for all requests."""

    def __init__(self, transport: KubeTransport) -> None:
        self._transport = transport

    async def create(self, path: str, body: Any) -> None:
        await self._ask(Call("POST", path, body=orjson.dumps(body)))

    async def patch(self, name: str, patch: Any) -> int:
        """Edit a service; return its new generation."""
        call = Call("PATCH", f"{_SERVICES}/{name}", body=orjson.dumps(patch), content_type=MERGE_PATCH)
        return int((await self._ask(call))["metadata"]["generation"])

    async def service(self, name: str) -> dict[str, Any]:
        return await self._ask(Call("GET", f"{_SERVICES}/{name}"))

    async def services(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._ask(Call("GET", _SERVICES)))["items"]
        return found

    async def count(self, path: str) -> int:
        return len((await self._ask(Call("GET", path)))["items"])

    async def _ask(self, call: Call) -> dict[str, Any]:
        answer = await self._transport.send(call)
        raise_for(call, answer)
        parsed: dict[str, Any] = orjson.loads(answer.body)
        return parsed


@asynccontextmanager
async def client(kubeconfig: Path) -> AsyncGenerator[Client]:
    config = KubeConfig.from_file(kubeconfig).get()
    if config is None:
        raise RuntimeError(f"{kubeconfig} names no context")
    transport = KubeTransport(config)
    try:
        yield Client(transport)
    finally:
        await transport.close()


async def create_all(user: Client, count: int) -> None:
    await user.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    gate = asyncio.Semaphore(8)

    async def one(number: int) -> None:
        async with gate:
            await user.create(_SERVICES, manifest(number))

    await asyncio.gather(*(one(number) for number in range(count)))


async def until_converged(user: Client, count: int, kept: Kept) -> None:
    """Wait until every service's status speaks of its spec and its objects are there."""
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        if kept.restarts > _MOST_RESTARTS:
            raise RuntimeError(f"the operator ended {kept.restarts} times; {kept.log} tells why")
        if all(_converged(found) for found in await user.services()):
            deployments = await user.count(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
            budgets = await user.count(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets")
            if min(deployments, budgets) >= 2 * count:
                return
        await asyncio.sleep(0.5)
    raise TimeoutError(f"{count} services did not converge in {_LIMIT_S:g} s")


def _converged(service: dict[str, Any]) -> bool:
    status: dict[str, Any] = service.get("status") or {}
    return status.get("observedGeneration") == service["metadata"]["generation"] and bool(status.get("revision"))


async def edits(user: Client, count: int, services: int) -> list[float]:
    """Edit one service after the other; return the seconds until each status speaks of the edit."""
    times: list[float] = []
    for number in range(count):
        name = f"s{number % services:04d}"
        began = time.perf_counter()
        generation = await user.patch(name, {"spec": {"slo": {"ttft": f"{600 + number}ms"}}})
        while (found := await user.service(name)).get("status", {}).get("observedGeneration", 0) < generation:
            if time.perf_counter() - began > _LIMIT_S:
                raise TimeoutError(f"{name} was not reconciled: {found.get('status')}")
            await asyncio.sleep(_POLL_S)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.2)
    return times


def written(log: AuditLog, user: str) -> dict[str, int]:
    """Count what a user wrote, by kind of request."""
    found = Counter(
        f"{request.verb} {request.resource}{'/' if request.subresource else ''}{request.subresource}"
        for request in log.writes(user)
    )
    return dict(sorted(found.items()))


def memory_mib(pid: int) -> tuple[float, float]:
    """Return a process' resident memory, and the most that it was."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return tuple(round(int(fields[name].split()[0]) / 1024, 1) for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


async def measure(found: Plane, *, services: int, idle_s: float, edit_count: int, log: Path) -> dict[str, Any]:
    result: dict[str, Any] = {"services": services}
    crds = str(REPOSITORY / "crds" / "manifests")
    _kubectl(found.kubeconfig, "apply", "--server-side", "--filename", crds)
    _kubectl(found.kubeconfig, "wait", "--for=condition=Established", "--filename", crds, "--timeout=60s")
    async with client(found.kubeconfig) as user:
        with operator(found.operator_kubeconfig, log) as kept:
            began, everything = time.monotonic(), AuditLog.since_now(found.audit_log)
            await create_all(user, services)
            result["created_s"] = round(time.monotonic() - began, 1)
            await until_converged(user, services, kept)
            result["converged_s"] = round(time.monotonic() - began, 1)
            await asyncio.sleep(_SETTLE_S)
            result["writes_to_converge"] = written(everything, OPERATOR.user)
            result["rss_mib"], result["peak_mib"] = memory_mib(kept.pid)
            quiet = AuditLog.since_now(found.audit_log)
            await asyncio.sleep(idle_s)
            result["idle_s"], result["idle_writes"] = idle_s, written(quiet, OPERATOR.user)
            result["idle_writes_but_the_lease"] = sum(
                count for what, count in result["idle_writes"].items() if what != LEASE
            )
            result["rss_after_idle_mib"] = memory_mib(kept.pid)[0]
            again = AuditLog.since_now(found.audit_log)
            _apply_again(found.kubeconfig, services)
            await asyncio.sleep(_SETTLE_S)
            result["writes_after_applying_again"] = written(again, OPERATOR.user)
            result["edits"] = _summary(await edits(user, edit_count, services))
            result["restarts"] = kept.restarts
        restarted = AuditLog.since_now(found.audit_log)
        with operator(found.operator_kubeconfig, log.with_suffix(".second.log")) as kept:
            await _leads(kept.log)
            await asyncio.sleep(idle_s / 4 + _SETTLE_S)
            result["writes_of_a_second_operator"] = written(restarted, OPERATOR.user)
            result["rss_of_a_second_operator_mib"] = memory_mib(kept.pid)[0]
    return result


async def _leads(log: Path) -> None:
    async with asyncio.timeout(_LIMIT_S):
        while "event=leading" not in log.read_text(errors="replace"):  # noqa: ASYNC110, ASYNC240 - a file, not an event
            await asyncio.sleep(0.5)


def _apply_again(kubeconfig: Path, services: int) -> None:
    """Apply what is there already, as `kubectl apply` does."""
    manifests = "\n---\n".join(json.dumps(manifest(number)) for number in range(services))
    for _ in range(2):  # the first time kubectl notes what it applied, in an annotation
        _kubectl(kubeconfig, "apply", "--filename", "-", stdin=manifests)


def _summary(times: Sequence[float]) -> dict[str, float]:
    return {
        "count": len(times),
        "p50_s": round(percentile(times, 0.5), 3),
        "p99_s": round(percentile(times, 0.99), 3),
        "longest_s": round(max(times), 3),
    }


def _told(result: dict[str, Any]) -> Iterator[str]:
    """Yield the figures that have a bar, each beside it."""
    yield f"{result['services']} services converged in {result['converged_s']} s"
    yield f"memory: {result['rss_mib']} MiB, restarted {result['rss_of_a_second_operator_mib']} MiB (below 200)"
    yield f"writes in {result['idle_s']:g} idle seconds but the Lease: {result['idle_writes_but_the_lease']} (none)"
    again = {what: count for what, count in result["writes_after_applying_again"].items() if what != LEASE}
    yield f"writes after applying the same again: {sum(again.values())} (none)"
    yield f"one edit: p99 {result['edits']['p99_s']} s (at most 1)"
    yield f"operator started again: {result['restarts']} times"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=500)
    parser.add_argument("--idle", type=float, default=600.0, help="seconds")
    parser.add_argument("--edits", type=int, default=30)
    parser.add_argument("--log", type=Path, default=RUNS / "operator-scale.log")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that its cluster is taken down
    RUNS.mkdir(parents=True, exist_ok=True)
    with plane() as found:
        result = asyncio.run(
            measure(found, services=given.services, idle_s=given.idle, edit_count=given.edits, log=given.log)
        )
    for line in _told(result):
        print(line)  # noqa: T201 - the result
    result["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(json.dumps(result))  # noqa: T201 - the result


if __name__ == "__main__":
    main()
