import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from inferplane_runtime.http.api import Request
from inferplane_runtime.http.testing import RecordedExchange
from inferplane_runtime.metrics import catalogue
from inferplane_runtime.metrics.catalogue import agent, gateway
from inferplane_runtime.metrics.exposition import exposition_handler, page, register_process_metrics
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_runtime.metrics.spec import Kind, MetricSpec, Unit, counter, gauge, histogram


def test_every_name_is_there_once_and_every_spec_of_a_module_is_listed() -> None:
    names = [spec.name for spec in catalogue.ALL]
    listed = set(catalogue.ALL)
    defined = {
        value
        for module in (
            catalogue.agent,
            catalogue.gateway,
            catalogue.kube_operator,
            catalogue.kv_store,
            catalogue.planner,
            catalogue.router,
            catalogue.tracing,
        )
        for value in vars(module).values()
        if isinstance(value, MetricSpec)
    }

    assert len(names) == len(set(names))
    assert defined == listed


def test_gateway_and_agent_measure_the_same_quantity_in_equal_buckets() -> None:
    assert gateway.TTFT.buckets == agent.TTFT.buckets
    assert gateway.TPOT.buckets == agent.TPOT.buckets
    assert gateway.REQUEST_DURATION.buckets == agent.REQUEST_DURATION.buckets


def test_a_ttft_says_whether_the_queue_is_in_it() -> None:
    assert all("queue" in spec.help for spec in catalogue.ALL if "_ttft_" in spec.name)


@pytest.mark.parametrize(
    ("name", "kind", "unit", "buckets"),
    [
        ("requests_total", Kind.COUNTER, Unit.NONE, ()),
        ("inferplane_requests", Kind.COUNTER, Unit.NONE, ()),
        ("inferplane_x_total", Kind.GAUGE, Unit.NONE, ()),
        ("inferplane_x", Kind.HISTOGRAM, Unit.SECONDS, (1.0,)),
        ("inferplane_x_seconds", Kind.HISTOGRAM, Unit.SECONDS, ()),
        ("inferplane_x_seconds", Kind.HISTOGRAM, Unit.SECONDS, (2.0, 1.0)),
    ],
)
def test_a_name_that_breaks_the_rules_cannot_be_declared(
    name: str, kind: Kind, unit: Unit, buckets: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match=name):
        MetricSpec(name, kind, "help", unit, (), buckets)


@settings(deadline=None)
@given(st.lists(st.floats(0, 20), max_size=30))
def test_a_distribution_is_rendered_as_the_client_library_would(values: list[float]) -> None:
    ours, theirs = Instruments(), CollectorRegistry()
    bounds = (0.5, 1.0, 5.0)
    distribution = ours.distributions(histogram("x_seconds", "help", buckets=bounds)).labels()
    reference = Histogram("inferplane_x_seconds", "help", buckets=bounds, registry=theirs)
    for value in values:
        distribution.observe(value)
        reference.observe(value)

    def samples(registry: CollectorRegistry) -> list[tuple[str, dict[str, str], float]]:
        families = text_string_to_metric_families(generate_latest(registry).decode())
        found = [(s.name, s.labels, s.value) for family in families for s in family.samples]
        return [sample for sample in found if not sample[0].endswith("_created")]

    assert samples(ours.registry) == samples(theirs)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.text(max_size=5), st.text(max_size=5), st.floats()), unique_by=lambda each: each[:2], max_size=8
    ),
    st.lists(st.floats(0, 1e12), max_size=5),
)
def test_a_page_is_what_the_client_library_would_write(cells: list[tuple[str, str, float]], seen: list[float]) -> None:
    instruments = Instruments()
    gauges = instruments.cells(gauge("g", 'a "help"\nwith \\', labels=("z", "a")))
    counters = instruments.cells(counter("c_total", "help", labels=("z", "a")))
    for first, second, value in cells:
        gauges.labels(first, second).set(value)
        counters.labels(first, second).inc(value)
    distribution = instruments.distributions(histogram("x_seconds", "help", buckets=(0.5, 1e6), labels=("m",))).labels(
        "y"
    )
    for value in seen:
        distribution.observe(value)

    def read(text: bytes) -> list[tuple[str, str, str, list[tuple[str, dict[str, str], str]]]]:
        families = text_string_to_metric_families(text.decode())
        return [
            (each.name, each.type, each.documentation, [(s.name, s.labels, repr(s.value)) for s in each.samples])
            for each in families
        ]

    assert read(page(instruments.registry)) == read(generate_latest(instruments.registry))


def test_metrics_are_served_on_their_path_alone() -> None:
    instruments = Instruments()
    cell = instruments.cells(counter("x_total", "help", labels=("a",))).labels("1")
    register_process_metrics(instruments.registry)
    handler = exposition_handler(instruments.registry, refresh=cell.inc)
    good, bad = RecordedExchange(), RecordedExchange()
    handler(Request(b"GET", b"/metrics"), good)
    handler(Request(b"GET", b"/"), bad)

    assert b'inferplane_x_total{a="1"} 1.0' in good.body
    assert bad.status == 404


def test_wrong_labels_are_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="takes the labels"):
        Instruments().cells(counter("x_total", "help", labels=("a",))).labels()
