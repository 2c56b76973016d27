"""The arguments of the other nodes of one engine, from those of the node that serves."""

from collections.abc import Sequence

from inferplane_engine.launch.vllm import HEADLESS, MASTER_ADDRESS, NODE_RANK


def follower_arguments(args: Sequence[str], rank: str) -> list[str]:
    """Put a node's own `rank` (which may be `$(NAME)`) in the place of the first one's.

    SGLang tells by the rank who serves; vLLM's other nodes have to be told that they have no server.
    """
    at = args.index(NODE_RANK) + 1
    ranked = [*args[:at], rank, *args[at + 1 :]]
    return [*ranked, HEADLESS] if MASTER_ADDRESS in args else ranked
