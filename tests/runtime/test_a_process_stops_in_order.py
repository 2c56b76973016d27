import io
import json
import logging
import os
import signal
import socket

import pytest
import structlog

from inferplane_runtime.clock import FakeClock, SystemClock
from inferplane_runtime.lifecycle import StopSignal, run_process
from inferplane_runtime.logs import LogFormat, LogLevel, configure
from inferplane_runtime.ports import hold_port


def test_a_signal_asks_for_a_drain_and_the_exit_code_is_mains() -> None:
    async def main(stop: StopSignal) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        return 7

    assert run_process(main) == 7


def test_a_held_port_is_given_to_no_one_but_can_be_listened_on_by_its_user() -> None:
    with hold_port() as held, hold_port() as other:
        assert held.number != other.number

        with socket.create_server(("127.0.0.1", held.number)) as server:
            assert server.getsockname()[1] == held.number


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        with pytest.raises(OSError, match=f"port {number} on 127.0.0.1 cannot be used"):
            hold_port(port=number)


def test_a_fake_clock_moves_when_told() -> None:
    clock = FakeClock(monotonic=1.0, wall=2.0)
    clock.advance(3.0)

    assert (clock.monotonic(), clock.wall()) == (4.0, 5.0)
    assert SystemClock().wall() > 1_700_000_000
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)


@pytest.fixture
def _logging_restored() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.mark.usefixtures("_logging_restored")
def test_one_event_is_one_line_in_either_format_also_from_libraries() -> None:
    stream = io.StringIO()
    configure(form=LogFormat.JSON, stream=stream, component="router")
    structlog.get_logger("x").info("routed", path=b"/v1", request_id="r")
    logging.getLogger("library").warning("careful %s", "now")
    structlog.get_logger("x").debug("hidden")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]

    assert [line["event"] for line in lines] == ["routed", "careful now"]
    assert lines[0]["path"] == "/v1"
    assert lines[0]["component"] == "router"
    assert lines[1]["level"] == "warning"


@pytest.mark.usefixtures("_logging_restored")
def test_logfmt_begins_with_time_level_and_event() -> None:
    stream = io.StringIO()
    configure(form=LogFormat.LOGFMT, level=LogLevel.DEBUG, stream=stream)
    structlog.get_logger().debug("two words", n=1)

    assert stream.getvalue().startswith("ts=")
    assert ' level=debug event="two words" n=1' in stream.getvalue()
