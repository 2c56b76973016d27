"""A metric that nothing feeds, or that is asked for and does not exist, shows nothing and looks like good news."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferplane_runtime.metrics import catalogue
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import until
from one_loop_service import OneLoopService, WorkerSpec, call, in_one_loop

ROOT = Path(__file__).parents[2]
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "a word " * 100}], "max_tokens": 4}
WHEN = {
    # Nothing of this happens in a few good requests.
    "inferplane_gateway_retries_total": "a worker refuses a request",
    "inferplane_gateway_upstream_failures_total": "a worker is lost",
    "inferplane_gateway_rejected_total": "bytes are no request",
    "inferplane_router_kv_mismatches_total": "predictions are wrong",
    "inferplane_router_stream_failures_total": "a stream cannot be opened",
    "inferplane_agent_handoff_failures_total": "a prefill worker fails",
    "inferplane_agent_transport_degraded": "KV moves by a transport that is known",
    "inferplane_agent_stripped_fields_total": "somebody goes round the gateway",
    "inferplane_router_catalogue_ignored": "a cluster is watched",
    "inferplane_router_processes": "a router has several processes",
}
MODULES = (catalogue.agent, catalogue.gateway, catalogue.router)
_NAME = re.compile(r"\binferplane_(?:gateway|router|agent)_[a-z_]+\b")
_SUFFIX = re.compile(r"_(bucket|sum|count|created)$")


def shown(page: bytes) -> set[str]:
    """Return the names of metrics that have a sample."""
    families = text_string_to_metric_families(page.decode())
    return {_SUFFIX.sub("", sample.name) for family in families for sample in family.samples}


def reports(service: OneLoopService, request_id: str) -> int:
    record = service.router.core.explain(request_id)
    return 0 if record is None else len(record.observed)


@pytest.mark.slow
def test_after_a_few_requests_every_metric_has_a_sample(tmp_path: Path) -> None:
    async def scenario(service: OneLoopService) -> None:
        for number, stream in enumerate((False, True)):
            answer = await service.post(
                "/v1/chat/completions", CHAT | {"stream": stream}, x_request_id=f"request-{number}"
            )
            assert answer.ended
        await until(lambda: all(reports(service, f"request-{number}") == 2 for number in range(2)))
        ports = [service.router.metrics.port, *(each.listening.metrics for each in service.workers.values())]
        pages = [await call(service.client, f"127.0.0.1:{port}", "/metrics", None) for port in ports]
        seen = set[str]().union(*(shown(page.body) for page in pages))

        served = {spec.name for module in MODULES for spec in module.ALL}
        assert served - seen - WHEN.keys() == set()

    in_one_loop(tmp_path, (WorkerSpec("p0", Role.PREFILL), WorkerSpec("d0", Role.DECODE)), scenario)


def test_what_is_excused_exists_and_is_fed_somewhere() -> None:
    names = {
        spec.name: constant for module in MODULES for constant, spec in vars(module).items() if spec in catalogue.ALL
    }
    code = "\n".join(path.read_text("utf-8") for path in sources() if "catalogue" not in path.parts)

    assert WHEN.keys() <= names.keys()
    assert [name for name, constant in names.items() if not re.search(rf"\b{constant}\b", code)] == []


def sources() -> Iterator[Path]:
    for folder in ("router", "workers", "runtime"):
        yield from (ROOT / folder).rglob("*.py")


def texts() -> Iterator[Path]:
    """Yield whatever may ask for a metric by name: dashboards, alerts, charts, pages, the command line."""
    for folder in ("cli", "docs", "examples", "helm", "planner", "operator", "e2e"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".yaml", ".yml", ".json", ".tpl", ".txt"}:
                yield path


def test_every_metric_that_is_asked_for_exists() -> None:
    names = {spec.name for spec in catalogue.ALL}
    asked = {
        (str(path.relative_to(ROOT)), found)
        for path in texts()
        for found in _NAME.findall(path.read_text("utf-8"))
        if found not in names and _SUFFIX.sub("", found) not in names
    }

    assert asked == set()
