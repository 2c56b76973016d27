"""Protobuf carries any text and any float; a pick with one that could do harm is refused, and names the field."""

from typing import Any

import pytest

from inferplane_api.proto import router_pb2 as pb
from inferplane_router.gateway.errors import BadRequestError
from inferplane_router.gateway.headers import Hints
from inferplane_router.grpc.hints import read_hints

NAN, ENDLESS = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("request_id", "a\r\nx-inferplane-prefill: elsewhere:1"),
        ("request_id", "a b"),
        ("request_id", "é"),
        ("request_id", "a" * 129),
        ("tenant", "a\r\nb: c"),
        ("tenant", "a" * 257),
        ("priority", 101),
        ("priority", -101),
        ("ttft_limit_s", NAN),
        ("ttft_limit_s", -1.0),
        ("tpot_limit_s", NAN),
        ("tpot_limit_s", ENDLESS),
        ("deadline_s", NAN),
        ("deadline_s", -ENDLESS),
    ],
)
def test_what_could_do_harm_is_refused_by_its_name(name: str, given: Any) -> None:
    with pytest.raises(BadRequestError) as refused:
        read_hints(pb.PickRequest(**{name: given}))

    assert refused.value.param == name


def test_what_is_usable_is_taken_and_nothing_said_is_no_limit() -> None:
    said = pb.PickRequest(request_id="a-1", tenant="höhe", priority=-100, ttft_limit_s=0.5, session="s")

    assert read_hints(said) == Hints("a-1", "s", -100, 0.5, None)
    assert read_hints(pb.PickRequest()) == Hints()
