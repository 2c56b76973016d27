"""What is wrong with an instance, from facts already gathered: pure, one finding for each thing looked at.

A finding that is not ok says what was found and what to do; the fixes are the same words everywhere, so that they can
be searched for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inferplane_api.proto import worker_pb2
from inferplane_operator.local.status import ChildStatus, InstancePhase, Status, WorkerPhase, WorkerStatus


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What an agent says of its worker; `problem` when it could not be asked."""

    status: worker_pb2.WorkerStatus | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RoutingFacts:
    """What the router's metrics say of its workers; `problem` when they could not be read."""

    approximate: Mapping[str, str] = field(default_factory=dict[str, str])
    """Worker to the cause for which the router does not believe its events."""
    compared: int = 0
    """Finished requests whose predicted cached tokens were compared with the engine's."""
    mispredicted: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """How one worker's blocks in the router's index compare with those that the worker has."""

    blocks: int = 0
    """How many the worker has, in all tiers of its own."""
    differences: tuple[str, ...] = ()
    """What differs, a line for each rank and tier."""
    problem: str = ""
    """Why they could not be compared."""


@dataclass(frozen=True, slots=True)
class Facts:
    status: Status
    runner_alive: bool
    gateway_problem: str = ""
    agents: Mapping[str, AgentFacts] = field(default_factory=dict[str, AgentFacts])
    routing: RoutingFacts = field(default_factory=RoutingFacts)
    index: Mapping[str, IndexFacts] = field(default_factory=dict[str, IndexFacts])


def diagnose(facts: Facts) -> list[Finding]:
    if not facts.runner_alive:
        return [
            Finding(
                "runner", ok=False, detail="it is not running", fix="run `inferplane up -f FILE`; see its log first"
            )
        ]
    status = facts.status
    findings = [Finding("runner", ok=True, detail=f"pid {status.runner_pid}"), _instance(status)]
    findings.append(_gateway(facts))
    for worker in status.workers:
        findings.append(_worker(worker))
        ready = worker.phase is WorkerPhase.READY
        findings += [it for child in (worker.agent, worker.engine) if child for it in _crashes(child, serves=ready)]
        findings += _events(worker, facts.agents.get(worker.name, AgentFacts(problem="was not asked")))
    if status.router:
        findings += _crashes(status.router, serves=not facts.gateway_problem)
    return [*findings, *_routing(facts.routing), *_indexes(facts.index)]


def _instance(status: Status) -> Finding:
    ok = status.phase in (InstancePhase.READY, InstancePhase.PROGRESSING)
    return Finding("instance", ok=ok, detail=f"{status.phase.value}{f': {status.message}' if status.message else ''}")


def _gateway(facts: Facts) -> Finding:
    if facts.gateway_problem:
        return Finding("gateway", ok=False, detail=facts.gateway_problem, fix="see `inferplane logs router`")
    return Finding("gateway", ok=True, detail=f"answers at {facts.status.url}")


def _worker(worker: WorkerStatus) -> Finding:
    bad = worker.phase in (WorkerPhase.CRASH_LOOP, WorkerPhase.NOT_READY, WorkerPhase.PENDING)
    detail = f"{worker.phase.value}{f': {worker.reason}' if worker.reason else ''}"
    return Finding(worker.name, ok=not bad, detail=detail, fix=f"see `inferplane logs {worker.name}`" if bad else "")


def _crashes(child: ChildStatus, *, serves: bool) -> list[Finding]:
    """Tell of processes that ended by themselves; what serves again is no problem, unless it keeps happening."""
    if not child.restarts:
        return []
    last = f"; its last line: {child.last_log[-1]}" if child.last_log else ""
    detail = f"ended by itself {child.restarts} times, last: {child.last_exit}{last}"
    fix = f"see `inferplane logs {child.name}`"
    return [Finding(f"{child.name} process", ok=serves and not child.crash_looping, detail=detail, fix=fix)]


_EVENTS = {
    worker_pb2.KV_EVENTS_OFF: (
        "the engine publishes none: the router only guesses what is cached",
        "turn KV events on in the engine's arguments",
    ),
    worker_pb2.KV_EVENTS_SUSPECT: (
        "events were lost and replay could not close the gap",
        "wait for the engine's cache to turn over, or restart the worker",
    ),
}


def _events(worker: WorkerStatus, agent: AgentFacts) -> list[Finding]:
    check = f"{worker.name} kv events"
    if worker.phase is not WorkerPhase.READY:
        return []
    if agent.status is None:
        return [Finding(check, ok=False, detail=agent.problem, fix=f"see `inferplane logs {worker.name}-agent`")]
    found = [_events_finding(check, agent.status)]
    if agent.status.canary == worker_pb2.CANARY_FAILED:
        detail = "the known prompt got a wrong answer: the engine computes nonsense"
        found.append(Finding(f"{worker.name} canary", ok=False, detail=detail, fix="restart the worker; check weights"))
    if agent.status.transport_degraded:
        detail = f"KV moves over {agent.status.transport}, worse than what was asked for"
        found.append(Finding(f"{worker.name} transport", ok=False, detail=detail, fix="check the fabric's drivers"))
    return found


def _events_finding(check: str, status: worker_pb2.WorkerStatus) -> Finding:
    bad = _EVENTS.get(status.kv_events)
    if bad:
        return Finding(check, ok=False, detail=bad[0], fix=bad[1])
    return Finding(check, ok=True, detail="published and complete")


def _routing(routing: RoutingFacts) -> list[Finding]:
    if routing.problem:
        return [Finding("kv routing", ok=False, detail=routing.problem, fix="see `inferplane logs router`")]
    wrong = [
        Finding(
            f"{worker} kv routing",
            ok=False,
            detail=f"the router does not believe its events: {cause}",
            fix="see `inferplane explain REQUEST_ID` of a mispredicted request",
        )
        for worker, cause in sorted(routing.approximate.items())
    ]
    exact = routing.compared - routing.mispredicted
    detail = f"{exact} of {routing.compared} predictions of cached tokens were exact"
    return wrong or [Finding("kv routing", ok=True, detail=detail)]


def _indexes(index: Mapping[str, IndexFacts]) -> list[Finding]:
    return [
        index_finding(f"{worker} block index", it, f"`inferplane logs {worker}-agent`")
        for worker, it in sorted(index.items())
    ]


def index_finding(check: str, index: IndexFacts, log: str) -> Finding:
    """Say how a router's index compares with a worker; `log` is the command that shows the log of its agent."""
    if index.problem:
        return Finding(check, ok=False, detail=index.problem, fix=f"see {log}")
    if not index.differences:
        return Finding(
            check, ok=True, detail=f"the router knows all {index.blocks} blocks of the worker, and no others"
        )
    return Finding(
        check,
        ok=False,
        detail=f"the router's index is wrong: {'; '.join(index.differences)}",
        fix="the router has asked the worker for all its blocks again: run `inferplane diagnose` once more; "
        f"if it differs again, see {log} for lost events",
    )


def healthy(findings: Sequence[Finding]) -> bool:
    return all(finding.ok for finding in findings)
