"""Ports held for workers, owners of taken ports, devices and memory."""

import os
import socket
import stat
import sys
from pathlib import Path

import httpx
import pytest

from inferplane_operator.local import port_owner
from inferplane_operator.local.agent_client import HttpProbe, Readiness
from inferplane_operator.local.machine import (
    Machine,
    assign_gpus,
    find_gpus,
    fits_beside,
    memory_available,
    memory_of,
)
from inferplane_operator.local.ports import Ports
from inferplane_operator.local.statedir import StateError
from inferplane_operator.local.testing import FakePorts
from inferplane_runtime.ports import hold_port

linux = pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")


@linux
def test_a_held_port_can_be_listened_on_again_and_again_and_nobody_else_gets_it() -> None:
    ports = Ports(lambda port: hold_port(port=port))
    ports.take(["http"])
    for _ in range(2):  # a program and its restart
        assert not ports.hand_over()
        with socket.socket() as program:
            program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            program.bind(("127.0.0.1", ports["http"]))
            program.listen()
    ports.release()


def test_where_ports_cannot_be_shared_a_lost_one_is_replaced() -> None:
    ports = Ports(lambda port: hold_port(port=port), shared=False)
    ports.take(["http"])
    first = ports["http"]
    assert not ports.hand_over()
    assert not ports.hand_over()
    with socket.create_server(("127.0.0.1", first)):
        assert ports.hand_over()

    assert ports["http"] != first
    ports.release()


def test_a_row_of_ports_skips_what_is_taken_and_keeps_nothing_of_it() -> None:
    fake = FakePorts(next=100, taken={102})
    ports = Ports(fake)
    ports.take_row("side-channel", 3)

    assert ports["side-channel"] == 103
    assert [held.number for held in fake.held if not held.released] == [103, 104, 105]


def test_no_row_at_all_is_an_error_that_says_so() -> None:
    ports = Ports(FakePorts(next=100, taken=set(range(101, 1000, 2))))
    with pytest.raises(OSError, match="no 2 free ports in a row were found for side-channel"):
        ports.take_row("side-channel", 2)


def test_a_taken_port_is_complained_about_and_a_free_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        complaint = port_owner.complaint(port)
    assert complaint.startswith(f"port {port} is in use")
    assert complaint.endswith("stop it or choose another with --port")
    if sys.platform == "linux":
        assert f"(pid {os.getpid()})" in complaint

    assert port_owner.complaint(port) == ""


def test_devices_are_assigned_in_order_and_only_whole() -> None:
    machine = Machine(("0", "1", "2"))

    assert assign_gpus(0, Machine(), ()) == ()
    assert assign_gpus(2, machine, {"1"}) == ("0", "2")
    assert assign_gpus(2, machine, {"0", "1"}) is None


def test_devices_are_chosen_by_the_option() -> None:
    assert find_gpus("none") == ()
    assert find_gpus("0, MIG-abc") == ("0", "MIG-abc")
    for wrong in ("", "0,", "1,1"):
        with pytest.raises(StateError, match="expected auto, none, or distinct device ids"):
            find_gpus(wrong)


@pytest.mark.parametrize(
    ("script", "expected"),
    [("echo 0; echo 1", ("0", "1")), ("echo no devices; exit 9", ()), ("echo 'No devices were found'", ())],
    ids=["two", "driver fails", "none"],
)
def test_devices_are_found_by_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: tuple[str, ...]
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert find_gpus("auto") == expected


def test_memory_that_is_not_known_forbids_nothing() -> None:
    assert fits_beside(None, 1)
    assert fits_beside(100, None)
    assert fits_beside(100, 111)
    assert not fits_beside(100, 109)
    assert memory_of([]) is None
    assert memory_of([2**31 - 1]) is None


@linux
def test_memory_is_read_from_the_kernel() -> None:
    own, free = memory_of([os.getpid()]), memory_available()

    assert own is not None
    assert free is not None
    assert own > 1024 * 1024


def answering(response: httpx.Response | Exception) -> HttpProbe:
    def handle(_: httpx.Request) -> httpx.Response:
        if isinstance(response, Exception):
            raise response
        return response

    return HttpProbe(httpx.AsyncClient(transport=httpx.MockTransport(handle)))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (httpx.Response(200), Readiness(ready=True)),
        (httpx.Response(503, json={"error": {"message": "draining"}}), Readiness(ready=False, reason="draining")),
        (httpx.Response(503, json={"reason": "loading"}), Readiness(ready=False, reason="loading")),
        (httpx.Response(503, text="starting\n"), Readiness(ready=False, reason="starting")),
        (httpx.Response(503, json=[1]), Readiness(ready=False, reason="[1]")),
        (httpx.Response(503), Readiness(ready=False, reason="answers 503")),
        (httpx.ConnectError("refused"), Readiness(ready=False, reason="does not listen yet")),
        (httpx.ReadTimeout("slow"), Readiness(ready=False, reason="does not answer (ReadTimeout)")),
    ],
)
async def test_readiness_and_its_reason_are_read(response: httpx.Response | Exception, expected: Readiness) -> None:
    assert await answering(response).ready("host:1") == expected


@pytest.mark.anyio
async def test_a_drain_that_fails_says_how() -> None:
    assert await answering(httpx.Response(200)).drain("host:1", timeout_s=1) == ""
    assert await answering(httpx.Response(500, text="no")).drain("host:1", timeout_s=1) == "answered 500: no"
    assert await answering(httpx.ReadTimeout("slow")).drain("host:1", timeout_s=1) == "ReadTimeout: slow"


@pytest.mark.anyio
async def test_an_engine_is_healthy_when_it_says_so() -> None:
    assert await answering(httpx.Response(200)).healthy("host:1")
    assert not await answering(httpx.Response(500)).healthy("host:1")
    assert not await answering(httpx.ConnectError("refused")).healthy("host:1")
