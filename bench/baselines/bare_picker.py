"""The least that an endpoint picker on grpc.aio could do: `python bench/baselines/bare_picker.py ENDPOINT...`.

What ours is compared with in the same run.  It reads a whole request, parses its body so that something could look at
it, and names the next endpoint of its list; it knows no model, tokenises nothing, checks nothing and refuses nothing.
Prints its port.
"""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import orjson
import uvloop
from google.protobuf.struct_pb2 import Struct

from inferplane_api.proto import ext_proc_pb2 as pb

PASS_HEAD = pb.ProcessingResponse(request_headers=pb.HeadersResponse())
PASS_ANSWER_HEAD = pb.ProcessingResponse(response_headers=pb.HeadersResponse())
DESTINATION = "x-gateway-destination-endpoint"
PIECE_BYTES = 62 * 1024
OVERWRITE = pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"


class BarePicker:
    """Answers streamed and buffered bodies in turn."""

    def __init__(self, endpoints: list[str]) -> None:
        self._next = itertools.cycle(endpoints)

    async def process(self, _: object, stream: Any) -> None:
        pieces: list[bytes] = []
        duplex = True
        while isinstance(message := await stream.read(), pb.ProcessingRequest):
            if message.HasField("request_headers"):
                duplex = message.protocol_config.request_body_mode == pb.FULL_DUPLEX_STREAMED
                if not duplex:
                    await stream.write(PASS_HEAD)
            elif message.HasField("request_body"):
                pieces.append(message.request_body.body)
                if message.request_body.end_of_stream:
                    for reply in self._picked(b"".join(pieces), duplex=duplex):
                        await stream.write(reply)
            elif message.HasField("response_headers"):
                await stream.write(PASS_ANSWER_HEAD)

    def _picked(self, body: bytes, *, duplex: bool) -> Iterator[pb.ProcessingResponse]:
        orjson.loads(body)
        endpoint = next(self._next)
        fields = {DESTINATION: endpoint.encode(), "content-length": b"%d" % len(body)}
        options = [
            pb.HeaderValueOption(header=pb.HeaderValue(key=name, raw_value=value), append_action=OVERWRITE)
            for name, value in fields.items()
        ]
        response = pb.CommonResponse(header_mutation=pb.HeaderMutation(set_headers=options), clear_route_cache=True)
        metadata = Struct()
        metadata.fields["envoy.lb"].struct_value.fields[DESTINATION].string_value = endpoint
        if not duplex:
            yield pb.ProcessingResponse(request_body=pb.BodyResponse(response=response), dynamic_metadata=metadata)
            return
        yield pb.ProcessingResponse(request_headers=pb.HeadersResponse(response=response), dynamic_metadata=metadata)
        for at in range(0, len(body), PIECE_BYTES):
            end = at + PIECE_BYTES >= len(body)
            piece = pb.StreamedBodyResponse(body=body[at : at + PIECE_BYTES], end_of_stream=end)
            streamed = pb.CommonResponse(body_mutation=pb.BodyMutation(streamed_response=piece))
            yield pb.ProcessingResponse(request_body=pb.BodyResponse(response=streamed))


async def main(endpoints: list[str]) -> None:
    server = grpc.aio.server(options=(("grpc.max_concurrent_streams", 100_000), ("grpc.so_reuseport", 0)))
    process = grpc.stream_stream_rpc_method_handler(
        BarePicker(endpoints).process,
        request_deserializer=pb.ProcessingRequest.FromString,
        response_serializer=pb.ProcessingResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Process": process}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
