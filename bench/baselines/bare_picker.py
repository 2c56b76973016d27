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

from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_router.extproc import messages

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
                    await stream.write(messages.PASS_HEAD)
            elif message.HasField("request_body"):
                pieces.append(message.request_body.body)
                if message.request_body.end_of_stream:
                    for reply in self._picked(b"".join(pieces), duplex=duplex):
                        await stream.write(reply)
            elif message.HasField("response_headers"):
                await stream.write(messages.PASS_ANSWER_HEAD)

    def _picked(self, body: bytes, *, duplex: bool) -> Iterator[pb.ProcessingResponse]:
        orjson.loads(body)
        endpoint = next(self._next)
        length = (b"content-length", b"%d" % len(body))
        headers = messages.mutation([(messages.DESTINATION.encode(), endpoint.encode()), length])
        metadata = messages.picked_metadata(endpoint)
        if not duplex:
            yield messages.picked_body(headers, metadata, None)
            return
        yield messages.picked_head(headers, metadata)
        yield from messages.body_pieces(body, last=True)


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
