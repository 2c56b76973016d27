"""The revision of a service: a short hash of everything that a worker is made of, and of nothing else.

It is computed from the resources and not from the rendered templates.  So a new release of the operator, which may
render a template differently, restarts no engine; and objectives, routing, scaling, budget or replica counts, which no
worker knows, change nothing.
One revision covers all pools of a service: prefill and decode workers hand over to peers of their own revision only, so
the pools change together.
"""

import hashlib
import json
from typing import Any, Final

from inferplane_api.v1alpha1 import InferenceService, KVStore
from inferplane_api.v1alpha1.pool_template import PoolTemplate
from inferplane_operator.render.adapter_need import AdapterNeed

_LENGTH: Final = 10
_SIZES: Final = {"replicas", "min_replicas", "max_replicas"}


def revision_of(
    service: InferenceService, adapters: AdapterNeed | None, *, model_revision: str, store: KVStore | None = None
) -> str:
    """Return the revision; `model_revision` is the resolved commit, "" where there is none.

    Of adapters only the need counts: engines load and unload them while they run.
    """
    text = json.dumps(
        made_of(service, adapters, model_revision=model_revision, store=store),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def made_of(
    service: InferenceService, adapters: AdapterNeed | None, *, model_revision: str, store: KVStore | None = None
) -> dict[str, Any]:
    """Return everything that a worker is made of, by the fields of the spec."""
    spec = service.spec
    return {
        "model": _wire(spec.model),
        "modelRevision": model_revision,
        "engine": _wire(spec.engine, exclude={"lora"}),  # it is in the need
        "drainTimeout": spec.drain_timeout_s,
        "prefill": _pool(spec.prefill),
        "decode": _pool(spec.decode),
        "kvStore": spec.kv_store.name if spec.kv_store else "",
        **({"kvStoreSpec": _wire(store.spec)} if store is not None else {}),
        **_made_secret(store),
        "adapters": adapters.wire if adapters else [],
    }


def _made_secret(store: KVStore | None) -> dict[str, str]:
    """Return the Secret that the operator made: a store that is made anew under its name has another."""
    if store is None or store.spec.integrity_secret_ref or store.integrity_secret is None:
        return {}
    return {"kvStoreSecret": store.integrity_secret}


def _pool(pool: PoolTemplate | None) -> dict[str, Any] | None:
    return None if pool is None else _wire(pool, exclude=_SIZES)


def _wire(value: Any, *, exclude: set[str] | None = None) -> dict[str, Any]:
    """Defaults are left out, so that a release which adds a field changes no revision."""
    dumped: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=exclude)
    return dumped
