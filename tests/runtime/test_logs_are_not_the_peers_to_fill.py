"""What a peer can cause at will costs one line each time."""

import io
import logging

from google.protobuf.message import DecodeError

from inferplane_runtime.logs import configure


def _logged(error: Exception) -> str:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    out = io.StringIO()
    configure(stream=out)
    try:
        raise error
    except type(error):
        logging.getLogger("grpc._cython.cygrpc").exception("Unexpected [%s] raised by a method", "it")
    finally:
        logging.getLogger().handlers[:], level = before
        logging.getLogger().setLevel(level)
    return out.getvalue()


def test_a_message_that_cannot_be_decoded_is_one_short_line() -> None:
    logged = _logged(DecodeError("wire format was corrupt"))

    assert logged.count("\n") == 1
    assert "Traceback" not in logged
    assert "level=warning" in logged
    assert "raised by a method: wire format was corrupt" in logged


def test_our_own_faults_keep_their_traceback() -> None:
    assert "Traceback" in _logged(ValueError("ours"))
