"""What a KV store says of itself, as tables and lines for people."""

from collections.abc import Iterable, Mapping
from typing import Any

from inferplane.table import Table
from inferplane_api.v1alpha1.units import format_bytes
from inferplane_operator.local.status import KVStoreStatus

Stat = Mapping[str, Any]
"""The store's answer to `stat`."""


def headline(store: KVStoreStatus, stat: Stat | None) -> str:
    """Say whether the store runs, and what share of the blocks that engines asked for was there."""
    process = store.process
    if stat is None:
        why = f"; {process.last_exit}" if process.last_exit else ""
        return f"kv store {store.name}: does not answer (its process: {process.state}{why}); engines compute everything"
    return f"kv store {store.name}: {found(stat)}"


def found(stat: Stat) -> str:
    """Say how many of the blocks that were asked for were there."""
    asked, missed = stat["counters"]["lookups"], stat["counters"]["misses"]
    if not asked:
        return "nobody has asked for a block yet"
    return f"{100 * (asked - missed) // asked} % of {asked} blocks asked for were there"


def tiers(stat: Stat) -> Table:
    heads = ("TIER", "USED", "CAPACITY", "BLOCKS", "HITS", "WRITTEN", "CORRUPT", "REFUSED", "FAILED", "FETCH")
    rows: list[tuple[str, ...]] = []
    for tier in stat["tiers"]:
        counts = stat["counters"]["tiers"][tier["name"]]
        sizes = tuple(
            "-" if tier.get(key) is None else format_bytes(tier[key]) for key in ("usedBytes", "capacityBytes")
        )
        counts = {**counts, "refused": tier.get("refused", "-")}
        numbers = tuple(str(counts[key]) for key in ("hits", "written", "corrupt", "refused", "failed"))
        fetch = _mean(engine["blockS"].get(tier["name"]) for engine in stat["engines"])
        rows.append((tier["name"], *sizes, str(tier.get("blocks", "-")), *numbers, fetch))
    return Table(heads, rows, right=frozenset(range(1, len(heads))))


def worth(stat: Stat) -> str:
    """Say what fetching was worth: FETCH of the table is one block's time, as engines measured it."""
    computed = _mean(
        None if engine["tokenS"] is None else engine["tokenS"] * engine["blockTokens"] for engine in stat["engines"]
    )
    said = stat["worth"]
    return (
        f"{said['fetched']} blocks fetched, {said['declined']} computed though they were there; "
        f"computing one takes {computed}"
    )


def blocks(said: Stat) -> Table:
    """Make a table of the answer to `list`."""
    rows = [
        (row["key"][:16], row["tier"], row["owner"], format_bytes(row["bytes"]), str(row["uses"]), _pinned(row))
        for row in said["blocks"]
    ]
    return Table(("BLOCK", "TIER", "OWNER", "SIZE", "USES", "PINNED"), rows, right=frozenset({3, 4}))


def _pinned(row: Mapping[str, Any]) -> str:
    return "yes" if row.get("pinned") else ""


def _mean(times: Iterable[float | None]) -> str:
    known = [time for time in times if time is not None]
    return f"{1000 * sum(known) / len(known):.2f}ms" if known else "-"
