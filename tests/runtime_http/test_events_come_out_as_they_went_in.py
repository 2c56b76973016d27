import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_runtime.http.sse import EventTooLarge, SseSplitter, event_data


@settings(deadline=None)
@given(
    payloads=st.lists(st.text(alphabet="ab:\r {}", max_size=8).map(lambda t: t.replace("\r", "")), max_size=8),
    end=st.sampled_from([b"\n\n", b"\r\n\r\n"]),
    at=st.lists(st.integers(0, 200), max_size=8),
)
def test_events_are_the_same_however_the_body_is_split(payloads: list[str], end: bytes, at: list[int]) -> None:
    expected = [b"data: " + payload.encode() + end for payload in payloads]
    body = b"".join(expected) + b"data: half"
    points = sorted({min(i, len(body)) for i in at} | {0, len(body)})
    splitter = SseSplitter()
    events = [event for a, b in itertools.pairwise(points) for event in splitter.feed(body[a:b])]

    assert events == expected
    assert splitter.rest == b"data: half"
    assert [event_data(event) for event in events] == [payload.encode() for payload in payloads]


def test_a_whole_event_is_passed_on_without_a_copy() -> None:
    event = b'data: {"a": 1}\n\n'

    assert SseSplitter().feed(event)[0] is event


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: x\n\n", b"x"),
        (b"data:x\n\n", b"x"),
        (b"event: e\r\ndata: x\r\ndata: y\r\n\r\n", b"x\ny"),
        (b": comment\n\n", b""),
    ],
)
def test_the_data_of_an_event_is_its_data_lines(event: bytes, data: bytes) -> None:
    assert event_data(event) == data


def test_an_event_that_never_ends_is_not_collected_for_ever() -> None:
    with pytest.raises(EventTooLarge):
        SseSplitter(max_event_bytes=10).feed(b"data: " + b"x" * 20)
