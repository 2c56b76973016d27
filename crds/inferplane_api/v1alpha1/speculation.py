"""Speculative decoding: who guesses the next tokens that the model then checks, several in one step."""

from enum import StrEnum
from typing import Final, Self

from pydantic import Field, model_validator

from inferplane_api.v1alpha1.source import ModelSource
from inferplane_api.v1alpha1.wire import Finding, WireModel, counted_in, invalid


class SpeculationMethod(StrEnum):
    NGRAM = "ngram"
    """Repetitions in the text itself."""
    DRAFT = "draft"
    """A smaller model with the same tokens."""
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    """A head that was trained on the model's states."""
    MTP = "mtp"
    """Heads that came with the model."""


_WITH_WEIGHTS: Final = frozenset({SpeculationMethod.DRAFT, SpeculationMethod.EAGLE, SpeculationMethod.EAGLE3})


class Speculation(WireModel):
    method: SpeculationMethod = Field(description="Who guesses.")
    tokens: int = Field(
        default=3, ge=1, le=64, description="Tokens guessed in one step.", json_schema_extra=counted_in("tokens")
    )
    source: ModelSource | None = Field(
        default=None, description="Weights that guess; for draft, eagle and eagle3, which need some."
    )
    revision: str = Field(default="", max_length=256, description="Commit of a Hugging Face source of them.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        findings: list[Finding] = []
        if self.method in _WITH_WEIGHTS and self.source is None:
            findings.append(Finding("source", f"{self.method} guesses with weights of its own", "add source"))
        if self.method not in _WITH_WEIGHTS and self.source is not None:
            findings.append(Finding("source", f"{self.method} needs no weights", "remove it"))
        if self.revision and (self.source is None or self.source.hf is None):
            findings.append(
                Finding("revision", "only a Hugging Face source has revisions", "remove it, or use source.hf")
            )
        if findings:
            raise invalid(*findings)
        return self
