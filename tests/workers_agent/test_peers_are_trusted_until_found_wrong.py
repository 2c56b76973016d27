"""The bookkeeping of transfer checks."""

from hypothesis import given
from hypothesis import strategies as st

from inferplane_workers.agent.peers import Peers

INTERVAL_S = 10.0


def peers_with(*addresses: str, at: float = 0.0) -> Peers:
    peers = Peers(interval_s=INTERVAL_S)
    for address in addresses:
        peers.used(address, at)
    return peers


def test_a_stranger_is_trusted_and_checked_after_its_first_use() -> None:
    peers = Peers(interval_s=INTERVAL_S)

    assert peers.trusted("p:1", "r")
    assert peers.due(0.0) is None

    peers.used("p:1", 1.0)

    assert peers.due(1.0) == "p:1"


def test_a_wrong_answer_takes_trust_away_and_a_right_one_gives_it_back() -> None:
    peers = peers_with("p:1")

    assert peers.judged("p:1", 1.0, good=False)
    assert not peers.trusted("p:1", "r")
    assert peers.distrusted == 1
    assert peers.due(1.0 + INTERVAL_S) == "p:1"  # although nobody uses it

    assert peers.judged("p:1", 2.0 + INTERVAL_S, good=True)
    assert peers.trusted("p:1", "r")


def test_the_check_itself_may_use_whom_nobody_else_may() -> None:
    peers = peers_with("p:1")
    peers.judged("p:1", 1.0, good=False)
    peers.begin("check")

    assert peers.trusted("p:1", "check")
    assert not peers.trusted("p:1", "r")


def test_a_good_peer_that_nobody_uses_is_not_checked_again_and_forgotten() -> None:
    peers = peers_with("p:1")
    peers.judged("p:1", 1.0, good=True)

    assert peers.due(1.0 + INTERVAL_S) is None

    peers.used("p:1", 2.0)

    assert peers.due(1.0 + INTERVAL_S) == "p:1"
    assert peers.due(3.0 + 2 * INTERVAL_S) is None
    assert not peers.judged("p:1", 40.0, good=False)


@given(st.lists(st.sampled_from([True, False, None])))
def test_trust_follows_the_last_check_that_could_be_made(results: list[bool | None]) -> None:
    peers = peers_with("p:1")
    for number, result in enumerate(results):
        peers.judged("p:1", float(number), good=result)

    made = [result for result in results if result is not None]

    assert peers.trusted("p:1", "r") == (made[-1] if made else True)


@given(st.sets(st.sampled_from("abcdef"), min_size=1))
def test_every_peer_in_use_gets_its_turn(addresses: set[str]) -> None:
    peers = peers_with(*sorted(addresses))
    seen: set[str] = set()
    for _ in addresses:
        address = peers.due(0.0)
        assert address is not None
        seen.add(address)
        peers.judged(address, 0.0, good=True)

    assert seen == addresses
    assert peers.due(0.0) is None
