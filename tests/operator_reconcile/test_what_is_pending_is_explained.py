"""Pods as a scheduler and a kubelet describe them, and what a person is told."""

from typing import Any

import pytest

from inferplane_api.v1alpha1 import Reason
from inferplane_operator.reconcile.pending import Phase, explain, explain_workload, phases

CREATED = "2026-01-01T00:00:00Z"


def pod(*, conditions: list[dict[str, Any]] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "creationTimestamp": CREATED},
        "spec": {},
        "status": {"phase": "Pending", "conditions": conditions or [], **status},
    }


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    return pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}])


def container(state: dict[str, Any], *, name: str = "engine", last: dict[str, Any] | None = None) -> dict[str, Any]:
    status = {"name": name, "image": "example.com/engine:1", "state": state}
    return {**status, "lastState": {"terminated": last}} if last else status


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    scheduled = [{"type": "PodScheduled", "status": "True"}]
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(conditions=scheduled, containerStatuses=[container(state, **more)])


CASES = {
    "no device": (
        unscheduled("0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available."),
        Reason.NO_ROOM,
        "no node has enough nvidia.com/gpu left",
    ),
    "taint": (
        unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: true}."),
        Reason.UNSCHEDULABLE,
        "untolerated taint {gpu: true}",
    ),
    "selector": (
        unscheduled("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
        Reason.UNSCHEDULABLE,
        "no node takes it",
    ),
    "gate": (unscheduled("waits for the queue", "SchedulingGated"), Reason.UNSCHEDULABLE, "scheduling gate"),
    "unbound claim": (
        unscheduled("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        Reason.VOLUME_UNBOUND,
        "mark one as default",
    ),
    "absent claim": (
        unscheduled('0/1 nodes are available: persistentvolumeclaim "weights" not found.'),
        Reason.VOLUME_UNBOUND,
        '"weights" not found',
    ),
    "image": (
        waiting("ImagePullBackOff", 'Back-off pulling image "example.com/engine:1"'),
        Reason.IMAGE_UNAVAILABLE,
        "the image example.com/engine:1 of container engine cannot be had",
    ),
    "never pulled": (waiting("ErrImageNeverPull"), Reason.IMAGE_UNAVAILABLE, "ErrImageNeverPull"),
    "secret": (
        waiting("CreateContainerConfigError", 'secret "hub" not found'),
        Reason.CONFIGURATION_MISSING,
        'secret "hub" not found',
    ),
    "crash": (
        waiting("CrashLoopBackOff", "back-off 5m0s", last={"exitCode": 1, "message": "no such file: config.json\n"}),
        Reason.CRASH_LOOP,
        "it ended with status 1: no such file: config.json",
    ),
    "memory": (
        waiting("CrashLoopBackOff", last={"exitCode": 137, "reason": "OOMKilled"}),
        Reason.CRASH_LOOP,
        "more memory than its limit",
    ),
    "ended": (
        pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
        Reason.WORKER_EVICTED,
        "low on resource: memory",
    ),
    "scheduler": (pod(), Reason.WORKERS_STARTING, "the scheduler has not looked yet"),
    "volumes": (waiting("ContainerCreating"), Reason.WORKERS_STARTING, "volumes are mounted"),
}


@pytest.mark.parametrize(("found", "reason", "words"), CASES.values(), ids=CASES.keys())
def test_each_cause_has_a_reason_and_a_sentence(found: dict[str, Any], reason: Reason, words: str) -> None:
    explanation = explain(found)

    assert explanation is not None
    assert explanation.reason is reason
    assert words in explanation.message
    assert "\n" not in explanation.message


def test_the_scheduler_need_not_say_that_preemption_would_not_help() -> None:
    said = explain(CASES["no device"][0])

    assert said is not None
    assert said.message.endswith(": 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")


def test_only_lack_of_resources_is_lack_of_room() -> None:
    lacking = {name for name, (found, _, _) in CASES.items() if (said := explain(found)) and said.lacks_room}

    assert lacking == {"no device"}


def test_what_failed_is_told_from_what_waits() -> None:
    failing = {name for name, (found, _, _) in CASES.items() if (said := explain(found)) and said.failing}

    assert failing == {"crash", "memory", "ended"}


def test_the_first_thing_in_the_way_is_the_answer() -> None:
    found = waiting("PodInitializing")
    found["status"]["initContainerStatuses"] = [
        container({"waiting": {"reason": "CrashLoopBackOff"}}, name="weights", last={"exitCode": 1, "message": "403"})
    ]
    explanation = explain(found)

    assert explanation is not None
    assert "container weights" in explanation.message


def test_an_agent_that_was_asked_has_the_last_word() -> None:
    found = pod(conditions=[{"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"}])
    explanation = explain(found, readiness="the engine loads its weights")

    assert explanation is not None
    assert (explanation.reason, explanation.message) == (
        Reason.ENGINE_LOADING,
        "the worker says: the engine loads its weights",
    )


def test_ready_and_going_pods_need_no_explanation() -> None:
    ready, going = pod(conditions=[{"type": "Ready", "status": "True"}]), pod()
    going["metadata"]["deletionTimestamp"] = CREATED

    assert (explain(ready), explain(going)) == (None, None)


def test_a_start_is_told_phase_by_phase() -> None:
    times = {"PodScheduled": "00:00:02", "Initialized": "00:00:09", "Ready": "00:01:20"}
    found = pod(
        conditions=[
            {"type": kind, "status": "True", "lastTransitionTime": f"2026-01-01T{at}Z"} for kind, at in times.items()
        ],
        containerStatuses=[container({"running": {"startedAt": "2026-01-01T00:00:20Z"}})],
    )

    assert phases(found) == (Phase("Scheduled", 2), Phase("Initialized", 7), Phase("Started", 11), Phase("Ready", 60))


def test_phases_that_have_not_ended_have_no_duration() -> None:
    found = pod(conditions=[{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"}])

    assert [phase.duration_s for phase in phases(found)] == [2, None, None, None]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1', Reason.QUOTA_EXCEEDED),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest"', Reason.WORKER_REFUSED),
    ],
    ids=["quota", "policy"],
)
def test_a_deployment_without_pods_says_why(message: str, reason: Reason) -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": message}
    explanation = explain_workload({"status": {"conditions": [condition]}})

    assert explanation is not None
    assert explanation.reason is reason
    assert "x" in explanation.message
    assert explain_workload({"status": {}}) is None


def test_each_attempt_to_make_a_pod_is_told_in_the_same_words() -> None:
    """A ReplicaSet tries again for hours, with another name each time; a status that follows is a write each time."""

    def told(pod: str) -> str:
        condition = {"type": "ReplicaFailure", "status": "True", "message": f'Pod "{pod}" is invalid: too large'}
        deployment = {"metadata": {"name": "chat-decode-abc"}, "status": {"conditions": [condition]}}
        found = explain_workload(deployment)
        return found.message if found is not None else ""

    assert told("chat-decode-abc-7b65899cf5-j6n5k") == told("chat-decode-abc-7b65899cf5-q2w8x")
    assert 'Pod "chat-decode-abc-..." is invalid: too large' in told("chat-decode-abc-7b65899cf5-j6n5k")
