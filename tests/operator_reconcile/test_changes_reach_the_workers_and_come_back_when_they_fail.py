from collections.abc import Callable
from typing import Any

import pytest

from inferplane_operator.reconcile.testing import FakeCluster
from inferplane_operator.reconcile.values import CanaryVerdict, Judgement

Build = Callable[..., FakeCluster]
CHANGED: dict[str, Any] = {"engine": {"type": "sim", "env": {"A": "1"}}}


def living(cluster: FakeCluster) -> dict[str, int]:
    """Return Pods by revision."""
    counts: dict[str, int] = {}
    for pod in cluster.pods():
        revision = pod["metadata"]["labels"]["inferplane.dev/revision"]
        counts[revision] = counts.get(revision, 0) + 1
    return counts


def stable(cluster: FakeCluster) -> str:
    return str(cluster.service["status"]["stableRevision"])


def test_a_change_replaces_every_worker(running: Build) -> None:
    cluster = running()
    before = stable(cluster)
    cluster.edit(CHANGED)
    cluster.settle()

    assert stable(cluster) != before
    assert living(cluster) == {stable(cluster): 3}
    assert cluster.condition("Ready")["status"] == "True"
    assert [
        found["metadata"]["name"] for found in cluster.of("Deployment") if before in found["metadata"]["name"]
    ] == []
    assert len(cluster.of("ControllerRevision")) == 2


@pytest.mark.slow
def test_status_is_not_ready_while_old_workers_serve(running: Build) -> None:
    cluster = running()
    cluster.edit(CHANGED)
    for _ in range(40):
        cluster.reconcile()
        status = cluster.service["status"]
        old = [
            pod for pod in cluster.pods() if pod["metadata"]["labels"]["inferplane.dev/revision"] != status["revision"]
        ]
        assert not old or cluster.condition("Ready")["status"] == "False"
        cluster.start_pods()
        if cluster.clock_s % 3 == 0:
            cluster.end_pods()
        cluster.clock_s += 1

    assert cluster.condition("Ready")["status"] == "True"


def test_not_ready_says_who_serves_meanwhile(running: Build) -> None:
    cluster = running()
    cluster.edit(CHANGED)
    for _ in range(2):  # the second look sees the Pods that the first one led to
        cluster.reconcile()

    assert cluster.condition("Ready")["status"] == "False"
    assert "; workers of another revision serve meanwhile" in cluster.condition("Ready")["message"]


def test_not_ready_before_anybody_serves_names_no_other_revision(fresh: Build) -> None:
    cluster = fresh()
    for _ in range(2):
        cluster.reconcile()

    assert "serve meanwhile" not in cluster.condition("Ready")["message"]


def test_a_canary_that_fails_is_taken_back_and_not_tried_again(running: Build) -> None:
    cluster = running()
    before = stable(cluster)
    cluster.edit(CHANGED)
    cluster.canary = CanaryVerdict("", Judgement.WAIT)
    for _ in range(3):
        cluster.reconcile()
        cluster.start_pods()
    failed = cluster.service["status"]["revision"]
    cluster.canary = CanaryVerdict(failed, Judgement.FAIL, "the canary prompt got a wrong answer")
    cluster.settle()

    status = cluster.service["status"]
    assert living(cluster) == {before: 3}
    assert (status["revision"], status["failedRevision"], status["stableRevision"]) == (before, failed, before)
    assert cluster.condition("Ready")["reason"] == "RolledBack"
    assert "wrong answer" in cluster.condition("Degraded")["message"]
    assert "RolledBack" in [event.reason for event in cluster.events]


def test_another_spec_is_rolled_out_after_one_that_failed(running: Build) -> None:
    cluster = running()
    cluster.edit(CHANGED)
    cluster.reconcile()
    cluster.canary = CanaryVerdict(cluster.service["status"]["revision"], Judgement.FAIL, "slow")
    cluster.settle()
    cluster.canary = None
    cluster.edit({"engine": {"type": "sim", "env": {"A": "2"}}})
    cluster.settle()

    assert cluster.condition("Ready")["status"] == "True"
    assert "failedRevision" not in cluster.service["status"]


def test_a_failed_revision_is_tried_again_when_somebody_asks(running: Build) -> None:
    cluster = running()
    cluster.edit(CHANGED)
    cluster.reconcile()
    failed = cluster.service["status"]["revision"]
    cluster.canary = CanaryVerdict(failed, Judgement.FAIL, "slow")
    cluster.settle()
    cluster.canary = None
    cluster.annotate(retry="1")
    cluster.settle()

    assert stable(cluster) == failed


def test_an_attempt_that_fails_again_is_not_repeated_for_ever(running: Build) -> None:
    cluster = running()
    cluster.edit(CHANGED)
    cluster.reconcile()
    failed = cluster.service["status"]["revision"]
    cluster.canary = CanaryVerdict(failed, Judgement.FAIL, "slow")
    cluster.settle()
    cluster.annotate(retry="1")

    assert cluster.settle() < 60
    assert cluster.service["status"]["failedAttempt"] == "1"
    assert cluster.service["status"]["revision"] != failed


@pytest.mark.slow
def test_a_revision_that_never_starts_is_taken_back_at_its_deadline(running: Build) -> None:
    cluster = running(rollout={"progressDeadline": "10m"})
    before = stable(cluster)
    cluster.edit(CHANGED)
    for _ in range(30):
        cluster.reconcile()
        for pod in cluster.pods():
            if pod["metadata"]["labels"]["inferplane.dev/revision"] != before and pod["spec"].get("nodeName"):
                cluster.crash(pod)
        cluster.clock_s += 15
    assert len(living(cluster)) == 2
    assert cluster.condition("Ready")["reason"] == "CrashLoop"
    assert cluster.condition("Degraded")["reason"] == "CrashLoop"
    cluster.clock_s += 600
    cluster.reconcile()
    cluster.reconcile()
    cluster.end_pods()
    cluster.reconcile()

    assert living(cluster) == {before: 3}
    assert "no progress for 600 s" in cluster.service["status"]["failure"]


def test_the_deadline_is_looked_at_when_it_passes(running: Build) -> None:
    cluster = running(rollout={"progressDeadline": "10m"})
    cluster.edit(CHANGED)
    outcome = cluster.reconcile()

    assert outcome.again_in_s == 600


def test_without_rollback_a_failed_rollout_stays_and_says_so(running: Build) -> None:
    cluster = running(rollout={"progressDeadline": "10m", "autoRollback": False})
    before = stable(cluster)
    cluster.edit(CHANGED)
    cluster.reconcile()
    cluster.clock_s += 700
    cluster.reconcile()
    cluster.reconcile()

    assert cluster.condition("Degraded")["reason"] == "DeadlineExceeded"
    assert cluster.service["status"]["revision"] != before


def test_a_first_revision_has_nothing_to_go_back_to(fresh: Build) -> None:
    cluster = fresh(rollout={"progressDeadline": "10m"})
    for _ in range(3):
        cluster.reconcile()
    cluster.clock_s += 700
    cluster.reconcile()

    assert cluster.condition("Degraded")["reason"] == "DeadlineExceeded"
    assert "failedRevision" not in cluster.service["status"]
    cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("Degraded")["status"] == "False"


def test_frozen_means_no_rollout_but_replacements_and_scaling(running: Build) -> None:
    cluster = running()
    before = stable(cluster)
    cluster.annotate(freeze="true")
    cluster.edit(CHANGED)
    cluster.settle()
    assert living(cluster) == {before: 3}
    assert cluster.condition("Progressing")["reason"] == "Frozen"

    del cluster.objects["Pod", cluster.pods()[0]["metadata"]["name"]]
    cluster.pool("demo-decode")["spec"]["replicas"] = 4
    cluster.settle()
    assert living(cluster) == {before: 5}

    cluster.annotate(freeze=None)
    cluster.settle()
    assert living(cluster) == {stable(cluster): 5}
    assert stable(cluster) != before


def test_paused_means_nothing_is_written_but_status(running: Build) -> None:
    cluster = running()
    cluster.annotate(paused="true")
    cluster.edit(CHANGED)
    outcome = cluster.reconcile()

    assert outcome.writes == ()
    assert cluster.condition("Progressing")["reason"] == "Paused"
    assert cluster.service["status"]["observedGeneration"] == 2


def test_going_back_to_an_earlier_spec_uses_its_template_again(running: Build) -> None:
    cluster = running()
    first, before = stable(cluster), cluster.service["spec"]
    cluster.edit(CHANGED)
    cluster.settle()
    cluster.service["spec"] = before
    cluster.service["metadata"]["generation"] += 1
    cluster.settle()

    assert stable(cluster) == first
    kept = sorted(cluster.of("ControllerRevision"), key=lambda found: int(found["revision"]))
    assert [found["metadata"]["labels"]["inferplane.dev/revision"] for found in kept][-1] == first
    assert len(kept) == 2  # the entry that it had before has gone


@pytest.mark.slow
def test_the_last_five_revisions_are_kept(running: Build) -> None:
    cluster = running()
    for number in range(7):
        cluster.edit({"engine": {"type": "sim", "env": {"A": str(number)}}})
        cluster.settle()

    kept = cluster.of("ControllerRevision")
    assert len(kept) == 5
    assert f"demo-{stable(cluster)}" in [found["metadata"]["name"] for found in kept]


def test_a_branch_is_not_started_before_its_commit_is_known(fresh: Build) -> None:
    model = {"name": "m", "source": {"hf": "org/model"}, "revision": "main"}
    cluster = fresh(model=model, engine={"type": "vllm", "device": "cpu"})
    cluster.extra = {"model_problem": "org/model does not exist"}
    cluster.settle()

    assert cluster.of("DecodePool") == []
    assert cluster.condition("Ready")["reason"] == "ModelNotFound"
    assert "does not exist" in cluster.condition("Ready")["message"]

    cluster.extra, cluster.model_revision = {}, "c" * 40
    cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.service["status"]["modelRevision"] == "c" * 40


def test_a_hub_that_is_away_changes_nothing_that_runs(running: Build) -> None:
    cluster = running()
    before = living(cluster)
    cluster.edit({"model": {"name": "m", "source": {"hf": "org/model"}, "revision": "main"}})
    cluster.extra = {"model_problem": "the hub does not answer"}
    cluster.settle()

    assert living(cluster) == before
    assert cluster.condition("Degraded")["reason"] == "ModelNotFound"


@pytest.mark.parametrize("wait_s", [0, 40])
def test_an_old_worker_makes_way_only_after_a_while_without_room(running: Build, wait_s: int) -> None:
    cluster = running(prefill=None, mode="aggregated", decode={"replicas": 2, "maxReplicas": 8})
    cluster.room = 2
    cluster.edit(CHANGED)
    cluster.reconcile()
    cluster.clock_s += wait_s
    outcome = cluster.reconcile()

    going = [pod for pod in cluster.pods() if pod["metadata"].get("deletionTimestamp")]
    assert len(going) == (1 if wait_s else 0)
    assert wait_s or outcome.again_in_s == 30


def test_no_old_worker_makes_way_while_a_pod_that_ends_frees_its_room(running: Build) -> None:
    cluster = running(prefill=None, mode="aggregated", decode={"replicas": 1, "maxReplicas": 8})
    serving = cluster.pods()[0]
    cluster.room = 2
    for changed in ("1", "2"):  # the first change's worker has a node and ends for the second one's
        cluster.edit({"engine": {"type": "sim", "env": {"A": changed}}})
        cluster.reconcile()
    ending = next(pod for pod in cluster.pods() if pod["metadata"].get("deletionTimestamp"))
    cluster.clock_s += 50
    ending["metadata"]["deletionTimestamp"] = cluster.now
    cluster.clock_s -= 10
    outcome = cluster.reconcile()

    assert "deletionTimestamp" not in serving["metadata"]
    assert outcome.again_in_s == 30

    cluster.clock_s += 30  # its grace period is over, and it is there all the same
    cluster.reconcile()

    assert "deletionTimestamp" in serving["metadata"]


@pytest.mark.slow
def test_a_full_cluster_is_rolled_over(running: Build) -> None:
    cluster = running(prefill=None, mode="aggregated", decode={"replicas": 2, "maxReplicas": 8})
    cluster.room = 2
    cluster.edit(CHANGED)
    for _ in range(60):
        cluster.reconcile()
        cluster.end_pods()
        cluster.start_pods()
        cluster.clock_s += 10

    assert living(cluster) == {stable(cluster): 2}
    assert cluster.condition("Ready")["status"] == "True"


def test_a_revision_whose_history_is_lost_is_taken_from_its_deployment(running: Build) -> None:
    cluster = running()
    before = stable(cluster)
    cluster.objects = {key: found for key, found in cluster.objects.items() if key[0] != "ControllerRevision"}
    cluster.edit(CHANGED)
    cluster.reconcile()
    cluster.canary = CanaryVerdict(cluster.service["status"]["revision"], Judgement.FAIL, "slow")
    cluster.settle()

    assert living(cluster) == {before: 3}
