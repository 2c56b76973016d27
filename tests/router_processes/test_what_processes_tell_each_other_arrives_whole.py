"""Frames, the seat map and the merged metrics: what goes in comes out."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from inferplane_engine.identity import KeySpace
from inferplane_router.config import Listen
from inferplane_router.core.seats import Seats
from inferplane_router.processes import frames, merging
from inferplane_router.processes.errors import BrokenFrameError
from inferplane_router.processes.frames import Framer, Kind
from inferplane_router.processes.held_ports import hold
from inferplane_router.processes.pod_state import Report, Whole, read_report, read_whole, together, written
from inferplane_router.processes.seat_map import Layout, SeatMap
from inferplane_runtime.metrics.catalogue import gateway as gateway_names
from inferplane_runtime.metrics.catalogue import router as names
from inferplane_runtime.metrics.instruments import Instruments


@given(
    sent=st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=40)), max_size=10),
    cuts=st.lists(st.integers(1, 60), max_size=30),
)
def test_frames_survive_any_cut(sent: list[tuple[Kind, bytes]], cuts: list[int]) -> None:
    data = b"".join(frames.frame(kind, body) for kind, body in sent)
    framer, got = Framer(), list[tuple[Kind, bytes]]()
    for cut in cuts:
        got += framer.feed(data[:cut])
        data = data[cut:]
    got += framer.feed(data)

    assert got == sent


def test_what_is_no_frame_is_an_error() -> None:
    with pytest.raises(BrokenFrameError, match="at most"):
        Framer().feed(b"\xff\xff\xff\xff\x01")


@given(name=st.text(max_size=50), rest=st.binary(max_size=50), first=st.integers(0, 2**32 - 1))
def test_names_and_seats_are_read_as_they_were_written(name: str, rest: bytes, first: int) -> None:
    assert frames.split_name(frames.named(name, rest)) == (name, rest)
    assert frames.split_seat(frames.seated(first, 3, rest)) == (first, 3, rest)
    assert frames.split_number(frames.numbered(first, rest)) == (first, rest)


def test_the_last_whole_seat_map_is_what_is_read() -> None:
    seat_map = SeatMap()
    key = KeySpace("m", "r", 16)
    layouts = {("ns", "a"): Layout(128, {key: 7}, {"w": range(64, 66)})}

    assert seat_map.read() == {}

    for size in (64, 128, 192):
        seat_map.write(layouts | {("ns", "b"): Layout(size)})

        assert seat_map.read() == layouts | {("ns", "b"): Layout(size)}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=30))
def test_no_two_workers_hold_one_slot(steps: list[tuple[int, int]]) -> None:
    seats = Seats()
    for worker, ranks in steps:
        name = f"w{worker}"
        if ranks:
            assert len(seats.allot(name, ranks)) == ranks
        elif (held := seats.of(name)) is not None:
            seats.release(held)
        taken = [slot for slots in seats.held.values() for slot in slots]

        assert len(taken) == len(set(taken))
        assert not taken or max(taken) < 9 * 6 + 9 * 5


# State.

READY = Report(3, listening=True, was_whole=False, observers=1, ports=(1, 2, 3))


def test_reports_are_read_as_they_were_written() -> None:
    assert read_report(written(READY)) == READY
    assert read_whole(written(Whole("why", 3, 4))) == Whole("why", 3, 4)


@pytest.mark.parametrize(
    ("reports", "unready", "whole"),
    [
        pytest.param([READY, READY], "", Whole("", 3, 2), id="all listen"),
        pytest.param([READY, Report()], "", Whole("1 of 2 gateway processes listen", 3, 1), id="one does not yet"),
        pytest.param([READY, READY], "no catalogue", Whole("no catalogue", 3, 2), id="the index process is not ready"),
        pytest.param([Report(2, listening=True), READY], "", Whole("", 2, 1), id="the oldest catalogue counts"),
        pytest.param([Report(2, listening=True, was_whole=True)], "no catalogue", Whole("", 2), id="it was whole"),
    ],
)
def test_a_router_is_ready_when_all_of_it_is_and_stays_so(reports: list[Report], unready: str, whole: Whole) -> None:
    assert together(reports, expected=2, generation=5, unready=unready) == whole


# Metrics.


def process(routed: float, *, generation: float, delay: float, in_flight: float) -> list[merging.Counted]:
    instruments = Instruments()
    instruments.cells(names.PICKS).labels("routed").inc(routed)
    instruments.cells(names.CATALOGUE_GENERATION).labels().set(generation)
    instruments.cells(names.LOOP_DELAY).labels().set(delay)
    instruments.cells(names.WORKER_IN_FLIGHT).labels("w").set(in_flight)
    instruments.distributions(gateway_names.TTFT).labels("ns", "s").observe(routed)
    return merging.read(merging.written(merging.counted(instruments.registry)))


def test_metrics_of_all_processes_are_those_of_one_router() -> None:
    lead = process(0.0, generation=5, delay=0.1, in_flight=4)
    others = [process(2.0, generation=4, delay=0.3, in_flight=3), process(5.0, generation=5, delay=0.2, in_flight=4)]
    registry = CollectorRegistry()
    registry.register(merging.Merged(merging.merge(lead, others)))
    shown = generate_latest(registry).decode()

    assert 'inferplane_router_picks_total{outcome="routed"} 7.0' in shown
    assert "inferplane_router_catalogue_generation 4.0" in shown
    assert "inferplane_router_event_loop_delay_seconds 0.3" in shown
    assert 'inferplane_router_worker_in_flight_requests{worker="w"} 4.0' in shown
    assert 'ttft_seconds_count{namespace="ns",service="s"} 3.0' in shown
    assert 'ttft_seconds_sum{namespace="ns",service="s"} 7.0' in shown


def test_one_process_alone_keeps_its_metrics() -> None:
    lead = process(3.0, generation=5, delay=0.1, in_flight=4)

    assert merging.written(merging.merge(lead, [])) == merging.written(lead)


# Ports.


def test_a_port_that_somebody_else_listens_on_is_named() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"

        with pytest.raises(OSError, match=rf"listen\.grpc: {address} cannot be used"):
            hold(Listen(http="127.0.0.1:0", grpc=address, metrics="127.0.0.1:0"))


def test_held_ports_can_be_listened_on_by_several() -> None:
    listen, holders = hold(Listen(http="127.0.0.1:0", grpc="127.0.0.1:0", metrics="127.0.0.1:0"))
    port = int(listen.http.rpartition(":")[2])
    with socket.socket() as first, socket.socket() as second, socket.socket() as client:
        for one in (first, second):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(("127.0.0.1", port))
            one.listen()
        client.connect(("127.0.0.1", port))
    for holder in holders:
        holder.close()

    assert port
