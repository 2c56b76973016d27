"""What an API server checks beyond shapes: the validators of the resource types, said again in CEL.

pydantic validates where Python runs; an API server has to refuse the same things before anything is stored, with the
same fix.  The two are written apart because neither can be made from the other; a test holds them together by feeding
both with the same resources.
Rules see a value after defaults were filled in, so nested parts are always there; fields without a default need has().
Only an API server knows the value before a change, so what must not change is said here alone.
Invariant: no rule refuses what the types accept, but for changes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel

from inferplane_api.v1alpha1.engine import EngineSpec
from inferplane_api.v1alpha1.inference_service import InferenceService, InferenceServiceSpec, Rollout, Routing
from inferplane_api.v1alpha1.kv_store import ADDRESS_PATTERN, KVStoreSpec, Tier
from inferplane_api.v1alpha1.lora_adapter import LoRAAdapterSpec
from inferplane_api.v1alpha1.model import ModelSpec
from inferplane_api.v1alpha1.model_route import ModelRoute, ModelRouteSpec
from inferplane_api.v1alpha1.pool import PoolSpec
from inferplane_api.v1alpha1.pool_template import PoolTemplate, ResourceClaim, Resources
from inferplane_api.v1alpha1.slo import PriorityObjective, PromptClass, Slo
from inferplane_api.v1alpha1.source import CaBundle, ModelSource, WeightsCache
from inferplane_api.v1alpha1.speculation import Speculation


@dataclass(frozen=True, slots=True)
class Rule:
    """An expression that must be true of a value (`self`, and `oldSelf` before a change), and what to do if not."""

    expression: str
    message: str
    field: str = ""
    """Which field of the value it speaks of, dotted; empty: the value itself."""


def _longer_than_zero(field: str, example: str) -> Rule:
    return Rule(f"duration(self.{field}) > duration('0s')", f'must be longer than 0s; try "{example}"', field)


def _within(field: str, low: str, high: str, example: str) -> Rule:
    return Rule(
        f"duration(self.{field}) >= duration('{low}') && duration(self.{field}) <= duration('{high}')",
        f'is out of range; use {low} to {high}, such as "{example}"',
        field,
    )


def _limit(field: str, high: str, example: str, *, optional: bool = False) -> Rule:
    absent = f"!has(self.{field}) || " if optional else ""
    return Rule(
        f"{absent}(duration(self.{field}) > duration('0s') && duration(self.{field}) <= duration('{high}'))",
        f'cannot be met or means nothing; use more than 0s and at most {high}, such as "{example}"',
        field,
    )


def _block_size_fits(field: str, engine: str, size: str, guard: str = "") -> Rule:
    return Rule(
        f"{guard}!has({size}) || {engine}.type != 'vllm' || {engine}.device != 'cpu'"
        f" || {size} % 32 == 0 || {size} == 16",
        "does not fit vLLM's CPU kernels; use a multiple of 32",
        field,
    )


def _own_or_shared(value: str, pool: str, field: str, default: str) -> str:
    own, shared = f"{value}.{pool}.engine.{field}", f"{value}.engine.{field}"
    return f"(has({own}) ? {own} : has({shared}) ? {shared} : {default})"


def _block_size(value: str, pool: str) -> str:
    default = f"({value}.engine.type == 'vllm' && {value}.engine.device == 'cpu' ? 128 : 16)"
    return _own_or_shared(value, pool, "blockSize", default)


def _kv_type(pool: str) -> str:
    own = f"self.{pool}.engine.kvCacheDtype"
    return f"(has({own}) ? {own} : self.engine.kvCacheDtype)"


def _devices(pool: str) -> str:
    shape = f"self.{pool}.parallelism"
    return f"self.{pool}.minReplicas * {shape}.tensor * {shape}.pipeline * {shape}.data"


FORM_RULES: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {
        "duration": (
            Rule("duration(self) <= duration('87600h')", "is out of range; give a duration between 0 and ten years"),
        ),
        "bytes": (
            Rule(
                # Not isInteger(), which takes no text with a fraction for an integer, such as "0.5Gi".
                "quantity(string(self)).compareTo(quantity('0')) >= 0"
                " && quantity(string(self)).compareTo(quantity('1Ei')) <= 0"
                " && double(int(quantity(string(self)).asApproximateFloat()))"
                " == quantity(string(self)).asApproximateFloat()",
                'is not a whole number of bytes up to 1Ei; write bytes such as "64Mi" or "2Gi"',
            ),
        ),
        "absolute-path": (
            Rule(
                "self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)')",
                'is not an absolute path; begin with "/" and leave out ".."',
            ),
            Rule("!self.matches('^[/.]*$')", "is the root of the file system; name a directory in it"),
        ),
        "address": (
            Rule(
                f"self == '' || self.matches({json.dumps(ADDRESS_PATTERN)})",
                'is not an address; give host:port or a URL, such as "redis:6379"',
            ),
        ),
        "relative-path": (
            Rule(
                "!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)')",
                'leaves the volume; give a path inside the volume, without ".."',
            ),
        ),
        "environment": (
            Rule(
                "self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_.-]*$'))",
                "holds what is not a variable's name; use letters, digits and '_', not beginning with a digit",
            ),
            Rule(
                "self.all(name, !name.startsWith('INFERPLANE_'))",
                "holds a reserved name; variables that begin with INFERPLANE_ are set by the operator",
            ),
        ),
    }
)
"""By what a type's schema says of the form of its text."""

_MODEL_SPEC: Final = (
    Rule(
        "self.name == oldSelf.name",
        "cannot be changed, it is part of every KV block's identity;"
        " create another InferenceService and move clients with a ModelRoute",
        "name",
    ),
    Rule(
        "!has(self.servedNames) || self.servedNames.all(x, self.servedNames.exists_one(y, y == x))",
        "a name appears twice; name each one once",
        "servedNames",
    ),
    Rule(
        "!has(self.revision) || self.revision == '' || (has(self.source) && has(self.source.hf))",
        "only a Hugging Face source has revisions; remove it, or use source.hf",
        "revision",
    ),
    Rule(
        "!has(self.cache) || (has(self.source) && has(self.source.hf))",
        "only a Hugging Face source is downloaded; remove it, or use source.hf",
        "cache",
    ),
    Rule(
        "!has(self.endpoint) || self.endpoint == '' || (has(self.source) && has(self.source.hf))",
        "only a Hugging Face source is downloaded; remove it, or use source.hf",
        "endpoint",
    ),
    Rule(
        "!has(self.caBundle) || (has(self.source) && has(self.source.hf))",
        "only a Hugging Face source is downloaded; remove it, or use source.hf",
        "caBundle",
    ),
)
_SPECULATION: Final = (
    Rule(
        "!(self.method in ['draft', 'eagle', 'eagle3']) || has(self.source)",
        "draft, eagle and eagle3 guess with weights of their own; add source",
        "source",
    ),
    Rule(
        "self.method in ['draft', 'eagle', 'eagle3'] || !has(self.source)",
        "ngram and mtp need no weights; remove it",
        "source",
    ),
    Rule(
        "!has(self.revision) || self.revision == '' || (has(self.source) && has(self.source.hf))",
        "only a Hugging Face source has revisions; remove it, or use source.hf",
        "revision",
    ),
)
_RESOURCE_CLAIM: Final = (
    Rule(
        "[has(self.resourceClaimName), has(self.resourceClaimTemplateName), has(self.deviceClassName)]"
        ".filter(given, given).size() == 1",
        "exactly one reference is needed; set one of resourceClaimName, resourceClaimTemplateName, deviceClassName",
    ),
    Rule(
        "!has(self.count) || has(self.deviceClassName)",
        "belongs to a deviceClassName; remove it, or set deviceClassName",
        "count",
    ),
    Rule(
        "!has(self.selectors) || self.selectors.size() == 0 || has(self.deviceClassName)",
        "belongs to a deviceClassName; remove it, or set deviceClassName",
        "selectors",
    ),
)
_POOL_TEMPLATE: Final = (
    Rule(
        "self.minReplicas <= (has(self.maxReplicas) ? self.maxReplicas : self.replicas > 1 ? self.replicas : 1)",
        "exceeds maxReplicas (default: replicas, at least 1); lower it or raise the other",
        "minReplicas",
    ),
    Rule(
        "self.replicas >= self.minReplicas && (!has(self.maxReplicas) || self.replicas <= self.maxReplicas)",
        "is outside minReplicas..maxReplicas; keep it between them",
        "replicas",
    ),
)
_SERVICE_SPEC: Final = (
    Rule(
        "self.engine.type == 'sim' || has(self.model.source)",
        "the engine needs weights; add one of source.hf, pvc, path, oci",
        "model.source",
    ),
    Rule(
        "self.mode != 'aggregated' || !has(self.prefill)",
        "mode aggregated has no prefill pool; remove it, or use mode disaggregated or auto",
        "prefill",
    ),
    Rule(
        "self.mode != 'disaggregated' || has(self.prefill)",
        "mode disaggregated needs a prefill pool; add prefill, or use mode aggregated or auto",
        "prefill",
    ),
    _block_size_fits("decode.engine.blockSize", "self.engine", "self.decode.engine.blockSize"),
    _block_size_fits(
        "prefill.engine.blockSize", "self.engine", "self.prefill.engine.blockSize", "!has(self.prefill) || "
    ),
    Rule(
        f"!has(self.prefill) || {_block_size('self', 'prefill')} == {_block_size('self', 'decode')}",
        "prefill and decode have KV blocks of different sizes; set engine.blockSize once for both",
        "prefill.engine.blockSize",
    ),
    Rule(
        f"!has(self.prefill) || {_kv_type('prefill')} == {_kv_type('decode')}",
        "prefill and decode keep KV blocks in different types; set engine.kvCacheDtype once for both",
        "prefill.engine.kvCacheDtype",
    ),
    Rule(
        "!has(self.prefill) || self.prefill.parallelism.tensor % self.decode.parallelism.tensor == 0"
        " || self.decode.parallelism.tensor % self.prefill.parallelism.tensor == 0",
        "does not divide decode's or the other way round;"
        " make one a multiple of the other: KV heads are regrouped whole",
        "prefill.parallelism.tensor",
    ),
    Rule(
        f"!has(self.budget.maxDevices) || (has(self.prefill) ? {_devices('prefill')} : 0) + {_devices('decode')}"
        " <= self.budget.maxDevices",
        "minReplicas of the pools alone take more devices; raise the budget or lower minReplicas",
        "budget.maxDevices",
    ),
    _within("drainTimeout", "1s", "24h", "2m"),
    Rule(
        f"{_block_size('self', 'decode')} == {_block_size('oldSelf', 'decode')}",
        "the size of KV blocks cannot be changed (its default depends on engine.type and engine.device), blocks of"
        " two sizes have different names; create another InferenceService and move clients with a ModelRoute",
        "engine.blockSize",
    ),
)
_TIER: Final = (
    Rule(
        "!(self.medium in ['dram', 'ssd'])"
        " || (has(self.capacity) && quantity(string(self.capacity)).compareTo(quantity('0')) > 0)",
        'dram and ssd need a size; give one, such as "64Gi"',
        "capacity",
    ),
    Rule(
        "self.medium != 'ssd' || has(self.path)",
        'ssd needs a directory; give one, such as "/var/lib/inferplane/kv"',
        "path",
    ),
    Rule("self.medium == 'ssd' || !has(self.path)", "only ssd has a directory; remove it", "path"),
    Rule(
        "!(self.medium in ['dram', 'ssd']) || !has(self.address)",
        "dram and ssd are on the node; remove it",
        "address",
    ),
    Rule(
        "self.medium in ['dram', 'ssd'] || (has(self.address) && self.address != '')",
        'redis, mooncake and lmcache need an address; give host:port, such as "redis:6379"',
        "address",
    ),
)
_ROUTE_SPEC: Final = (
    Rule("self.targets.exists(t, t.weight > 0)", "all weights are 0; give one target a weight of 1 or more", "targets"),
    Rule(
        "!has(self.aliases) || self.aliases.all(x, self.aliases.exists_one(y, y == x))",
        "a name appears twice; name each one once",
        "aliases",
    ),
    Rule(
        "!has(self.aliases) || !self.aliases.exists(a, self.targets.exists(t, t.servedName == a))",
        "an alias is also a target, and a name cannot stand for itself; rename the alias",
        "aliases",
    ),
    Rule(
        "!has(self.canary) || !self.targets.exists(t, t.servedName == self.canary.servedName)",
        "is also a target; change its weight instead",
        "canary.servedName",
    ),
)
_SAME_SERVICE: Final = Rule("self.service == oldSelf.service", "cannot be changed; create another object", "service")

RULES: Final[Mapping[type[BaseModel], tuple[Rule, ...]]] = MappingProxyType(
    {
        InferenceService: (
            Rule(
                "self.metadata.name.size() <= 40 && !self.metadata.name.contains('.')",
                "is too long or has dots; use at most 40 characters, no '.'",
                "metadata.name",
            ),
        ),
        InferenceServiceSpec: _SERVICE_SPEC,
        ModelSpec: _MODEL_SPEC,
        ModelSource: (
            Rule(
                "[has(self.hf), has(self.pvc), has(self.path), has(self.oci)].filter(given, given).size() == 1",
                "exactly one source is needed; keep one of hf, pvc, path, oci",
            ),
        ),
        WeightsCache: (
            Rule("has(self.claimName) != has(self.hostPath)", "exactly one place is needed; set claimName or hostPath"),
        ),
        CaBundle: (
            Rule(
                "has(self.configMapName) != has(self.secretName)",
                "exactly one object is needed; set configMapName or secretName",
            ),
        ),
        Speculation: _SPECULATION,
        EngineSpec: (
            Rule(
                "!has(self.speculation) || self.type != 'sim'",
                "the simulated engine guesses nothing; remove it",
                "speculation",
            ),
            Rule(
                "!has(self.sim) || self.type == 'sim'",
                "is for the simulated engine; remove it, or set engine.type to sim",
                "sim",
            ),
            _longer_than_zero("startupTimeout", "30m"),
            _block_size_fits("blockSize", "self", "self.blockSize"),
        ),
        Slo: (
            _limit("ttft", "1h", "2s"),
            _limit("tpot", "1m", "50ms"),
            _within("window", "1s", "720h", "5m"),
            Rule(
                "!has(self.ttftByPromptLength)"
                " || (self.ttftByPromptLength.map(c, c.maxPromptTokens).isSorted()"
                " && self.ttftByPromptLength.all(c,"
                " self.ttftByPromptLength.exists_one(d, d.maxPromptTokens == c.maxPromptTokens)))",
                "a class does not exceed the class before; sort the classes by rising maxPromptTokens",
                "ttftByPromptLength",
            ),
        ),
        PromptClass: (_limit("ttft", "1h", "2s"),),
        PriorityObjective: (
            _limit("ttft", "1h", "2s", optional=True),
            _limit("tpot", "1m", "50ms", optional=True),
            Rule("has(self.ttft) || has(self.tpot)", "changes nothing; give ttft, tpot or both"),
        ),
        PoolTemplate: _POOL_TEMPLATE,
        ResourceClaim: _RESOURCE_CLAIM,
        Resources: (
            Rule(
                "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) ||"
                " quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
                "a request exceeds its limit; raise the limit or lower the request",
                "requests",
            ),
        ),
        Routing: (_longer_than_zero("queueTimeout", "30s"), _longer_than_zero("requestTimeout", "1h")),
        Rollout: (
            Rule(
                "self.maxSurge > 0 || self.maxUnavailable > 0",
                "nothing may move: maxSurge and maxUnavailable are 0; set one of them to 1",
            ),
            _longer_than_zero("progressDeadline", "1h"),
        ),
        PoolSpec: (
            _SAME_SERVICE,
            Rule(
                "self.minReplicas <= self.maxReplicas",
                "exceeds maxReplicas; lower it or raise the other",
                "minReplicas",
            ),
        ),
        KVStoreSpec: (
            Rule(
                "self.tiers.map(t, t.medium == 'dram' ? 0 : t.medium == 'ssd' ? 1 : 2).isSorted()",
                "a tier is faster than the tier before; sort fastest first",
                "tiers",
            ),
            _longer_than_zero("ttl", "24h"),
        ),
        Tier: _TIER,
        ModelRoute: (
            Rule(
                "(has(self.spec.aliases) && self.spec.aliases.size() > 0)"
                " || !self.spec.targets.exists(t, t.servedName == self.metadata.name)",
                "is also a target, and a name cannot stand for itself; give spec.aliases, or rename it",
                "metadata.name",
            ),
        ),
        ModelRouteSpec: _ROUTE_SPEC,
        LoRAAdapterSpec: (_SAME_SERVICE,),
    }
)
"""By the type whose validator says the same."""
