"""One process writes: leadership by a Lease, safe although clocks differ.

Problem.  Two processes that write at once would undo each other's work; and a holder's clock may be hours off.
Idea.  No time in the Lease is compared with our clock: what counts is when *we* saw the record change.  A record that
did not change for its own duration, by our monotonic clock, has no living holder.  A holder that cannot renew for
`renew_deadline_s` stops writing by itself, earlier than anybody else may begin.
Trade-off.  After a crash nobody leads for one lease duration; one that ends in order gives the Lease back, and one that
was cut off for longer than its deadline asks on (`regain`): as long as nobody else has written, the Lease is still its.
Invariant.  `check` passes only while less than `renew_deadline_s` have passed since *before* the last renewal was sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, cast

import structlog

_log = structlog.get_logger("inferplane.kube")
_API_VERSION: Final = "coordination.k8s.io/v1"
Lease = Mapping[str, Any]


class NotLeadingError(Exception):
    """Somebody else may be writing by now."""


class LeaseError(Exception):
    """The Lease cannot be reached."""


class LeaseTakenError(LeaseError):
    """Somebody was faster."""


class Leases(Protocol):
    """Where the one Lease is; every failure is a `LeaseError`."""

    async def read(self) -> Lease | None:
        """Return it; None: there is none."""
        ...

    async def create(self, lease: Lease) -> Lease:
        """Raise LeaseTakenError where there is one."""
        ...

    async def replace(self, lease: Lease) -> Lease:
        """Raise LeaseTakenError where it is not the one that was read."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds."""

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


@dataclass(frozen=True, slots=True)
class LeaseName:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The record as it was when it last changed, and when that was seen."""

    record: tuple[str, str, int]
    at: float


def record_of(lease: Lease) -> tuple[str, str, int]:
    spec = _part(lease, "spec")
    holder, renewed = (str(spec.get(key) or "") for key in ("holderIdentity", "renewTime"))
    return holder, renewed, int(spec.get("leaseTransitions") or 0)


def may_take(lease: Lease, seen: Seen, *, identity: str, now: float, duration_s: float) -> bool:
    """Say whether the Lease is ours, given up, or its holder has been silent for its duration."""
    holder = record_of(lease)[0]
    if holder in ("", identity):
        return True
    stated = _part(lease, "spec").get("leaseDurationSeconds")
    return now - seen.at >= float(stated or duration_s)


class Leadership:
    """Holds the Lease, or waits for it."""

    def __init__(
        self,
        leases: Leases,
        lease: LeaseName,
        *,
        identity: str,
        times: LeaseTimes,
        now: Callable[[], float],
        wall: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._leases = leases
        self._lease = lease
        self._identity = identity
        self._times = times
        self._now = now
        self._wall = wall
        self._sleep = sleep
        self._seen: Seen | None = None
        self._renewed: float | None = None

    @property
    def leads(self) -> bool:
        return self._renewed is not None and self._now() - self._renewed < self._times.renew_deadline_s

    def check(self) -> None:
        """Raise NotLeadingError unless the Lease is held for certain."""
        if not self.leads:
            raise NotLeadingError(f"the Lease {self._lease.namespace}/{self._lease.name} is not held")

    async def acquire(self) -> None:
        """Return when this process leads."""
        waited_for = None
        while not await self.attempt():
            holder = self._seen.record[0] if self._seen else ""
            if holder and holder != waited_for:
                _log.info("waiting for the Lease", holder=holder)
                waited_for = holder
            await self._sleep(self._times.retry_s)
        _log.info("leading", identity=self._identity)

    async def hold(self) -> None:
        """Renew until leadership is lost, or not certain any more; then return."""
        while True:
            await self._sleep(self._times.retry_s)
            if not await self.attempt() and not self.leads:
                self._renewed = None
                said = "lost the Lease" if self._is_anothers else "the Lease cannot be renewed, and nothing is written"
                _log.error(said, holder=self._seen.record[0] if self._seen else "unknown")
                return

    async def regain(self) -> bool:
        """Ask on after `hold`: True once this process leads again, False once somebody else has the Lease."""
        while not await self.attempt():
            if self._is_anothers:
                return False
            await self._sleep(self._times.retry_s)
        _log.info("leading again", identity=self._identity)
        return True

    @property
    def _is_anothers(self) -> bool:
        return self._seen is not None and self._seen.record[0] not in ("", self._identity)

    async def release(self) -> None:
        """Give the Lease up, so that the next operator need not wait; failing is no harm."""
        if not self.leads:
            return
        self._renewed = None
        try:
            lease = await self._leases.read()
            if lease is not None and record_of(lease)[0] == self._identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._leases.replace({**lease, "spec": spec})
        except LeaseError as error:
            _log.info("the Lease was not given back", problem=str(error))

    async def attempt(self) -> bool:
        """Take or renew the Lease; False where somebody else has it or nothing could be found out."""
        began = self._now()
        try:
            async with asyncio.timeout(max(self._times.retry_s, self._times.renew_deadline_s / 2)):
                done = await self._take()
        except TimeoutError:
            _log.warning("the Lease cannot be reached", problem="no answer in time")
            return False
        except LeaseTakenError:
            return False
        except LeaseError as error:
            _log.warning("the Lease cannot be reached", problem=str(error))
            return False
        if done:
            self._renewed = began
        elif self._renewed is not None:
            self._renewed = None  # somebody else has it: at once, whatever our deadline
        return done

    async def _take(self) -> bool:
        lease = await self._leases.read()
        if lease is None:
            self._note(await self._leases.create(self._manifest({}, transitions=0)))
            return True
        self._note(lease)
        if self._seen is None or not may_take(
            lease, self._seen, identity=self._identity, now=self._now(), duration_s=self._times.duration_s
        ):
            return False
        holder, _, transitions = record_of(lease)
        taken = self._manifest(lease, transitions=transitions + (holder != self._identity))
        self._note(await self._leases.replace(taken))
        return True

    def _note(self, lease: Lease) -> None:
        record = record_of(lease)
        if self._seen is None or self._seen.record != record:
            self._seen = Seen(record, self._now())

    def _manifest(self, lease: Lease, *, transitions: int) -> dict[str, Any]:
        spec = _part(lease, "spec")
        now = datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        keeps = spec.get("holderIdentity") == self._identity
        return {
            "apiVersion": _API_VERSION,
            "kind": "Lease",
            "metadata": _part(lease, "metadata") or {"namespace": self._lease.namespace, "name": self._lease.name},
            "spec": {
                **spec,
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._times.duration_s)),
                "acquireTime": spec.get("acquireTime") if keeps else now,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }


def _part(value: Lease, key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
