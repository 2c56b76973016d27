from collections import Counter

from inferplane_api.catalogue import CatalogueRoute
from inferplane_engine.identity import Adapter, seed
from inferplane_router.core.testing import FakeWorker, ask, catalogue, make_core, prompt, resolve, service
from inferplane_router.core.values import Routed, UnknownModel


def test_an_alias_leads_to_the_canonical_name() -> None:
    core = make_core(FakeWorker("d1"), services=[service(served=("tiny", "tiny-alias"))])

    model = resolve(core, "tiny-alias")

    assert (model.asked_name, model.model_name, model.service.name) == ("tiny-alias", "tiny", "chat")
    assert model.facts is not None
    assert model.facts.file_sources == ("d1:8100",)
    assert model.facts.max_model_len == 32768


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    core = make_core(FakeWorker("d1"))

    answer = core.resolve_model("nope")

    assert answer == UnknownModel("nope", ("tiny",))


def test_a_route_spreads_by_weight() -> None:
    services = [service("a", served=("a",)), service("b", served=("b",))]
    routes = [CatalogueRoute(name="any", targets=(("a", 3), ("b", 1), ("gone", 0)))]
    core = make_core(FakeWorker("d1", service="a"), services=services, routes=routes)

    chosen = Counter(resolve(core, "any").service.name for _ in range(400))

    assert 250 < chosen["a"] < 350
    assert chosen["a"] + chosen["b"] == 400


def test_a_target_that_nobody_serves_leaves_its_share_to_the_others() -> None:
    services = [service("a", served=("a",)), service("b", served=("b",))]
    routes = [CatalogueRoute(name="any", targets=(("a", 1), ("gone", 50), ("b", 1), ("gone too", 50)))]
    core = make_core(FakeWorker("d1", service="a"), services=services, routes=routes)

    chosen = Counter(resolve(core, "any").service.name for _ in range(200))

    assert 60 < chosen["a"] < 140
    assert chosen["a"] + chosen["b"] == 200


def test_a_route_to_nowhere_is_no_model() -> None:
    routes = [CatalogueRoute(name="any", targets=(("gone", 1),)), CatalogueRoute(name="some", targets=(("tiny", 1),))]
    core = make_core(FakeWorker("d1"), routes=routes)

    assert core.resolve_model("any") == UnknownModel("any", ("tiny", "some"))


def test_the_older_of_two_services_keeps_a_name_that_both_claim() -> None:
    core = make_core(services=[service("old", served=("x",)), service("new", served=("x", "y"))])

    assert resolve(core, "x").service.name == "old"
    assert resolve(core, "y").service.name == "new"


def test_a_service_without_workers_is_known_but_has_no_facts() -> None:
    core = make_core()

    assert resolve(core).facts is None


def test_an_adapter_is_a_model_name_and_goes_only_where_it_is_loaded() -> None:
    adapter = Adapter("style", "v1")
    workers = [FakeWorker("d1"), FakeWorker("d2", adapters=(adapter,))]
    core = make_core(*workers)

    model = resolve(core, "style")
    answers = [core.pick(ask(core, f"r{number}", prompt(number, 200), name="style"), 0.0) for number in range(6)]

    assert model.adapter == adapter
    assert model.facts is not None
    assert model.facts.seed == seed(workers[1].key_space, adapter)
    assert {answer.decode.worker_id for answer in answers if isinstance(answer, Routed)} == {"d2"}
    assert "style" in core.model_names()


def test_facts_follow_a_change_of_the_catalogue() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    core.apply_catalogue(catalogue([service()], workers[1:]), 1.0)

    facts = resolve(core).facts

    assert facts is not None
    assert facts.file_sources == ("d2:8100",)
