"""A request for an adapter goes where the adapter is, and a name that is not loaded yet is not an unknown one."""

from inferplane_api.catalogue import CatalogueService
from inferplane_engine.identity import Adapter
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, ask, catalogue, make_core, prompt, resolve, service
from inferplane_router.core.values import RefusalReason, Refused, Routed, UnknownModel

V1, V2 = Adapter("style", "1"), Adapter("style", "2")


def offering(*names: str, name: str = "chat", served: tuple[str, ...] = ("tiny",)) -> CatalogueService:
    return service(name, served=served).model_copy(update={"adapters": names})


def place(core: RouterCore, request_id: str = "r", *, name: str = "style") -> Routed | Refused:
    answer = core.pick(ask(core, request_id, prompt(1, 200), name=name), 0.0)
    assert isinstance(answer, Routed | Refused)
    return answer


def test_a_name_that_is_loaded_nowhere_is_refused_in_words_and_for_now() -> None:
    core = make_core(FakeWorker("d1"), services=[offering("style")])

    answer = place(core)

    assert isinstance(answer, Refused)
    assert answer.reason is RefusalReason.NO_WORKERS
    assert answer.retry_after_s > 0
    assert answer.message == "adapter style is not loaded on any worker of service chat yet"
    assert "style" in core.model_names()
    assert isinstance(core.resolve_model("other"), UnknownModel)


def test_it_is_served_as_soon_as_a_worker_says_so() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker, services=[offering("style")])
    place(core, "r1")
    worker.adapters = (V1,)
    core.on_worker_message("d1", worker.identity(), 1.0)

    answer = place(core, "r2")

    assert isinstance(answer, Routed)
    assert resolve(core, "style").adapter == V1


def test_of_two_revisions_the_one_that_more_workers_have_is_asked_for() -> None:
    workers = [FakeWorker("d1", adapters=(V1,)), FakeWorker("d2", adapters=(V1,)), FakeWorker("d3", adapters=(V1,))]
    core = make_core(*workers, services=[offering("style")])
    asked = [resolve(core, "style").adapter]
    for worker in workers:
        worker.adapters = (V2,)
        core.on_worker_message(worker.worker_id, worker.identity(), 1.0)
        asked.append(resolve(core, "style").adapter)

    assert asked == [V1, V1, V2, V2]


def test_of_two_that_equally_many_have_it_is_the_newer() -> None:
    workers = [FakeWorker("d1", adapters=(V1,)), FakeWorker("d2", adapters=(V1,))]
    core = make_core(*workers, services=[offering("style")])
    workers[1].adapters = (V2,)
    core.on_worker_message("d2", workers[1].identity(), 1.0)

    assert resolve(core, "style").adapter == V2


def test_a_request_that_came_under_a_replaced_revision_is_placed_under_todays() -> None:
    worker = FakeWorker("d1", adapters=(V1,))
    core = make_core(worker, services=[offering("style")])
    early = ask(core, "r", prompt(1, 200), name="style")
    worker.adapters = (V2,)
    core.on_worker_message("d1", worker.identity(), 1.0)

    assert isinstance(core.pick(early, 1.0), Routed)


def test_an_adapter_is_of_the_service_that_offers_it() -> None:
    services = [offering(name="a", served=("a",)), offering("style", name="b", served=("b",))]
    workers = [FakeWorker("d1", service="a", adapters=(V1,)), FakeWorker("d2", service="b", adapters=(V1,))]
    core = make_core(*workers, services=services)

    assert resolve(core, "style").service.name == "b"
    core.apply_catalogue(catalogue(services[:1], workers[:1]), 1.0)
    assert resolve(core, "style").service.name == "a"
