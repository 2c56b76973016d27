"""The built-in policy fuses posing, appraising and picking; what derives from it is run step by step."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_api.proto.worker_pb2 import OUTCOME_OK
from inferplane_router.core.plugins import POLICIES, chooser_of
from inferplane_router.core.plugins.kv_aware import KvAware
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import BLOCK, FakeWorker, ask, connect, make_core, prompt, service
from inferplane_router.core.values import Answer


class InSteps(KvAware):
    """What somebody might derive: the same choice, but by appraisal and pick of its own."""


@dataclass(frozen=True)
class Step:
    """One request; it may be the end of one before."""

    prompt: int
    tokens: int
    priority: int
    completes: int | None


workers = st.lists(
    st.builds(
        FakeWorker,
        st.just(""),
        role=st.sampled_from(WorkerRole),
        revision=st.sampled_from(["r1", "r2"]),
        zone=st.sampled_from(["a", "b"]),
        max_num_seqs=st.sampled_from([0, 1, 3]),
        can_prefill=st.booleans(),
    ),
    min_size=1,
    max_size=9,
)
steps = st.lists(
    st.builds(
        Step,
        prompt=st.integers(0, 2),
        tokens=st.integers(1, 12 * BLOCK),
        priority=st.integers(-2, 2),
        completes=st.none() | st.integers(0, 5),
    ),
    max_size=12,
)


def answers(core: RouterCore, fleet: list[FakeWorker], course: list[Step]) -> list[tuple[Answer, object]]:
    """Return each step's answer and record."""
    connect(core, *fleet)  # the fakes speak to one core after the other, and count their messages anew
    for number, worker in enumerate(fleet):
        held = worker.hashes(prompt(number % 3, 12 * BLOCK))[: 3 * number]
        core.on_worker_message(worker.worker_id, worker.delta(stored=held), 0.0)
    found: list[tuple[Answer, object]] = []
    for number, step in enumerate(course):
        if step.completes is not None:
            core.complete(f"r{step.completes}", OUTCOME_OK, float(number))
        question = replace(ask(core, f"r{number}", prompt(step.prompt, step.tokens)), priority=step.priority)
        found.append((core.pick(question, float(number)), core.explain(f"r{number}")))
    return found


IN_STEPS = {**POLICIES, KvAware.name: InSteps}
# No router runs the pick of the built-in policy by itself: compiled here, no test's time limit pays for it.
answers(make_core(FakeWorker("w0"), policies=IN_STEPS), [FakeWorker("w0")], [Step(0, BLOCK, 0, None)])


@pytest.mark.slow
@given(fleet=workers, course=steps, mode=st.sampled_from(RoutingMode))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_both_answer_the_same_and_explain_it_the_same(
    fleet: list[FakeWorker], course: list[Step], mode: RoutingMode
) -> None:
    for number, worker in enumerate(fleet):
        worker.worker_id = f"w{number}"
    at_once, in_steps = (
        make_core(*fleet, services=[service(mode=mode)], policies=policies) for policies in (POLICIES, IN_STEPS)
    )

    expected = answers(in_steps, fleet, course)

    assert str(answers(at_once, fleet, course)) == str(expected)


def test_only_the_built_in_policy_itself_chooses_at_once() -> None:
    built_in, derived = KvAware(), InSteps()

    assert chooser_of(built_in) == built_in.decide
    assert chooser_of(derived) != derived.decide
