"""The router's and the agents' gRPC services, for one question at a time."""

import threading
from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict

from inferplane.errors import CommandError
from inferplane_api.proto import router_pb2, worker_pb2

_TIMEOUT_S = 10.0
_PROTOCOL_VERSION = 1


def explain(address: str, request_id: str) -> router_pb2.DecisionRecord | None:
    """Return the decision record of a request; None when the router has none.  Raises CommandError."""
    with grpc.insecure_channel(address) as channel:
        call: grpc.UnaryUnaryMultiCallable[router_pb2.ExplainRequest, router_pb2.ExplainReply] = channel.unary_unary(
            "/inferplane.v1.Router/Explain",
            request_serializer=router_pb2.ExplainRequest.SerializeToString,
            response_deserializer=router_pb2.ExplainReply.FromString,
        )
        try:
            reply = call(router_pb2.ExplainRequest(request_id=request_id), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            raise CommandError(f"the router at {address} does not answer ({_code(error)})") from error
    return reply.record if reply.found else None


def record_document(record: router_pb2.DecisionRecord) -> dict[str, Any]:
    return MessageToDict(record, always_print_fields_with_no_presence=True)


def worker_status(address: str) -> worker_pb2.WorkerStatus:
    """Ask an agent how its worker is.  Raises CommandError."""
    hello = worker_pb2.Hello(protocol_version=_PROTOCOL_VERSION, component="diagnose", want_blocks=False)
    said_goodbye = threading.Event()

    def say() -> Iterator[worker_pb2.SubscriberMessage]:
        yield worker_pb2.SubscriberMessage(hello=hello)
        said_goodbye.wait(_TIMEOUT_S)  # the agent ends a stream whose subscriber has nothing more to say

    with grpc.insecure_channel(address) as channel:
        call: grpc.StreamStreamMultiCallable[worker_pb2.SubscriberMessage, worker_pb2.WorkerMessage] = (
            channel.stream_stream(
                "/inferplane.v1.WorkerStream/Subscribe",
                request_serializer=worker_pb2.SubscriberMessage.SerializeToString,
                response_deserializer=worker_pb2.WorkerMessage.FromString,
            )
        )
        try:
            for message in call(say(), timeout=_TIMEOUT_S):
                if message.WhichOneof("body") == "status":
                    return message.status
        except grpc.RpcError as error:
            raise CommandError(f"the agent's stream at {address} does not answer ({_code(error)})") from error
        finally:
            said_goodbye.set()
    raise CommandError(f"the agent's stream at {address} ended without a status")


def _code(error: grpc.RpcError) -> str:
    return error.code().name if isinstance(error, grpc.Call) else type(error).__name__
