"""Adapters as an engine sees them: which ranks there are, and how much room a service's workers keep."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from inferplane_api.v1alpha1.wire import Finding, WireModel, invalid

DEFAULT_MAX_ADAPTERS = 8


def _number(value: object) -> object:
    if isinstance(value, bool):  # which Python takes for 0 or 1
        raise invalid(Finding("", f"{value} is not a rank", "write a number"))
    return value


AdapterRank = Annotated[Literal[1, 8, 16, 32, 64, 128, 256, 320, 512], BeforeValidator(_number)]


class LoraOptions(WireModel):
    """Room for adapters; a change restarts the workers, an adapter that fits does not."""

    max_adapters: int = Field(
        default=DEFAULT_MAX_ADAPTERS,
        ge=1,
        le=256,
        description="Adapters that one worker holds at once; engines reserve memory for each.",
    )
    max_rank: AdapterRank | None = Field(
        default=None, description="Largest rank; default: the largest of the service's adapters, at least 16."
    )
