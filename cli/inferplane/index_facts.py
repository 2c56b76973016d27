"""A router's comparison of its index with what the workers hold, as `/index` beside its metrics serves it."""

from typing import Any

from inferplane.diagnosis import IndexFacts


def index_facts(document: dict[str, Any]) -> dict[str, IndexFacts]:
    """Take the router's comparison apart, by worker."""
    return {
        each["worker"]: IndexFacts(
            blocks=sum(place["blocks"] for place in each["places"]),
            differences=tuple(_difference(it) for it in each["places"] if it["missing"] or it["surplus"]),
            problem=each["problem"],
        )
        for each in document["workers"]
    }


def _difference(place: dict[str, Any]) -> str:
    where = f"rank {place['rank']}, {place['plane']}"
    examples = ", ".join(place["examples"][:3])
    return f"{where}: {place['missing']} of {place['blocks']} blocks missing, {place['surplus']} too many ({examples})"
