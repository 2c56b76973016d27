"""Leadership in virtual time, with clocks that disagree."""

import asyncio
from dataclasses import dataclass, field

import pytest

from inferplane_operator.cluster.kinds import LEASE
from inferplane_operator.cluster.leases import ObjectLeases
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.testing import FakeCluster
from inferplane_operator.cluster.transport import Answer
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.kube.leadership import Leadership, LeaseName, LeaseTimes, NotLeadingError

pytestmark = pytest.mark.anyio
TIMES = LeaseTimes(duration_s=15.0, renew_deadline_s=10.0, retry_s=2.0)


class EnoughError(Exception):
    """Ends a loop that would run for ever."""


@dataclass
class Candidate:
    cluster: FakeCluster
    name: str
    skew_s: float = 0.0
    clock: FakeClock = field(default_factory=FakeClock)
    sleeps: int = 0
    patience: int = 1000

    def __post_init__(self) -> None:
        name = LeaseName("ns", "lease")
        self.leadership = Leadership(
            ObjectLeases(Objects(self.cluster), name),
            name,
            identity=self.name,
            times=TIMES,
            now=self.clock.monotonic,
            wall=lambda: self.clock.wall() + self.skew_s,
            sleep=self._sleep,
        )

    async def tries(self, seconds: float) -> bool:
        """Try to lead for that long."""
        self.patience = self.sleeps + int(seconds / TIMES.retry_s)
        try:
            await self.leadership.acquire()
        except EnoughError:
            return False
        finally:
            self.patience = 1000
        return True

    async def _sleep(self, seconds: float) -> None:
        self.sleeps += 1
        if self.sleeps > self.patience:
            raise EnoughError
        self.clock.advance(seconds)
        await asyncio.sleep(0)


def spec(cluster: FakeCluster) -> dict[str, object]:
    lease = cluster.get(LEASE, "ns", "lease")
    assert lease is not None
    found: dict[str, object] = lease["spec"]
    return found


async def test_the_first_one_leads_and_the_second_one_waits() -> None:
    cluster = FakeCluster()
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")

    assert await first.tries(0)
    assert not await second.tries(TIMES.duration_s - 3)
    assert spec(cluster)["holderIdentity"] == "first"
    first.leadership.check()
    with pytest.raises(NotLeadingError):
        second.leadership.check()


async def test_a_holder_that_is_silent_for_the_duration_is_succeeded() -> None:
    cluster = FakeCluster()
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    await first.tries(0)

    assert await second.tries(TIMES.duration_s + 4)
    assert second.clock.monotonic() - 1000.0 >= TIMES.duration_s
    assert spec(cluster)["holderIdentity"] == "second"
    assert spec(cluster)["leaseTransitions"] == 1


@pytest.mark.parametrize("skew_s", [-86400.0, 86400.0], ids=["a day slow", "a day fast"])
async def test_a_holder_whose_clock_is_wrong_keeps_the_lease_while_it_renews(skew_s: float) -> None:
    cluster = FakeCluster()
    first, second = Candidate(cluster, "first", skew_s=skew_s), Candidate(cluster, "second")
    await first.tries(0)
    for _ in range(30):
        first.clock.advance(2.0)
        assert await first.leadership.attempt()
        assert not await second.tries(2.0)

    assert spec(cluster)["holderIdentity"] == "first"


async def test_a_leader_that_cannot_renew_stops_before_anybody_else_may_begin() -> None:
    cluster = FakeCluster()
    leader = Candidate(cluster, "leader")
    await leader.tries(0)
    cluster.failures = [None] * 100
    began = leader.clock.monotonic()
    await leader.leadership.hold()

    with pytest.raises(NotLeadingError):
        leader.leadership.check()
    assert leader.clock.monotonic() - began < TIMES.duration_s


async def test_a_leader_that_was_cut_off_for_long_leads_again_where_nobody_else_does() -> None:
    cluster = FakeCluster()
    leader = Candidate(cluster, "leader")
    await leader.tries(0)
    cluster.failures = [None] * 20
    await leader.leadership.hold()
    assert not leader.leadership.leads

    assert await leader.leadership.regain()
    assert cluster.failures == []
    assert spec(cluster)["leaseTransitions"] == 0
    leader.leadership.check()


async def test_a_leader_that_was_cut_off_gives_in_to_who_took_over_meanwhile() -> None:
    cluster = FakeCluster()
    leader, next_one = Candidate(cluster, "leader"), Candidate(cluster, "next one")
    await leader.tries(0)
    cluster.failures = [None] * 6
    await leader.leadership.hold()
    cluster.failures = []
    await next_one.tries(TIMES.duration_s + 4)

    assert not await leader.leadership.regain()
    with pytest.raises(NotLeadingError):
        leader.leadership.check()
    next_one.leadership.check()


async def test_a_short_outage_costs_nothing() -> None:
    cluster = FakeCluster()
    leader = Candidate(cluster, "leader")
    await leader.tries(0)
    cluster.failures = [None, Answer(503, b""), None]
    leader.patience = leader.sleeps + 8
    with pytest.raises(EnoughError):
        await leader.leadership.hold()

    leader.leadership.check()


async def test_a_lease_that_was_taken_away_stops_the_leader_at_once() -> None:
    cluster = FakeCluster()
    leader = Candidate(cluster, "leader")
    await leader.tries(0)
    cluster.edit(LEASE, "ns", "lease", {"spec": {"holderIdentity": "thief", "renewTime": "now"}})
    await leader.leadership.hold()

    assert not leader.leadership.leads
    assert leader.sleeps == 1


async def test_a_lease_that_was_given_back_is_taken_at_once() -> None:
    cluster = FakeCluster()
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    await first.tries(0)
    await first.leadership.release()

    assert not first.leadership.leads
    assert await second.tries(0)


async def test_only_one_of_two_that_try_at_the_same_moment_leads() -> None:
    cluster = FakeCluster()
    candidates = [Candidate(cluster, str(number)) for number in range(5)]
    led = await asyncio.gather(*(candidate.tries(4) for candidate in candidates))

    assert sum(led) == 1


async def test_the_time_of_a_renewal_counts_from_before_it_was_sent() -> None:
    """An answer that took nine seconds leaves one, not ten."""
    leader = Candidate(FakeCluster(admission=lambda _: leader.clock.advance(9.0)), "leader")
    await leader.tries(0)
    leader.clock.advance(1.5)

    with pytest.raises(NotLeadingError):
        leader.leadership.check()
