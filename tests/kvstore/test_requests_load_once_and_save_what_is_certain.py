from hypothesis import given
from hypothesis import strategies as st

from inferplane_kv_connector.keys import NOBODY, extend
from inferplane_kv_connector.planning import Move, RequestPlan, Save
from inferplane_kv_connector.worth import Worth

SIZE = 4
ROOT = b"root"


def plan_of(prompt: list[int], *, guesses: bool = False) -> RequestPlan:
    plan = RequestPlan(ROOT, NOBODY, SIZE, len(prompt), guesses)
    plan.name(prompt)
    return plan


def test_the_last_token_is_left_to_the_engine() -> None:
    plan = plan_of(list(range(8)))

    assert plan.offer(["dram"] * 2, 0, 8, Worth(SIZE)) == 4
    assert plan_of(list(range(9))).offer(["dram"] * 2, 0, 9, Worth(SIZE)) == 8


def test_what_the_engine_has_is_not_loaded() -> None:
    plan = plan_of(list(range(12)))

    assert plan.offer(["dram"] * 3, 4, 13, Worth(SIZE)) == 8
    assert plan.load([70, 71, 72], 8) == [Move(plan.keys[1], 71), Move(plan.keys[2], 72)]
    assert plan_of(list(range(12))).offer(["dram"] * 1, 4, 13, Worth(SIZE)) == 0


def test_a_request_loads_at_most_once() -> None:
    plan = plan_of(list(range(12)))
    plan.offer(["dram"] * 3, 0, 13, Worth(SIZE))
    assert len(plan.load([1, 2, 3], 12)) == 3

    assert plan.offer(["dram"] * 3, 0, 13, Worth(SIZE)) == 0
    assert plan.load([1, 2, 3], 12) == []


def test_a_block_is_saved_in_the_step_that_fills_it() -> None:
    prompt = list(range(10))
    plan = plan_of(prompt)
    plan.place([5, 6, 7], anew=True)

    assert plan.computed(4, prompt) == [Save(plan.keys[0], 5, NOBODY)]
    assert plan.computed(10, prompt) == [Save(plan.keys[1], 6, NOBODY)]
    assert plan.computed(11, [*prompt, 90, 91]) == []
    saved = plan.computed(12, [*prompt, 90, 91])
    assert saved == [Save(extend(ROOT, [*prompt, 90, 91], SIZE)[2], 7, NOBODY)]


def test_tokens_that_are_not_final_are_not_saved() -> None:
    prompt = list(range(4))
    guessing, sure = plan_of(prompt, guesses=True), plan_of(prompt)
    for plan in (guessing, sure):
        plan.place([5, 6], anew=True)
        plan.computed(4, prompt)

    assert guessing.computed(8, [*prompt, 1, 2, 3, 4]) == []
    assert sure.computed(8, [*prompt, 1, 2, 3]) == []  # the engine is a token ahead of what it has said
    assert len(sure.computed(9, [*prompt, 1, 2, 3, 4])) == 1


def test_a_request_that_begins_again_has_other_blocks() -> None:
    prompt = list(range(12))
    plan = plan_of(prompt)
    plan.place([5, 6], anew=True)
    plan.computed(4, prompt)
    plan.place([8, 9, 10], anew=True)

    assert [save.block for save in plan.computed(12, prompt)] == [9, 10]


@given(
    prompt=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    found=st.integers(0, 9),
    steps=st.lists(st.integers(1, 7)),
)
def test_every_saved_block_bears_the_name_of_its_tokens(prompt: list[int], found: int, steps: list[int]) -> None:
    plan, tokens = plan_of(prompt), list(prompt)
    plan.place(range(100, 100 + len(prompt) // SIZE + 1), anew=True)
    plan.offer(["dram"] * min(found, len(prompt) // SIZE), 0, len(prompt), Worth(SIZE))
    computed, saves = 0, list[Save]()
    for step in steps:
        computed = min(computed + step, len(tokens))
        saves += plan.computed(computed, tokens)
        if computed == len(tokens):
            tokens.append(step)
            if len(tokens) > SIZE * len(plan.blocks):
                plan.place([100 + len(plan.blocks)], anew=False)
    names = extend(ROOT, tokens, SIZE)

    assert [save.key for save in saves] == [names[save.block - 100] for save in saves]
    assert all((save.block - 100 + 1) * SIZE <= computed for save in saves)
