"""The selection core of `ai-dynamo-runtime`, asked line by line; started with the interpreter that has it.

It goes by what it chose before (no block events), as `DYN_ROUTER_USE_KV_EVENTS=false` has it.
Input: first `{"workers", "block"}`, then `{"came": number, "tokens": [...]}`, `{"prefilled": number}` or
`{"ended": number}` a line; output: a line for each, with the chosen worker for the first kind.
"""

import asyncio
import json
import sys
from typing import Any

from dynamo._core import SelectionService  # another environment has it

_MODEL = "model"


async def follow(service: Any, line: dict[str, Any]) -> int | None:
    if "came" in line:
        name = f"r{line['came']}"
        asked = {"model_name": _MODEL, "selection_id": name, "token_ids": line["tokens"]}
        chosen = await service.select_and_reserve(asked)
        return int(chosen["worker_id"])
    if "prefilled" in line:
        await service.prefill_complete(f"r{line['prefilled']}")
    else:
        await service.free_reservation(f"r{line['ended']}")
    return None


async def main() -> None:
    opening = json.loads(sys.stdin.readline())
    service = SelectionService(indexer_threads=1)
    for number in range(opening["workers"]):
        entry = {"worker_id": number, "model_name": _MODEL, "block_size": opening["block"]}
        await service.upsert_worker({**entry, "endpoint": f"http://127.0.0.1:{number + 1}"})
    for text in sys.stdin:
        print(json.dumps(await follow(service, json.loads(text))), flush=True)
    service.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
