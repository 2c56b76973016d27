"""The KV store: what it holds, who finds what in it, what that is worth, and what goes wrong.

Agents show the store that their engine uses; where several share one (on one machine), it must count once: the largest
of what they say of a store, and then the sum over stores.
"""

from typing import Final

from inferplane_observability.dashboards.expressions import NAMED, OF_SERVICE, RATE, chosen, none_is_zero
from inferplane_observability.dashboards.panel_values import Board, Good, Panel, Query, Row, Show
from inferplane_observability.rule_values import SERVICE
from inferplane_runtime.metrics.catalogue import kv_store
from inferplane_runtime.metrics.spec import MetricSpec


def _now(spec: MetricSpec, by: str) -> str:
    return f"sum by ({by}) (max by ({by}, store) ({spec.name}{chosen(OF_SERVICE)}))"


def _rate(spec: MetricSpec, by: str, end: str = "") -> str:
    return f"sum by ({by}) (max by ({by}, store) (rate({spec.name}{end}{chosen(OF_SERVICE)}[{RATE}])))"


def _rate_of_tiers(title: str, meaning: str, unit: str, spec: MetricSpec) -> Panel:
    return Panel(title, meaning, unit, (Query(_rate(spec, _TIERS), _LEGEND),))


_TIERS: Final = f"{SERVICE}, tier"
_LEGEND: Final = NAMED + " {{tier}}"
_FOUND: Final = f"1 - {_rate(kv_store.MISSES, SERVICE)} / {_rate(kv_store.LOOKUPS, SERVICE)}"
_DECLINED: Final = _rate(kv_store.DECLINED, SERVICE)
_READ_TIME: Final = " / ".join(_rate(kv_store.READ_TIME, _TIERS, end) for end in ("_sum", "_count"))

BOARD: Final = Board(
    uid="inferplane-kv-store",
    title="Inferplane / KV store",
    meaning="What outlives the engines: how full, how useful, how sound.",
    rows=(
        Row(
            "Use",
            (
                Panel(
                    "Found",
                    "Share of the blocks that engines asked for and that some tier had.",
                    "percentunit",
                    (Query(_FOUND, NAMED),),
                    Show.NUMBER,
                    good=Good.HIGH,
                    bounds=(0.1, 0.3),
                    most=1,
                ),
                _rate_of_tiers("Hits", "Blocks a second, by the first tier that had them.", "short", kv_store.HITS),
                Panel(
                    "Computed though it was there",
                    "Blocks a second that engines would have waited longer for than computing takes.",
                    "short",
                    (Query(_DECLINED, NAMED),),
                ),
                Panel(
                    "Fetch or compute",
                    "Time of one block, as engines measured it.",
                    "s",
                    (
                        Query(f"avg by ({_TIERS}) ({kv_store.BLOCK_TIME.name}{chosen(OF_SERVICE)})", _LEGEND),
                        Query(
                            f"avg by ({SERVICE}) ({kv_store.BLOCK_COMPUTE_TIME.name}{chosen(OF_SERVICE)})",
                            f"{NAMED} computed",
                        ),
                    ),
                ),
                _rate_of_tiers("Read", "A second, brought into memory.", "bytes", kv_store.READ_BYTES),
                Panel(
                    "Time of a read",
                    "Mean of a batch of blocks.",
                    "s",
                    (Query(_READ_TIME, _LEGEND),),
                ),
            ),
        ),
        Row(
            "Room",
            (
                Panel(
                    "Used",
                    "Bytes of blocks; of Redis all that it holds.",
                    "bytes",
                    (
                        Query(_now(kv_store.USED, _TIERS), _LEGEND),
                        Query(_now(kv_store.CAPACITY, _TIERS), NAMED + " {{tier}} size"),
                    ),
                ),
                _rate_of_tiers("Evictions", "Blocks a second that made room.", "short", kv_store.EVICTIONS),
                _rate_of_tiers(
                    "Refused for a quota", "Blocks a second not taken: the tenant's quota.", "short", kv_store.REFUSED
                ),
            ),
        ),
        Row(
            "Faults",
            (
                Panel(
                    "Corrupt blocks",
                    "In an hour; each was dropped and computed again.",
                    "short",
                    (
                        Query(
                            none_is_zero(f"sum(increase({kv_store.CORRUPT.name}{chosen(OF_SERVICE)}[1h]))"),
                            "corrupt",
                        ),
                    ),
                    Show.NUMBER,
                    good=Good.LOW,
                    bounds=(1, 1),
                ),
                _rate_of_tiers("Failures", "Reads and writes a second that a tier failed.", "short", kv_store.FAILURES),
                _rate_of_tiers("Dropped", "Blocks a second that found a tier's queue full.", "short", kv_store.DROPPED),
            ),
        ),
    ),
)
