import json
from itertools import combinations
from typing import Any

import pytest

from inferplane_observability.dashboards import BOARDS, dashboards
from inferplane_observability.dashboards.panel_values import GRID, Board, Good, Show

DRAWN: list[dict[str, Any]] = [json.loads(text) for text in dashboards().values()]
UNITS = {"s", "short", "percentunit", "reqps", "bytes"}


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not (beside or above)


@pytest.mark.parametrize("drawn", DRAWN, ids=lambda drawn: drawn["uid"])
def test_no_panel_lies_on_another_or_beyond_the_edge(drawn: dict[str, Any]) -> None:
    places = [panel["gridPos"] for panel in drawn["panels"]]

    assert [pair for pair in combinations(places, 2) if overlap(*pair)] == []
    assert all(place["x"] + place["w"] <= GRID for place in places)


@pytest.mark.parametrize("drawn", DRAWN, ids=lambda drawn: drawn["uid"])
def test_the_schema_is_of_an_eleven(drawn: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in drawn["panels"] if panel["type"] != "row"]

    assert 39 <= drawn["schemaVersion"] <= 41
    assert len(ids) == len(set(ids))
    assert {panel["datasource"]["uid"] for panel in drawn["panels"] if panel["type"] != "row"} == {"${datasource}"}


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_panel_says_what_it_shows_in_a_unit(board: Board) -> None:
    panels = [panel for row in board.rows for panel in row.panels]

    assert {panel.unit for panel in panels} <= UNITS
    assert all(panel.meaning.endswith(".") for panel in panels)
    assert len({panel.title for panel in panels}) == len(panels)
    assert all(query.legend for query in board.queries)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_a_coloured_number_says_which_way_is_good(board: Board) -> None:
    panels = [panel for row in board.rows for panel in row.panels]

    assert all((panel.good is Good.NEITHER) == (panel.bounds is None) for panel in panels)
    assert all(panel.show is Show.NUMBER for panel in panels if panel.bounds)


def test_a_latency_that_was_promised_is_drawn_against_its_promise() -> None:
    titles = {"TTFT", "TPOT", "TTFT, 99th percentile", "Attainment", "Gaps between pieces"}
    panels = [panel for board in BOARDS for row in board.rows for panel in row.panels if panel.title in titles]

    assert panels
    assert all(any(query.objective for query in panel.queries) for panel in panels)
