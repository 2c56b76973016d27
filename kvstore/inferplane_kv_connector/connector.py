"""vLLM's KV connector of the store, for `kv_connector_module_path`: translation only.

Written against vLLM 0.32's `KVConnectorBase_V1`.  The engine makes one object in its scheduler and one in each worker.
What the engine cannot name by tokens alone (images, embeddings) and memory that is not one full-attention group is left
alone: such requests are misses.

Settings (`kv_connector_extra_config`): `socket`, `secret_file`; `model`, `revision` (default: the engine's own);
`lookup_deadline_s` (0.5), `load_deadline_s` (10), `queue_bytes` (256 MiB), `call_deadline_s` (5);
`always_fetch` (false): what the store has is loaded even where computing it would be faster.
Where somebody else writes the engine's arguments, `KV_CONNECTOR_SETTINGS` in its environment may hold those of them
that the arguments leave out, as a JSON object.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# vLLM lives in the engine's environment only

import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferplane_kv_connector.client import StoreClient
from inferplane_kv_connector.keys import ANY_SPACE, KeySpace, key_mark, owner_of, root, shard, space_of
from inferplane_kv_connector.lookups import Lookup, Lookups
from inferplane_kv_connector.marks import UNMARKED, Marker
from inferplane_kv_connector.moving import Load, Mover
from inferplane_kv_connector.planning import Move, RequestPlan, Save
from inferplane_kv_connector.records import Records, UnknownMemoryError
from inferplane_kv_connector.worth import Worth

if TYPE_CHECKING:
    from typing import Any as KVConnectorBase_V1
    from typing import Any as KVConnectorMetadata
else:
    _base = import_module("vllm.distributed.kv_transfer.kv_connector.v1.base")
    KVConnectorBase_V1 = _base.KVConnectorBase_V1
    KVConnectorMetadata = _base.KVConnectorMetadata

SETTINGS = "KV_CONNECTOR_SETTINGS"
_log = logging.getLogger("vllm.inferplane_kv")


@dataclass
class StepMoves(KVConnectorMetadata):  # type: ignore[misc]  # the base is the engine's
    """What the workers do in one step."""

    loads: list[tuple[str, tuple[Move, ...]]] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Settings:
    socket: str
    secret: bytes
    model: str
    revision: str
    mark_revision: str
    """The revision as routers know it."""
    lookup_deadline_s: float
    load_deadline_s: float
    call_deadline_s: float
    queue_bytes: int
    always_fetch: bool

    @staticmethod
    def of(config: Any) -> "Settings":
        given, model = _given(config), config.model_config
        return Settings(
            socket=str(given("socket", "")),
            secret=Path(given("secret_file", "")).read_bytes().strip(),
            model=str(given("model", model.model)),
            revision=str(given("revision", model.revision or "")),
            mark_revision=str(given("revision", "")),
            lookup_deadline_s=float(given("lookup_deadline_s", 0.5)),
            load_deadline_s=float(given("load_deadline_s", 10.0)),
            call_deadline_s=float(given("call_deadline_s", 5.0)),
            queue_bytes=int(given("queue_bytes", 256 << 20)),
            always_fetch=bool(given("always_fetch", 0)),
        )


def _given(config: Any) -> Callable[[str, Any], Any]:
    """Return what looks a setting up: in the engine's arguments, then in its environment, then the default."""
    written = os.environ.get(SETTINGS) or "{}"
    try:
        beside = dict[str, Any](json.loads(written))
    except (TypeError, ValueError) as error:
        message = f'{SETTINGS}: {written!r} is no JSON object; write it as {{"lookup_deadline_s": 1}}'
        raise ValueError(message) from error
    said = config.kv_transfer_config.get_from_extra_config
    return lambda name, default: said(name, beside.get(name, default))


class InferplaneConnector(KVConnectorBase_V1):  # type: ignore[misc]  # the base is the engine's
    """One side of the store in one process of the engine."""

    @property
    def requires_kv_delivery(self) -> bool:
        return False  # a cache: what is not saved is computed again

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._config = vllm_config
        self._cache = kv_cache_config
        self._settings = Settings.of(vllm_config)
        parallel = vllm_config.parallel_config
        self._world = parallel.tensor_parallel_size * parallel.pipeline_parallel_size
        self._rank = int(getattr(parallel, "rank", 0)) % self._world
        self._usable = len(kv_cache_config.kv_cache_groups) == 1
        if not self._usable:
            _log.warning("the KV store is off: this model has several kinds of attention")
        self._space = _space(vllm_config, kv_cache_config, self._settings) if self._usable else None
        self._space_name = space_of(self._space) if self._space is not None else ANY_SPACE
        self._worth = Worth(
            self._space.block_size if self._space is not None else 1, always=self._settings.always_fetch
        )
        self._plans: dict[str, RequestPlan] = {}
        self._lookups_by_request: dict[str, Lookup] = {}
        self._requests: dict[str, Any] = {}
        self._loads: list[tuple[str, tuple[Move, ...]]] = []
        self._lookups = Lookups(self._client(), self._world, self._settings.lookup_deadline_s, time.monotonic)
        self._mover: Mover | None = None
        self._failed_blocks: set[int] = set()
        self._finished: list[Load] = []

    def _client(self) -> StoreClient:
        return StoreClient(self._settings.socket, deadline_s=self._settings.call_deadline_s, space=self._space_name)

    # ---------------------------------------------------------------- scheduler

    def on_new_request(self, request: Any) -> None:
        if self._space is None or request.mm_features or request.prompt_embeds is not None:
            return
        if request.prompt_token_ids is None:
            return
        adapter = request.lora_request.lora_name if request.lora_request is not None else ""
        salt = request.cache_salt or ""
        plan = RequestPlan(
            root(self._space, adapter=adapter, salt=salt),
            owner_of(salt),
            self._space.block_size,
            request.num_prompt_tokens,
            guesses=self._config.speculative_config is not None,
            marker=None if adapter else self._marker(salt),
        )
        keys = plan.name(request.prompt_token_ids)
        self._plans[request.request_id] = plan
        self._requests[request.request_id] = request
        self._lookups_by_request[request.request_id] = self._lookups.start(keys, self._worth.told())

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        plan = self._plans.get(request.request_id)
        if plan is None or not plan.may_load or request.skip_reading_prefix_cache:
            return 0, False
        tiers = self._lookups.poll(self._lookups_by_request[request.request_id])
        if tiers is None:
            return None, False
        tokens = plan.offer(tiers, num_computed_tokens, request.num_tokens, self._worth)
        return tokens, tokens > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        plan = self._plans.get(request.request_id)
        if plan is None or not num_external_tokens:
            return
        moves = plan.load(blocks.get_block_ids()[0], num_external_tokens)
        if moves:
            self._loads.append((request.request_id, tuple(moves)))
            tiers = self._lookups_by_request[request.request_id].tiers or []
            begin = plan.load_from
            self._worth.load_began(request.request_id, tiers[begin : begin + len(moves)], time.monotonic())

    def build_connector_meta(self, scheduler_output: Any) -> StepMoves:
        step = StepMoves(self._loads)
        self._loads = []
        for new in scheduler_output.scheduled_new_reqs:
            self._advance(step, scheduler_output, new.req_id, new.block_ids, new.num_computed_tokens, anew=True)
        cached = scheduler_output.scheduled_cached_reqs
        for index, request in enumerate(cached.req_ids):
            anew = request in cached.resumed_req_ids
            blocks, computed = cached.new_block_ids[index], cached.num_computed_tokens[index]
            self._advance(step, scheduler_output, request, blocks, computed, anew=anew)
        self._worth.step_began(scheduler_output.total_num_scheduled_tokens, time.monotonic())
        return step

    def update_connector_output(self, connector_output: Any) -> None:
        for request in connector_output.finished_recving or ():
            self._worth.load_ended(request, time.monotonic())

    def take_events(self) -> Iterable[Any]:
        # The engine asks after each step, which is how its end is known here.
        self._worth.step_ended(time.monotonic())
        return ()

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        del block_ids
        for known in (self._plans, self._requests, self._lookups_by_request):
            known.pop(request.request_id, None)
        self._worth.forget(request.request_id)
        return False, None

    def _marker(self, salt: str) -> Marker:
        assert self._space is not None  # noqa: S101 - requests are planned only with one
        return Marker.of(self._settings.model, self._settings.mark_revision, self._space.block_size, salt)

    def _advance(self, step: StepMoves, output: Any, request: str, blocks: Any, computed: int, *, anew: bool) -> None:
        plan = self._plans.get(request)
        if plan is None:
            return
        if blocks is not None:
            plan.place(blocks[0], anew=anew)
        until = computed + output.num_scheduled_tokens.get(request, 0)
        step.saves += plan.computed(until, self._requests[request].all_token_ids)

    # ---------------------------------------------------------------- worker

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        if not self._usable:
            return
        try:
            records = Records.of(kv_caches, self._cache.num_blocks)
        except UnknownMemoryError as error:
            _log.warning("the KV store is off: %s", error)
            return
        settings = self._settings
        self._mover = Mover(
            records=records,
            loading=self._client(),
            saving=self._client(),
            secret=settings.secret,
            space=self._space_name,
            most_queued=settings.queue_bytes,
            clock=time.monotonic,
        )
        self._mover.start()

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        del forward_context, kwargs
        step: StepMoves = self._get_connector_metadata()
        give_up_at = time.monotonic() + self._settings.load_deadline_s
        for request, moves in step.loads:
            mine = tuple(Move(shard(move.key, self._rank, self._world), move.block) for move in moves)
            load = Load(request, mine, give_up_at)
            if self._mover is None:
                load.failed = [move.block for move in mine]
                self._finished.append(load)
            else:
                self._mover.load(load)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing: the engine does not compute a request that is being loaded."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Nothing: whole blocks are saved after the step."""

    def wait_for_save(self) -> None:
        if self._mover is None:
            return
        step: StepMoves = self._get_connector_metadata()
        mine = [self._part(each) for each in step.saves]
        if mine:
            self._mover.save(mine)

    def _part(self, save: Save) -> Save:
        # One of the parts stands for the block among routers.
        mark = UNMARKED if self._rank else save.mark
        return Save(shard(save.key, self._rank, self._world), save.block, save.owner, mark)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        del finished_req_ids
        finished, self._finished = self._finished, []
        if self._mover is not None:
            finished += self._mover.take_finished()
        for load in finished:
            self._failed_blocks.update(load.failed)
        return None, {load.request for load in finished} or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        failed, self._failed_blocks = self._failed_blocks, set()
        return failed

    def shutdown(self) -> None:
        if self._mover is not None:
            self._mover.stop()
        self._lookups.stop()


def _space(config: Any, cache: Any, settings: Settings) -> KeySpace:
    model, group = config.model_config, cache.kv_cache_groups[0]
    version = import_module("vllm").__version__
    return KeySpace(
        engine=f"vllm {version}",
        model=settings.model,
        revision=settings.revision,
        dtype=f"{model.dtype} {model.quantization}",
        cache_dtype=str(config.cache_config.cache_dtype),
        layout=repr(group.kv_cache_spec),
        block_size=int(group.kv_cache_spec.block_size),
        sealed_by=key_mark(settings.secret),
    )
