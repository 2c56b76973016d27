"""Within what time a request is to be answered.

The narrowest word counts: the request's own, its priority's, that of its prompt's length, the service's.  Seconds.
"""

from inferplane_api.catalogue import CatalogueService
from inferplane_router.core.values import Ask, Tokens


def limits_of(ask: Ask) -> tuple[float, float]:
    """Return the limits of the time to the first token and of the time per output token."""
    service, priority = ask.model.service, ask.priority
    ttft_s = ttft_limit_s(service, priority, ask.tokens) if ask.ttft_s is None else ask.ttft_s
    tpot_s = tpot_limit_s(service, priority) if ask.tpot_s is None else ask.tpot_s
    return ttft_s, tpot_s


def ttft_limit_s(service: CatalogueService, priority: int, tokens: Tokens | None) -> float:
    """Return the limit of a request that names none; the length of a prompt without tokens is not known."""
    for entry in service.priorities:
        if entry.priority == priority and entry.ttft_s is not None:
            return entry.ttft_s
    if service.ttft_by_prompt_length and tokens is not None:
        for step in service.ttft_by_prompt_length:
            if tokens.size <= step.max_prompt_tokens:
                return step.ttft_s
    return service.ttft_s


def tpot_limit_s(service: CatalogueService, priority: int) -> float:
    """Return the limit of a request that names none."""
    for entry in service.priorities:
        if entry.priority == priority and entry.tpot_s is not None:
            return entry.tpot_s
    return service.tpot_s
