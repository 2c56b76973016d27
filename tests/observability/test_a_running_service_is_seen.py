"""A local deployment with simulated engines, a real Prometheus, and every query of every dashboard.

The engines are stopped for some seconds in the middle of their requests, as a node that hangs would stop them: a breach
that no machine is too fast or too slow for.
"""

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from inferplane.manifest import read_manifest
from inferplane_kv_connector.worth import Worth
from inferplane_kvstore.testing import key_of, save, served, small_config
from inferplane_observability import alerts, recording
from inferplane_observability.burn import PACES, service_groups
from inferplane_observability.dashboards import BOARDS
from inferplane_observability.rule_values import Group, rule_file
from inferplane_operator.cluster.metrics import OperatorMetrics, StepOutcome, WriteOutcome
from inferplane_operator.cluster.stored import store_form
from inferplane_runtime.http.api import Request
from inferplane_runtime.http.testing import RecordedExchange
from inferplane_runtime.metrics import catalogue
from inferplane_runtime.metrics.exposition import page as text_of
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_runtime.metrics.spec import Kind, MetricSpec
from inferplane_workers.agent.store_metrics import StoreMetrics
from local_service import LocalService
from real_prometheus import SCRAPE_S, RealPrometheus, Target

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MANIFEST = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: seen}
spec:
  model: {name: inferplane/sim, servedNames: [sim]}
  engine: {type: sim, blockSize: 16, maxModelLen: 8192, sim: {profile: cpu-test, speed: 1, seed: 7}}
  slo: {ttft: 5s, tpot: 1s, percentile: 99, window: 20s}
  mode: disaggregated
  prefill: {replicas: 1, minReplicas: 1, maxReplicas: 1}
  decode: {replicas: 1, minReplicas: 1, maxReplicas: 1}
  scaling: {mode: advise}
  drainTimeout: 5s
"""
NAMED = {"namespace": "default", "service": "seen"}
LIMIT_S = 90.0
STOPPED_S = 6.0
AT_ONCE = 4
STUCK = 60


@dataclass(frozen=True)
class Seen:
    """The service, what watches it, and its pages' addresses by component."""

    service: LocalService
    gateway: str
    prometheus: RealPrometheus
    pages: Mapping[str, str]
    client: httpx.Client

    def chat(self, number: int) -> bool:
        """Ask for a streamed answer; tell whether it came whole."""
        words = " ".join(f"word{number % 7}" for _ in range(60))
        body = {"model": "sim", "stream": True, "max_tokens": 8, "messages": [{"role": "user", "content": words}]}
        with self.client.stream("POST", f"{self.gateway}/v1/chat/completions", json=body) as answer:
            return answer.is_success and b"[DONE]" in b"".join(answer.iter_bytes())

    def load(self, requests: int, *, at_once: int = AT_ONCE) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            assert all(pool.map(self.chat, range(requests)))


class Loaded:
    """Keeps asking until the block is left."""

    def __init__(self, seen: Seen) -> None:
        self._over = threading.Event()
        self._seen = seen
        self._pool = ThreadPoolExecutor(AT_ONCE)

    def __enter__(self) -> None:
        for lane in range(AT_ONCE):
            self._pool.submit(self._ask, lane)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._pool.shutdown()

    def _ask(self, lane: int) -> None:
        while not self._over.is_set():
            self._seen.chat(lane)
            self._over.wait(0.5)


def operator_page() -> bytes:
    """Return what an operator shows that has done some work; a real one needs a cluster."""
    metrics = OperatorMetrics()
    metrics.leading(leads=True)
    metrics.stepped("InferenceService", StepOutcome.DONE, 0.01)
    metrics.wrote("apply", "Deployment", WriteOutcome.WRITTEN)
    metrics.audited("Pod", missing=1, stale=0)
    condition = {"type": "Ready", "status": "True"}
    raw: dict[str, Any] = {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"namespace": "a", "name": "seen", "uid": "1", "resourceVersion": "1"},
        "spec": {"model": {"name": "m"}},
        "status": {"conditions": [condition]},
    }

    def refresh() -> None:
        metrics.picture(depth=0, objects=3, event_ages_s={"Pod": 1.0})
        metrics.services([store_form(raw)])

    exchange = RecordedExchange()
    metrics.handler(refresh)(Request(b"GET", b"/metrics"), exchange)
    return exchange.body


def store_page(folder: Path) -> bytes:
    """Return what an agent shows of a store that an engine has used; simulated engines have none."""
    make = Instruments()
    with served(small_config(folder, ssd=8 << 20)) as (store, client):
        keys = [key_of(number) for number in range(4)]
        save(client, keys, 1000)
        store.inspector.settle({})
        client.find(keys, told=Worth(16, token_s=0.001, block_s={"dram": 0.001, "ssd": 0.002}).told())
        said = client.ask({"op": "watch"})
    assert said is not None
    StoreMetrics(make).take(said["store"], said["stat"])
    return text_of(make.registry)


@contextmanager
def page_server(make_page: Callable[[], bytes]) -> Generator[str]:
    """Serve a page of metrics; return its address."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = make_page()
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def operator_address() -> Iterator[str]:
    with page_server(operator_page) as address:
        yield address


@pytest.fixture(scope="module")
def store_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    body = store_page(tmp_path_factory.mktemp("kv"))
    with page_server(lambda: body) as address:
        yield address


@pytest.fixture(scope="module")
def seen(
    prometheus: Path, operator_address: str, store_address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("seen")
    manifest = folder / "seen.yaml"
    manifest.write_text(MANIFEST, "utf-8")
    service = LocalService.start(manifest, folder / "state")
    try:
        service.wait_ready(LIMIT_S)
        of_service = {**NAMED, "pool": "seen-decode", "role": "decode"}
        targets = [*service_targets(service), Target("operator", operator_address, {})]
        targets.append(Target("store", store_address, of_service))
        server = RealPrometheus.start(prometheus, folder, targets, rules(manifest))
        try:
            pages = {target.job: target.address for target in targets}
            limits = httpx.Limits(max_connections=STUCK + AT_ONCE)
            with httpx.Client(timeout=LIMIT_S, limits=limits) as client:
                yield Seen(service, service.ready_status().url, server, pages, client)
        finally:
            server.stop()
    finally:
        service.stop()


def service_targets(service: LocalService) -> list[Target]:
    status = service.ready_status()
    planner = yaml.safe_load(service.state.planner_config.read_text("utf-8"))["listen"]["metrics"]
    agents = [
        Target("agent", worker.metrics, {**NAMED, "pool": worker.pool, "role": worker.role})
        for worker in status.workers
    ]
    return [Target("router", status.metrics, {}), Target("planner", planner, {}), *agents]


def rules(manifest: Path) -> dict[str, Any]:
    """Return all rules, evaluated each second: nobody waits half a minute here."""
    own = service_groups(read_manifest(manifest).service, scrape_s=2 * SCRAPE_S)  # a busy machine misses some
    groups = (recording.GROUP, *alerts.GROUPS, *own)
    return rule_file([Group(group.name, group.rules, 1.0) for group in groups])


def page(seen: Seen, component: str) -> str:
    return seen.client.get(f"http://{seen.pages[component]}/metrics").text


def asked(expr: str) -> str:
    """Fill in what Grafana fills in."""
    return expr.replace("$__rate_interval", "30s").replace("$namespace", ".*").replace("$service", ".*")


def wrong_in(text: str) -> list[str]:
    """Return what a page shows otherwise than the catalogue has it."""
    specs = {spec.name.removesuffix("_total"): spec for spec in catalogue.ALL}
    ours = [each for each in text_string_to_metric_families(text) if each.name.startswith("inferplane_")]
    unknown = [each.name for each in ours if each.name not in specs]
    return unknown + [each.name for each in ours if each.name in specs and not _agrees(each, specs[each.name])]


def _agrees(family: Any, spec: MetricSpec) -> bool:
    extra = {"le"} if spec.kind is Kind.HISTOGRAM else set[str]()
    labels = all(set(sample.labels) - extra == set(spec.labels) for sample in family.samples)
    bounds = {sample.labels["le"] for sample in family.samples if sample.name.endswith("_bucket")}
    expected = {*(repr(bound) for bound in spec.buckets), "+Inf"}
    return bool(family.type == spec.kind.value and labels and (not bounds or bounds == expected))


def test_a_service_is_watched_through_a_breach(seen: Seen) -> None:
    """One test, since one thing leads to the next: all is well, a breach, an alert, and its end."""
    prometheus = seen.prometheus
    seen.load(40)
    assert {component: wrong_in(page(seen, component)) for component in seen.pages} == {
        component: [] for component in seen.pages
    }
    asking = {query.expr for board in BOARDS for query in board.queries}
    with Loaded(seen):
        prometheus.until(lambda: "\n".join(unanswered(prometheus, asking)), limit_s=LIMIT_S)
    assert [rule["name"] for rule in prometheus.rules() if rule.get("lastError")] == []
    assert not burning(prometheus)
    wanted = {
        spec.name for part in (catalogue.planner, catalogue.kube_operator, catalogue.kv_store) for spec in part.ALL
    }
    shown = {
        _base(line) for component in ("planner", "operator", "store") for line in page(seen, component).splitlines()
    }
    assert wanted - shown == set()

    breach(seen)
    fired_after_s = prometheus.until(lambda: "" if has_burnt(prometheus) else "no alert", limit_s=LIMIT_S)
    with Loaded(seen):
        resolved_after_s = prometheus.until(lambda: "it still fires" if burning(prometheus) else "", limit_s=LIMIT_S)
    print(json.dumps({"fired_after_s": fired_after_s, "resolved_after_s": resolved_after_s}))  # noqa: T201 - with -s


def unanswered(prometheus: RealPrometheus, asking: set[str]) -> list[str]:
    """Return the queries that have had no data yet, and ask for no others again: a scrape may come late, and stale."""
    asking -= {expr for expr in asking if prometheus.query(asked(expr))}
    return sorted(asking)


def breach(seen: Seen) -> None:
    """Stop the engines while requests are on their way to them."""
    pids = [worker.engine.pid for worker in seen.service.ready_status().workers if worker.engine and worker.engine.pid]
    signal_all(pids, signal.SIGSTOP)
    resume = threading.Timer(STOPPED_S, lambda: signal_all(pids, signal.SIGCONT))
    resume.start()
    try:
        seen.load(STUCK, at_once=STUCK)
    finally:
        resume.join()


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def burning(prometheus: RealPrometheus) -> bool:
    """Tell whether the fastest pace of the TTFT's budget alerts; slower ones go on for minutes."""
    fastest = {"alertname": "InferplaneTTFTBudgetBurns", "pace": f"{PACES[0].burn:g}"}
    return any(fastest.items() <= labels.items() for labels in prometheus.firing())


def has_burnt(prometheus: RealPrometheus) -> bool:
    """Tell whether it did within the last minute: without traffic it ends with the short window."""
    chosen = f'alertname="InferplaneTTFTBudgetBurns",pace="{PACES[0].burn:g}",alertstate="firing"'
    return bool(prometheus.query(f"max_over_time(ALERTS{{{chosen}}}[1m])"))


_SAMPLE = re.compile(r"^(inferplane_\w+?)(_bucket|_sum|_count|_created)?[{ ]")


def _base(line: str) -> str:
    found = _SAMPLE.match(line)
    return found[1] if found else ""
