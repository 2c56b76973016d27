"""Grafana dashboards as values, and their JSON.

Drawing needs a library that only development installs; the boards themselves need nothing.
"""

from typing import Final

from inferplane_observability.dashboards import (
    fleet_board,
    operator_board,
    planner_board,
    router_board,
    service_board,
    store_board,
)
from inferplane_observability.dashboards.panel_values import Board

__all__ = ["BOARDS", "FOLDER", "dashboards"]

FOLDER: Final = "helm/inferplane/files/dashboards"
BOARDS: Final[tuple[Board, ...]] = (
    fleet_board.BOARD,
    service_board.BOARD,
    router_board.BOARD,
    planner_board.BOARD,
    store_board.BOARD,
    operator_board.BOARD,
)


def dashboards() -> dict[str, str]:
    """Return the JSON of each board by its path in the repository."""
    from inferplane_observability.dashboards.drawing import draw  # noqa: PLC0415 - see above

    return {f"{FOLDER}/{board.uid}.json": draw(board) for board in BOARDS}
