"""Boards as Grafana's JSON, through its own library, which fixes the schema's version.

Positions are computed here, from widths, so that nothing overlaps whatever the library does with the first panel.
"""

import json
from collections.abc import Iterator
from typing import Final

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders import prometheus as prometheus_builder
from grafana_foundation_sdk.builders import stat as stat_builder
from grafana_foundation_sdk.builders import timeseries as timeseries_builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard

from inferplane_observability.dashboards.expressions import chosen
from inferplane_observability.dashboards.panel_values import GRID, HEIGHT, Board, Good, Panel, Query, Row, Show
from inferplane_runtime.metrics.catalogue import router

_SOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
_BAD, _DOUBTFUL, _GOOD, _PLAIN = "red", "orange", "green", "blue"
_PanelBuilder = timeseries_builder.Panel | stat_builder.Panel


def draw(board: Board) -> str:
    """Return the board as JSON, the same for the same board."""
    made = dashboard_builder.Dashboard(board.title).uid(board.uid).description(board.meaning)
    made = made.tags(["inferplane"]).readonly().time("now-1h", "now").refresh("30s")
    made = made.tooltip(dashboard.DashboardCursorSync.CROSSHAIR).with_variable(_sources())
    if board.of_services:
        made = made.with_variable(_choice("namespace", "")).with_variable(_choice("service", 'namespace=~"$namespace"'))
    for number, (row, y, panels) in enumerate(_placed(board)):
        made.with_row(dashboard_builder.Row(row.title).grid_pos(dashboard.GridPos(h=1, w=GRID, x=0, y=y)))
        for index, (panel, position) in enumerate(panels):
            made.with_panel(_panel(panel).id(100 * (number + 1) + index).grid_pos(position))
    return json.dumps(made.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def _placed(board: Board) -> Iterator[tuple[Row, int, list[tuple[Panel, dashboard.GridPos]]]]:
    y = 0
    for row in board.rows:
        top, x, placed = y, 0, list[tuple[Panel, dashboard.GridPos]]()
        y += 1
        for panel in row.panels:
            if x + panel.width > GRID:
                x, y = 0, y + HEIGHT
            placed.append((panel, dashboard.GridPos(h=HEIGHT, w=panel.width, x=x, y=y)))
            x += panel.width
        y += HEIGHT
        yield row, top, placed


def _panel(panel: Panel) -> _PanelBuilder:
    made: _PanelBuilder = _lines() if panel.show is Show.LINES else _number()
    made = made.title(panel.title).description(panel.meaning).unit(panel.unit).datasource(_SOURCE)
    made = made.thresholds(_thresholds(panel))
    if panel.least is not None:
        made = made.min(panel.least)
    if panel.most is not None:
        made = made.max(panel.most)
    for number, query in enumerate(panel.queries):
        made = made.with_target(_target(query, chr(ord("A") + number)))
        if query.objective:
            made = made.override_by_query(chr(ord("A") + number), _OBJECTIVE_STYLE)
    return made


def _lines() -> timeseries_builder.Panel:
    legend = common_builder.VizLegendOptions().show_legend(True)  # noqa: FBT003 - the library's
    legend = legend.display_mode(common.LegendDisplayMode.LIST).placement(common.LegendPlacement.BOTTOM)
    return timeseries_builder.Panel().line_width(1).fill_opacity(8).legend(legend)


def _number() -> stat_builder.Panel:
    last = common_builder.ReduceDataOptions().calcs(["lastNotNull"])
    return stat_builder.Panel().reduce_options(last).graph_mode(common.BigValueGraphMode.AREA)


_OBJECTIVE_STYLE: Final = [
    dashboard.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": _BAD}),
    dashboard.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 8]}),
    dashboard.DynamicConfigValue(id_val="custom.fillOpacity", value=0),
]


def _target(query: Query, name: str) -> prometheus_builder.Dataquery:
    made = prometheus_builder.Dataquery().expr(query.expr).ref_id(name).range().datasource(_SOURCE)
    return made.legend_format(query.legend or "__auto")


def _thresholds(panel: Panel) -> dashboard_builder.ThresholdsConfig:
    steps = [dashboard.Threshold(value=None, color=_PLAIN if panel.good is Good.NEITHER else _start(panel))]
    if panel.bounds is not None:
        low, high = sorted(panel.bounds)
        steps.append(dashboard.Threshold(value=low, color=_DOUBTFUL))
        steps.append(dashboard.Threshold(value=high, color=_GOOD if panel.good is Good.HIGH else _BAD))
    return dashboard_builder.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _start(panel: Panel) -> str:
    return _BAD if panel.good is Good.HIGH else _GOOD


def _sources() -> dashboard_builder.DatasourceVariable:
    return dashboard_builder.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def _choice(label: str, among: str) -> dashboard_builder.QueryVariable:
    made = dashboard_builder.QueryVariable(label).label(label.capitalize()).datasource(_SOURCE)
    made = made.query(f"label_values({router.OBJECTIVE_RATIO.name}{chosen(among) if among else ''}, {label})")
    made = made.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
    return made.multi(True).include_all(True).all_value(".*")  # noqa: FBT003 - the library's
