"""Routes and requests: from a parsed body to the cores and back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex

from inferplane_api.sim_faults import SimFaultKind
from inferplane_engine.sim.events import EngineRequest, Finished
from inferplane_engine.sim.faults import FaultPlan
from inferplane_runtime.http.api import Exchange, Headers, Request, Response
from inferplane_workers.sim import pooling
from inferplane_workers.sim.adapters import LoadedAdapters
from inferplane_workers.sim.chat import ChatShape, read_prompt
from inferplane_workers.sim.completion import CompletionShape, read_prompts
from inferplane_workers.sim.driver import EngineDriver
from inferplane_workers.sim.errors import (
    ApiError,
    bad_request,
    engine_dead,
    json_response,
    not_found,
    text_response,
    unknown_model,
)
from inferplane_workers.sim.fields import Body, as_tokens
from inferplane_workers.sim.generation import AnswerShape, Choice, Generation
from inferplane_workers.sim.metrics import EngineMetrics
from inferplane_workers.sim.options import Adapter, SimOptions
from inferplane_workers.sim.sampling import Sampling, clamp_max_tokens, read_sampling, refuse_logprobs
from inferplane_workers.sim.text import TextModel
from inferplane_workers.sim.tools import read_tool_call

VERSION = "0.32.0"
_COMPLETION_DEFAULT_TOKENS = 16
_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(slots=True)
class _Running:
    """Which core computes a choice, and under which name."""

    driver: EngineDriver
    rank: int
    names: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class _Job:
    """A generation request, read."""

    name: str
    shape: AnswerShape
    sampling: Sampling
    prompts: Sequence[tuple[int, ...]]
    adapter: Adapter | None


class SimService:
    """Handles every request of the server."""

    def __init__(
        self,
        options: SimOptions,
        text: TextModel,
        drivers: Sequence[EngineDriver],
        faults: FaultPlan,
        *,
        side_channel_ports: Callable[[int], int],
        started_at: int,
    ) -> None:
        self._options = options
        self._text = text
        self._drivers = drivers
        self._faults = faults
        self._side_channel_port = side_channel_ports
        self._created = started_at
        self._requests = 0
        self._generations: set[Generation] = set()
        self.adapters = LoadedAdapters(options.lora, options.served_names, options.adapters)
        self._busy_adapters: dict[str, str] = {}
        self.ready = False
        engine = options.engine
        self.metrics = EngineMetrics(
            options.served_names[0],
            lambda: [driver.gauges() for driver in drivers],
            {
                "block_size": str(engine.block_size),
                "cache_dtype": "auto",
                "enable_prefix_caching": str(engine.prefix_caching),
                "num_gpu_blocks": str(engine.blocks),
            },
            lambda: (sorted(set(self._busy_adapters.values())), [], len(self.adapters.all())),
        )
        self._routes: dict[tuple[bytes, bytes], Callable[[Request, Exchange], None]] = {
            (b"POST", b"/v1/chat/completions"): self._chat,
            (b"POST", b"/v1/completions"): self._complete,
            (b"POST", b"/v1/embeddings"): self._pool(pooling.embeddings, "embd"),
            **{(b"POST", path): self._pool(pooling.score, "score") for path in (b"/score", b"/v1/score")},
            **{
                (b"POST", path): self._pool(pooling.rerank, "rerank")
                for path in (b"/rerank", b"/v1/rerank", b"/v2/rerank")
            },
            (b"POST", b"/tokenize"): self._answering(self._tokenize),
            (b"POST", b"/detokenize"): self._answering(self._detokenize),
            (b"POST", b"/reset_prefix_cache"): self._answering(self._reset_prefix_cache),
            (b"GET", b"/v1/models"): self._answering(self._models),
            (b"GET", b"/health"): self._answering(self._health),
            (b"GET", b"/ping"): self._answering(self._health),
            (b"GET", b"/version"): self._answering(lambda _: json_response({"version": VERSION})),
            (b"GET", b"/metrics"): self._answering(
                lambda _: text_response(self.metrics.exposition().decode(), _METRICS_TYPE)
            ),
        }
        if options.lora.runtime:
            self._routes |= {
                (b"POST", b"/v1/load_lora_adapter"): self._answering(self.adapters.load),
                (b"POST", b"/v1/unload_lora_adapter"): self._answering(self.adapters.unload),
            }

    def __call__(self, request: Request, exchange: Exchange) -> None:
        """Serve one request."""
        handler = self._routes.get((request.method, request.path))
        try:
            if handler is None:
                raise self._no_route(request)
            handler(request, exchange)
        except ApiError as error:
            if error.status == 0:
                exchange.abort()
            else:
                exchange.respond(error.response())

    def reset_all(self) -> None:
        """Reset everything in flight: the engine is gone."""
        for generation in list(self._generations):
            generation.reset()

    @property
    def in_flight(self) -> int:
        return len(self._generations)

    def _no_route(self, request: Request) -> ApiError:
        if any(path == request.path for _, path in self._routes):
            return ApiError(405, "Method Not Allowed", kind="Method Not Allowed")
        return not_found(request.method)

    def _answering(self, make: Callable[[Request], Response]) -> Callable[[Request, Exchange], None]:
        return lambda request, exchange: exchange.respond(make(request))

    # Generation ----------------------------------------------------------------------------------------------------

    def _chat(self, request: Request, exchange: Exchange) -> None:
        body = Body.parse(request.body)
        name = self._request_id("chatcmpl", request, body)
        refuse_logprobs(body)
        model, adapter = self._model(body)
        tool = read_tool_call(body, name)
        prompt = read_prompt(self._text, body)
        asked = "max_completion_tokens" if body.has("max_completion_tokens") else "max_tokens"
        limit = self._options.engine.max_model_len
        most = clamp_max_tokens(body.whole(asked), asked, prompt=len(prompt), max_model_len=limit)
        sampling = read_sampling(body, max_tokens=most, force_usage=self._options.force_usage)
        if tool is not None:
            sampling = replace(sampling, max_tokens=min(most, len(tool.pieces)), ignore_eos=True, stops=())
        shape = ChatShape(name, model, prompt, token_ids=sampling.return_token_ids, tool=tool)
        self._generate(request, exchange, _Job(name, shape, sampling, [prompt], adapter))

    def _complete(self, request: Request, exchange: Exchange) -> None:
        body = Body.parse(request.body)
        name = self._request_id("cmpl", request, body)
        refuse_logprobs(body)
        model, adapter = self._model(body)
        prompts = read_prompts(self._text, body)
        limit = self._options.engine.max_model_len
        asked = body.whole("max_tokens", _COMPLETION_DEFAULT_TOKENS)
        most = min(clamp_max_tokens(asked, "max_tokens", prompt=len(prompt), max_model_len=limit) for prompt in prompts)
        sampling = read_sampling(body, max_tokens=most, force_usage=self._options.force_usage)
        echo: dict[int, str] = {}
        if body.flag("echo"):
            for index in range(len(prompts) * sampling.choices):
                echo[index] = self._text.decode(prompts[index // sampling.choices])
        shape = CompletionShape(name, model, token_ids=sampling.return_token_ids, echo=echo)
        self._generate(request, exchange, _Job(name, shape, sampling, prompts, adapter))

    def _generate(self, request: Request, exchange: Exchange, job: _Job) -> None:
        rank = self._rank(request)
        driver = self._drivers[rank]
        self._admit(driver)
        self._requests += 1
        if self._suffers(driver, exchange):
            return
        sampling = job.sampling
        choices = [
            Choice(index, job.prompts[index // sampling.choices], self._text.stream())
            for index in range(len(job.prompts) * sampling.choices)
        ]
        running = _Running(driver, rank)
        generation = Generation(
            exchange,
            job.shape,
            sampling,
            choices,
            details=self._options.prompt_tokens_details,
            cached_tokens=lambda finished: self._cached_tokens(sampling, finished),
            transfer=lambda finished: self._transfer_params(rank, finished),
            stop=lambda choice: driver.stop(running.names[choice.index]),
            drop=lambda choice: self._drop(running, choice),
            over=self._generations.discard,
        )
        self._generations.add(generation)
        generation.begin()
        for choice in choices:
            self._submit(running, generation, choice, job)

    def _submit(self, running: _Running, generation: Generation, choice: Choice, job: _Job) -> None:
        sampling, adapter = job.sampling, job.adapter
        handoff = self._options.transfer is not None
        name = f"{job.name}-{choice.index}-{token_hex(4)}"
        running.names[choice.index] = name
        if adapter is not None:
            self._busy_adapters[name] = adapter.name
        running.driver.submit(
            EngineRequest(
                request_id=name,
                prompt=choice.prompt,
                max_tokens=sampling.max_tokens,
                salt=sampling.salt,
                adapter="" if adapter is None else adapter.name,
                adapter_id=None if adapter is None else adapter.number,
                ignore_eos=sampling.ignore_eos,
                min_tokens=sampling.min_tokens,
                stop_tokens=sampling.stop_tokens,
                sample=sampling.seed + choice.index % sampling.choices,
                hold=sampling.transfer.hold and handoff,
                source=sampling.transfer.source if handoff else None,
            ),
            _CountingSink(self, running.rank, name, generation, choice),
        )

    def _drop(self, running: _Running, choice: Choice) -> None:
        """Forget a choice: the client is gone."""
        name = running.names.get(choice.index)
        if name is not None:
            running.driver.drop(name)
            self._busy_adapters.pop(name, None)

    def counted(self, rank: int, name: str, finished: Finished) -> None:
        self._busy_adapters.pop(name, None)
        self.metrics.finished(rank, finished)

    def _cached_tokens(self, sampling: Sampling, finished: Finished) -> int:
        """After a hand-off the consumer reports the producer's number, as vLLM does."""
        remote = sampling.transfer.remote_cached_tokens
        return finished.stats.cached_tokens if remote is None else remote

    def _transfer_params(self, rank: int, finished: Finished) -> dict[str, object] | None:
        """Say what a consumer needs to pull the blocks that this engine holds."""
        transfer = self._options.transfer
        if finished.held_blocks is None or transfer is None:
            return None
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": finished.held_blocks,
            "remote_engine_id": engine_id(transfer.engine_id, rank, self._options.ranks),
            "remote_request_id": finished.request_id,
            "remote_host": transfer.host,
            "remote_port": self._side_channel_port(rank),
            "tp_size": 1,
            "dcp_size": 1,
            "pp_size": 1,
            "remote_num_tokens": finished.stats.prompt_tokens + finished.stats.output_tokens - 1,
            "remote_blocks_expiry_time": None,
            "transfer_mode": "pull",
            "remote_prefill_cached_tokens": finished.stats.cached_tokens,
        }

    # Admission -----------------------------------------------------------------------------------------------------

    def _admit(self, driver: EngineDriver) -> None:
        if driver.dead:
            raise engine_dead()
        most = self._options.max_queued
        if most is not None and driver.gauges().waiting >= most:
            self.metrics.rejections += 1
            raise ApiError(
                503,
                "The engine is currently busy and cannot accept new requests. Please try again later or on a different "
                "instance.",
                kind="Service Unavailable",
            )

    def _suffers(self, driver: EngineDriver, exchange: Exchange) -> bool:
        """Meet the faults that this request was chosen for; True: there is nothing more to do."""
        over = False
        for fault in self._faults.on_request(self._requests, driver.now()):
            if fault.kind is SimFaultKind.REFUSE:
                exchange.abort()
                over = True
            elif fault.kind is SimFaultKind.ERROR:
                raise ApiError(fault.status, "Injected failure.", kind="InternalServerError")
            else:
                driver.meet(fault)
        return over

    def _rank(self, request: Request) -> int:
        given = request.headers.get(b"x-data-parallel-rank")
        if given is None:
            return min(range(len(self._drivers)), key=lambda rank: self._drivers[rank].load)
        if not given.isdigit() or int(given) >= len(self._drivers):
            raise bad_request(
                f"data_parallel_rank {given.decode(errors='replace')} is out of range [0, {len(self._drivers)}).",
                "data_parallel_rank",
            )
        return int(given)

    def _model(self, body: Body) -> tuple[str, Adapter | None]:
        name = body.text("model")
        if not name or name in self._options.served_names:
            return name or self._options.served_names[0], None
        adapter = self.adapters.get(name)
        if adapter is None:
            raise unknown_model(name)
        return name, adapter

    def _request_id(self, prefix: str, request: Request, body: Body) -> str:
        given = request.headers.get(b"x-request-id")
        name = given.decode("latin-1") if given is not None else body.text("request_id") or token_hex(16)
        return f"{prefix}-{name}"

    # The other endpoints -------------------------------------------------------------------------------------------

    def _pool(
        self, make: Callable[[TextModel, Body, str, str, int], dict[str, object]], prefix: str
    ) -> Callable[[Request, Exchange], None]:
        def answer(request: Request) -> Response:
            body = Body.parse(request.body)
            model, _ = self._model(body)
            name = self._request_id(prefix, request, body)
            return json_response(make(self._text, body, model, name, self._options.engine.max_model_len))

        return self._answering(answer)

    def _tokenize(self, request: Request) -> Response:
        body = Body.parse(request.body)
        self._model(body)
        if body.has("messages"):
            tokens = read_prompt(self._text, body)
        else:
            body.required("prompt")
            tokens = self._text.encode(body.text("prompt") or "", special=body.flag("add_special_tokens", default=True))
        names = self._text.names(tokens) if body.flag("return_token_strs") else None
        return json_response(
            {
                "count": len(tokens),
                "max_model_len": self._options.engine.max_model_len,
                "tokens": tokens,
                "token_strs": names,
            }
        )

    def _detokenize(self, request: Request) -> Response:
        body = Body.parse(request.body)
        self._model(body)
        tokens = as_tokens(body.required("tokens"), body.at("tokens"), self._text.size)
        return json_response({"prompt": self._text.decode(tokens, skip_special=False)})

    def _reset_prefix_cache(self, request: Request) -> Response:
        del request
        done = [driver.reset_prefix_cache() for driver in self._drivers]
        return Response(200 if all(done) else 500, Headers())

    def _models(self, request: Request) -> Response:
        del request
        limit = self._options.engine.max_model_len
        cards = [self._card(name, self._options.model, None, limit) for name in self._options.served_names]
        cards += [
            self._card(adapter.name, adapter.path, self._options.served_names[0], None)
            for adapter in self.adapters.all()
        ]
        return json_response({"object": "list", "data": cards})

    def _card(self, name: str, root: str, parent: str | None, limit: int | None) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "vllm",
            "root": root,
            "parent": parent,
            "max_model_len": limit,
            "permission": [],
        }

    def _health(self, request: Request) -> Response:
        del request
        if any(driver.dead for driver in self._drivers):
            return Response(503, Headers())
        return Response(200, Headers())


class _CountingSink:
    """Counts a finished choice before it is answered."""

    __slots__ = ("_choice", "_generation", "_name", "_rank", "_service")

    def __init__(self, service: SimService, rank: int, name: str, generation: Generation, choice: Choice) -> None:
        self._service = service
        self._rank = rank
        self._name = name
        self._generation = generation
        self._choice = choice

    def on_output(self, tokens: tuple[int, ...], finished: Finished | None) -> None:
        if finished is not None:
            self._service.counted(self._rank, self._name, finished)
        self._generation.take(self._choice, tokens, finished)


def engine_id(base: str, rank: int, ranks: int) -> str:
    """Identity of a rank on the side channel, as vLLM derives it."""
    return base if ranks == 1 else f"{base}_dp{rank}"
