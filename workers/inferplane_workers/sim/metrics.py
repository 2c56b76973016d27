"""/metrics with vLLM's names, labels and buckets, from the cores' own counters.

Gauges and counters are read when they are asked for; only what a request measures is kept here.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inferplane_engine.sim.events import Finished, FinishReason, Gauges

_LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_FIRST_TOKEN = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
    160,
    640,
    2560,
)
_BETWEEN_TOKENS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
_LABELS = ("model_name", "engine")


class EngineMetrics(Collector):
    """One server's metrics; `gauges` gives one value per rank."""

    def __init__(
        self,
        model: str,
        gauges: Callable[[], Sequence[Gauges]],
        cache_config: dict[str, str],
        adapters: Callable[[], tuple[list[str], list[str], int]],
    ) -> None:
        self._model = model
        self._gauges = gauges
        self._cache_config = cache_config
        self._adapters = adapters
        self._success: Counter[tuple[int, str]] = Counter()
        self._prompt_tokens: Counter[int] = Counter()
        self._output_tokens: Counter[int] = Counter()
        self._by_source: Counter[tuple[int, str]] = Counter()
        self.rejections = 0
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._first_token = self._histogram("time_to_first_token_seconds", "Time to first token", _FIRST_TOKEN)
        self._between = self._histogram("inter_token_latency_seconds", "Inter-token latency", _BETWEEN_TOKENS)
        self._per_token = self._histogram(
            "request_time_per_output_token_seconds", "Time per output token per request", _BETWEEN_TOKENS
        )
        self._whole = self._histogram("e2e_request_latency_seconds", "End-to-end latency", _LATENCY)
        self._queue = self._histogram("request_queue_time_seconds", "Time in WAITING", _LATENCY)
        self._inference = self._histogram("request_inference_time_seconds", "Time in RUNNING", _LATENCY)
        self._prefill = self._histogram("request_prefill_time_seconds", "Time in PREFILL", _LATENCY)
        self._decode = self._histogram("request_decode_time_seconds", "Time in DECODE", _LATENCY)
        self._prompts = self._histogram("request_prompt_tokens", "Prompt tokens per request", _TOKENS)
        self._outputs = self._histogram("request_generation_tokens", "Generated tokens per request", _TOKENS)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"vllm:{name}", f"{text}.", _LABELS, registry=self._registry, buckets=buckets)

    def finished(self, rank: int, event: Finished) -> None:
        """Count one request."""
        stats = event.stats
        self._success[rank, str(event.reason)] += 1
        self._output_tokens[rank] += stats.output_tokens
        if stats.first_token_at != stats.first_token_at:  # NaN: it ended before its first token
            return
        self._prompt_tokens[rank] += stats.prompt_tokens
        self._by_source[rank, "local_cache_hit"] += stats.local_cached
        self._by_source[rank, "external_kv_transfer"] += stats.external_cached
        self._by_source[rank, "local_compute"] += stats.prompt_tokens - stats.cached_tokens
        labels = (self._model, str(rank))
        decode_s = event.at - stats.first_token_at
        self._first_token.labels(*labels).observe(stats.first_token_at - stats.submitted_at)
        self._whole.labels(*labels).observe(event.at - stats.submitted_at)
        self._queue.labels(*labels).observe(stats.scheduled_at - stats.submitted_at)
        self._inference.labels(*labels).observe(event.at - stats.scheduled_at)
        self._prefill.labels(*labels).observe(stats.first_token_at - stats.scheduled_at)
        self._decode.labels(*labels).observe(decode_s)
        self._prompts.labels(*labels).observe(stats.prompt_tokens)
        self._outputs.labels(*labels).observe(stats.output_tokens)
        if stats.output_tokens > 1:
            mean = decode_s / (stats.output_tokens - 1)
            self._per_token.labels(*labels).observe(mean)
            for _ in range(stats.output_tokens - 1):
                self._between.labels(*labels).observe(mean)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Read the cores."""
        by_rank = list(enumerate(self._gauges()))
        yield from self._collect_gauges(by_rank)
        yield from self._collect_counters(by_rank)
        config = GaugeMetricFamily(
            "vllm:cache_config_info", "Cache configuration.", labels=[*self._cache_config, "engine"]
        )
        for rank, _ in by_rank:
            config.add_metric([*self._cache_config.values(), str(rank)], 1)
        yield config
        running, waiting, most = self._adapters()
        lora = GaugeMetricFamily(
            "vllm:lora_requests_info",
            "Running stats on LoRA requests.",
            labels=["max_lora", "waiting_lora_adapters", "running_lora_adapters"],
        )
        if most:
            lora.add_metric([str(most), ",".join(waiting), ",".join(running)], 1)
        yield lora

    def _collect_gauges(self, by_rank: list[tuple[int, Gauges]]) -> Iterator[Metric]:
        readings: tuple[tuple[str, str, Callable[[Gauges], float]], ...] = (
            ("num_requests_running", "Requests in execution batches.", lambda g: g.running),
            ("num_requests_waiting", "Requests waiting to be processed.", lambda g: g.waiting),
            ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", lambda g: g.kv_usage),
        )
        for name, text, read in readings:
            family = GaugeMetricFamily(f"vllm:{name}", text, labels=_LABELS)
            for rank, gauges in by_rank:
                family.add_metric([self._model, str(rank)], read(gauges))
            yield family
        reasons = GaugeMetricFamily(
            "vllm:num_requests_waiting_by_reason", "Requests waiting, by reason.", labels=[*_LABELS, "reason"]
        )
        for rank, gauges in by_rank:
            reasons.add_metric([self._model, str(rank), "capacity"], gauges.waiting - gauges.waiting_for_transfer)
            reasons.add_metric([self._model, str(rank), "deferred"], gauges.waiting_for_transfer)
        yield reasons

    def _collect_counters(self, by_rank: list[tuple[int, Gauges]]) -> Iterator[Metric]:
        readings: tuple[tuple[str, str, Callable[[int, Gauges], float]], ...] = (
            ("prefix_cache_queries", "Prefix cache queries, in tokens.", lambda _, g: g.prefix_queries),
            ("prefix_cache_hits", "Prefix cache hits, in tokens.", lambda _, g: g.prefix_hits),
            ("external_prefix_cache_queries", "External prefix cache queries.", lambda _, g: g.external_queries),
            ("external_prefix_cache_hits", "External prefix cache hits.", lambda _, g: g.external_hits),
            ("num_preemptions", "Preemptions.", lambda _, g: g.preemptions),
            ("prompt_tokens", "Prefill tokens processed.", lambda rank, _: self._prompt_tokens[rank]),
            ("generation_tokens", "Generation tokens processed.", lambda rank, _: self._output_tokens[rank]),
            ("prompt_tokens_cached", "Cached prompt tokens.", lambda rank, _: self._cached(rank)),
            (
                "admission_rejections",
                "Requests refused for a full queue.",
                lambda rank, _: 0 if rank else self.rejections,
            ),
        )
        for name, text, read in readings:
            family = CounterMetricFamily(f"vllm:{name}", text, labels=_LABELS)
            for rank, gauges in by_rank:
                family.add_metric([self._model, str(rank)], read(rank, gauges))
            yield family
        sources = CounterMetricFamily(
            "vllm:prompt_tokens_by_source", "Prompt tokens by source.", labels=[*_LABELS, "source"]
        )
        success = CounterMetricFamily(
            "vllm:request_success", "Processed requests.", labels=[*_LABELS, "finished_reason"]
        )
        for rank, _ in by_rank:
            for source in ("local_compute", "local_cache_hit", "external_kv_transfer"):
                sources.add_metric([self._model, str(rank), source], self._by_source[rank, source])
            for reason in FinishReason:
                success.add_metric([self._model, str(rank), str(reason)], self._success[rank, str(reason)])
        yield sources
        yield success

    def _cached(self, rank: int) -> int:
        return self._by_source[rank, "local_cache_hit"] + self._by_source[rank, "external_kv_transfer"]
