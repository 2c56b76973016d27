"""What the chart renders to, kept as files so that a change is seen in review.

Regenerate: INFERPLANE_REGENERATE_GOLDEN=1 .venv/bin/python -m pytest tests/helm/test_rendering_is_what_was_reviewed.py
"""

import os
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from helm_chart import CHART, Helm

GOLDEN = Path(__file__).parent / "golden"
VALUES = sorted((Path(__file__).parent / "golden").glob("*.values.yaml"))


def test_the_chart_is_linted_without_a_warning(helm: Helm) -> None:
    said = helm("lint", "--strict", CHART)

    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.name.partition(".")[0])
def test_what_is_rendered_is_what_was_reviewed(helm: Helm, values: Path) -> None:
    golden = values.with_name(values.name.replace(".values.yaml", ".golden.yaml"))
    found = helm.render(yaml.safe_load(values.read_text("utf-8")))
    if os.environ.get("INFERPLANE_REGENERATE_GOLDEN"):
        golden.write_text(cast("Any", yaml).safe_dump_all(found, sort_keys=False, width=120), "utf-8")

    expected = list(yaml.safe_load_all(golden.read_text("utf-8")))

    assert expected == found


def test_no_golden_file_is_left_over() -> None:
    assert {path.name.partition(".")[0] for path in GOLDEN.glob("*.golden.yaml")} == {
        path.name.partition(".")[0] for path in VALUES
    }
