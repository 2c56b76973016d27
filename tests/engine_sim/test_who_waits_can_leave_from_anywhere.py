"""A line of waiting sequences keeps its order whoever leaves it."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.events import EngineRequest
from inferplane_engine.sim.line import Line
from inferplane_engine.sim.sequence import Sequence
from inferplane_engine.sim.testing import run

_STEPS = st.lists(st.tuples(st.sampled_from(["append", "push", "take", "leave"]), st.integers(0, 5)), max_size=40)


def sequence(name: str) -> Sequence:
    return Sequence(EngineRequest(name, (1,), 1), 1, 0.0, 1)


@given(steps=_STEPS)
def test_a_line_is_a_queue_that_can_be_left_anywhere(steps: list[tuple[str, int]]) -> None:
    people = [sequence(f"r{index}") for index in range(6)]
    line = Line()
    model: deque[Sequence] = deque()
    for step, index in steps:
        who = people[index]
        if step == "take":
            assert [line.take()] == [model.popleft()] if model else len(line) == 0
        elif step == "leave":
            line.leave(who)
            model = deque(other for other in model if other is not who)
        elif who not in model:
            (line.append if step == "append" else line.push)(who)
            (model.append if step == "append" else model.appendleft)(who)
        assert len(line) == len(model)
        assert not model or line.first is model[0]


def test_who_leaves_while_others_wait_is_gone_and_the_others_are_served() -> None:
    config = EngineConfig(blocks=100, block_size=4, max_model_len=64, max_num_seqs=1)
    workload = [(0.0, EngineRequest(f"r{index}", (7, 8, index), 4, ignore_eos=True)) for index in range(6)]
    engine, events = run(config, workload, ((0.0, "r4"), (0.0, "r2")))

    assert engine.held_blocks == 0
    assert {getattr(event, "request_id", "") for event in events} >= {f"r{index}" for index in range(6)}
