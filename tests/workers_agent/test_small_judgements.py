import math
from dataclasses import replace
from pathlib import Path

import pytest

from inferplane_runtime.settings import SettingsError, load
from inferplane_workers.agent import canary, transport
from inferplane_workers.agent.canary import CanaryState
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.agent.decode_hits import DecodeHits
from inferplane_workers.agent.engine_metrics import read_page
from inferplane_workers.agent.gate import Gate, Phase
from inferplane_workers.agent.timeline import Timeline
from inferplane_workers.agent.watchdog import Signs, Verdict, judge
from inferplane_workers.agent.wire import Gauges

CALM = Signs(now=100.0, in_flight=0, busy_since=0.0, progress_at=99.0, healthy_at=99.5)
FLAGS = [
    *("--worker-id", "w", "--service", "s", "--pool", "p", "--role", "decode"),
    *("--engine-url", "http://127.0.0.1:8200", "--model", "m", "--state-dir", "/x"),
]


@pytest.mark.parametrize(
    ("signs", "verdict"),
    [
        pytest.param(CALM, Verdict.ALIVE, id="idle"),
        pytest.param(replace(CALM, refused=2), Verdict.GONE, id="nothing listens"),
        pytest.param(replace(CALM, refused=1), Verdict.ALIVE, id="one refusal may be chance"),
        pytest.param(replace(CALM, in_flight=1, progress_at=10.0, busy_since=10.0), Verdict.HUNG, id="no work"),
        pytest.param(replace(CALM, in_flight=1, progress_at=10.0, busy_since=95.0), Verdict.ALIVE, id="just begun"),
        pytest.param(replace(CALM, in_flight=1, progress_at=60.0), Verdict.SILENT, id="not long enough"),
        pytest.param(replace(CALM, in_flight=9, healthy_at=1.0), Verdict.ALIVE, id="busy and deaf"),
        pytest.param(replace(CALM, progress_at=1.0, healthy_at=1.0), Verdict.HUNG, id="idle and deaf"),
    ],
)
def test_only_an_engine_without_progress_is_hung(signs: Signs, verdict: Verdict) -> None:
    assert judge(signs, hang_s=60.0) is verdict


def test_a_draining_gate_stays_open_for_its_grace() -> None:
    now = [0.0]
    gate = Gate(now=lambda: now[0], grace_s=2.0, on_change=lambda _phase, _detail: None)
    gate.move(Phase.READY)
    gate.move(Phase.DRAINING)
    before = gate.refusal()
    now[0] = 2.0

    assert before is None
    assert gate.refusal() is not None


def test_a_drain_is_final() -> None:
    gate = Gate(now=lambda: 0.0, grace_s=2.0, on_change=lambda _phase, _detail: None)
    gate.move(Phase.DRAINING)

    assert not gate.move(Phase.READY)
    assert gate.phase is Phase.DRAINING
    assert gate.refusal() is not None


@pytest.mark.parametrize(
    ("answer", "expected", "state"),
    [
        (" Paris", None, CanaryState.PASSED),
        (" Paris", " Paris", CanaryState.PASSED),
        (" Rome", " Paris", CanaryState.FAILED),
        (None, None, CanaryState.FAILED),
    ],
)
def test_a_canary_must_give_the_known_answer(answer: str | None, expected: str | None, state: CanaryState) -> None:
    assert canary.judge(answer, expected).state is state


PAGE = b"""# HELP vllm:num_requests_running Number
vllm:num_requests_running{engine="0",model_name="m, \\"x\\""} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1234"} 1.0
vllm:prompt_tokens_total{engine="0"} 100.0
vllm:generation_tokens_total{engine="0"} 11.0
process_start_time_seconds 1.7e+09
broken line
"""


def test_the_engines_page_is_read_per_rank() -> None:
    page = read_page(PAGE)

    assert page.gauges == (Gauges(0, 3, 2, 0.25), Gauges(1, 1, 0, 0.0))
    assert (page.block_size, page.kv_blocks, page.progress) == (16, 1234, 111.0)
    assert page.started == "1700000000.00"


def test_hits_of_the_decode_side_are_what_was_not_stored() -> None:
    hits = DecodeHits(16)
    hits.open("r", [1, 2, 3])
    hits.stored([3, 99])

    assert hits.close("r", 50) == 32


def test_a_prompt_that_ends_with_a_block_computes_it_again() -> None:
    hits = DecodeHits(16)
    hits.open("r", [1, 2, 3])

    assert hits.close("r", 48) == 32


def test_two_requests_that_pull_the_same_block_give_no_number() -> None:
    hits = DecodeHits(16)
    hits.open("a", [1, 2])
    hits.open("b", [1, 3])
    hits.stored([1])

    assert hits.close("a", 33) is None
    assert hits.close("b", 33) is None


def test_a_chain_that_does_not_fit_the_prompt_gives_no_number() -> None:
    hits = DecodeHits(16)
    hits.open("r", [1, 2])

    assert hits.close("r", 64) is None


@pytest.mark.parametrize(
    ("asked", "ports", "chosen", "expected"),
    [
        ("rdma", 1, "", ("rdma", False)),
        ("rdma", 0, "", ("tcp", True)),
        ("rdma", 1, "tcp", ("tcp", True)),
        ("rdma", 1, "rdma", ("rdma", False)),
        ("tcp", 0, "", ("tcp", False)),
        ("", 0, "shm", ("shm", False)),
    ],
)
def test_a_fall_back_from_rdma_is_an_alarm(asked: str, ports: int, chosen: str, expected: tuple[str, bool]) -> None:
    seen = transport.judge(asked, active_rdma_ports=ports, chosen=chosen)

    assert (seen.name, seen.degraded) == expected


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"ucp_worker.c:1877 UCX  INFO  ep_cfg[2]: tag(rc_mlx5/mlx5_0:1) rma(rc_mlx5/mlx5_0:1)", "rdma"),
        (b"UCX  INFO    ep_cfg[1]: rma(tcp/eth0)", "tcp"),
        (b"UCX  INFO    ep_cfg[0]: tag(sysv/memory cma/memory)", "shm"),
        (b"tag(tcp/eth0) in some other line", ""),
    ],
)
def test_the_engines_log_says_which_transport_it_chose(line: bytes, kind: str) -> None:
    assert transport.chosen_by_ucx([line]) == kind


def test_active_rdma_ports_are_counted(tmp_path: Path) -> None:
    for number, state in enumerate(("4: ACTIVE", "1: DOWN")):
        port = tmp_path / f"sys/class/infiniband/mlx5_{number}/ports/1"
        port.mkdir(parents=True)
        (port / "state").write_text(state)

    assert transport.active_rdma_ports(tmp_path) == 1


def test_what_was_not_observed_is_not_zero() -> None:
    timeline = Timeline(accepted=1.0)

    assert all(math.isnan(value) for value in (timeline.first_token, timeline.queue_s, timeline.engine_sent))


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--engine", "other"], "--engine"),
        (["--engine-url", "https://x"], "--engine-url"),
        (["--kv-replay", "ipc:///x"], "--kv-replay"),
        (["--kv-events", "udp://x"], "--kv-events"),
        (["--block-size", "0"], "--block-size"),
        (["--drain-timeout", "soon"], "--drain-timeout"),
        (["--listen-http", "nowhere"], "--listen-http"),
    ],
)
def test_a_wrong_flag_is_named(flags: list[str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load(AgentConfig, [*FLAGS, *flags], {}, program="inferplane-agent")


def test_the_environment_fills_what_flags_leave_open() -> None:
    environ = {"INFERPLANE_DRAIN_TIMEOUT": "90s", "INFERPLANE_SERVED_NAME": "a,b"}
    config = load(AgentConfig, FLAGS, environ, program="inferplane-agent")

    assert (config.drain_timeout, config.served_name, config.engine_url) == (90.0, ("a", "b"), "127.0.0.1:8200")
