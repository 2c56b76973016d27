"""What a status may say is explained where its reader looks for it."""

import re
from pathlib import Path

from inferplane_api.v1alpha1.conditions import Reason


def test_troubleshooting_has_every_reason_and_no_other(repository: Path) -> None:
    page = (repository / "docs" / "troubleshooting.md").read_text("utf-8")
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", page))
    headings = {"Degraded", "SLOMet", "Ready", "KVRoutingHealthy", "Unverified"}
    reasons = {str(reason) for reason in Reason}

    assert reasons - named == set()
    assert named - reasons - headings == set()
