"""Numbers of batches: gaps, replays, losses, restarts."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.kv_events import Sequencer, Step


def started(replayed: int = 0) -> Sequencer[str]:
    sequencer: Sequencer[str] = Sequencer()
    sequencer.begin()
    for number in range(replayed):
        sequencer.replayed(number, float(number), f"b{number}")
    sequencer.replay_ended()
    return sequencer


def test_it_begins_with_a_replay_of_everything() -> None:
    assert Sequencer[str]().begin() == Step(replay_from=0)


def test_batches_in_order_are_delivered_at_once() -> None:
    sequencer = started()

    assert [sequencer.live(n, float(n), f"b{n}") for n in range(2)] == [Step(deliver=("b0",)), Step(deliver=("b1",))]


def test_a_gap_is_filled_by_a_replay_and_what_came_meanwhile_follows() -> None:
    sequencer = started(replayed=1)

    assert sequencer.live(3, 3.0, "b3") == Step(replay_from=1)
    assert sequencer.live(4, 4.0, "b4") == Step()
    assert sequencer.replayed(1, 1.0, "b1") == Step(deliver=("b1",))
    assert sequencer.replayed(2, 2.0, "b2") == Step(deliver=("b2",))
    assert sequencer.replayed(3, 3.0, "b3") == Step(deliver=("b3",))
    assert sequencer.replay_ended() == Step(deliver=("b4",))


def test_what_the_replay_no_longer_has_is_reported_lost() -> None:
    sequencer = started(replayed=1)
    sequencer.live(9, 9.0, "b9")

    assert sequencer.replayed(5, 5.0, "b5") == Step(lost=(range(1, 5),), deliver=("b5",))
    assert sequencer.replay_ended() == Step(lost=(range(6, 9),), deliver=("b9",))


def test_a_replay_that_gives_nothing_makes_the_gap_a_loss() -> None:
    sequencer = started(replayed=1)
    sequencer.live(4, 4.0, "b4")

    assert sequencer.replay_ended() == Step(lost=(range(1, 4),), deliver=("b4",))


def test_batches_that_a_replay_delivered_are_not_delivered_again() -> None:
    sequencer = started(replayed=3)

    assert sequencer.live(2, 2.0, "b2") == Step()
    assert sequencer.live(3, 3.0, "b3") == Step(deliver=("b3",))


def test_a_number_that_goes_back_in_later_time_is_a_restart() -> None:
    sequencer = started(replayed=3)

    assert sequencer.live(0, 100.0, "new0") == Step(restarted=True, deliver=("new0",))
    assert sequencer.live(1, 101.0, "new1") == Step(deliver=("new1",))


def test_a_restart_whose_first_batches_were_missed_asks_for_them() -> None:
    sequencer = started(replayed=3)

    assert sequencer.live(1, 100.0, "new1") == Step(restarted=True, replay_from=0)
    assert sequencer.replayed(0, 99.0, "new0") == Step(deliver=("new0",))
    assert sequencer.replay_ended() == Step(deliver=("new1",))


def test_a_restart_that_is_known_otherwise_forgets_everything() -> None:
    sequencer = started(replayed=3)

    assert sequencer.restart() == Step(restarted=True, replay_from=0)
    assert sequencer.expected == 0


def test_batches_held_during_a_replay_are_bounded() -> None:
    sequencer: Sequencer[str] = Sequencer(max_held=2)
    sequencer.begin()
    sequencer.live(1, 1.0, "b1")
    sequencer.live(2, 2.0, "b2")

    assert sequencer.live(3, 3.0, "b3") == Step(lost=(range(1),), deliver=("b1", "b2", "b3"))
    assert not sequencer.replaying


@dataclass
class Subscriber:
    """Follows the steps as the agent does; the engine's replay buffer is a list."""

    buffer: int
    sequencer: Sequencer[int] = field(default_factory=Sequencer[int])
    published: list[int] = field(default_factory=list[int])
    got: list[int] = field(default_factory=list[int])
    lost: set[int] = field(default_factory=set[int])

    def follow(self, step: Step[int]) -> None:
        self.lost.update(*step.lost)
        self.got.extend(step.deliver)
        if step.replay_from is not None:
            for number in self.published[-self.buffer :] if self.buffer else []:
                if number >= step.replay_from:
                    self.follow(self.sequencer.replayed(number, float(number), number))
            self.follow(self.sequencer.replay_ended())


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=40), st.integers(0, 10), st.integers(0, 40))
def test_every_batch_is_delivered_once_and_in_order_or_reported_lost(
    arrives: list[bool], buffer: int, connect_at: int
) -> None:
    subscriber = Subscriber(buffer)
    for number, arrived in enumerate(arrives):
        subscriber.published.append(number)
        if number == connect_at:
            subscriber.follow(subscriber.sequencer.begin())
        elif number > connect_at and arrived:
            subscriber.follow(subscriber.sequencer.live(number, float(number), number))

    seen = range(subscriber.sequencer.expected)
    assert subscriber.got == sorted(set(subscriber.got))
    assert sorted({*subscriber.got, *subscriber.lost}) == list(seen)
    assert not subscriber.lost & set(subscriber.got)
