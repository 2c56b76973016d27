from pathlib import Path

import pytest

from inferplane_observability.__main__ import generated

ROOT = Path(__file__).parents[2]
FILES = generated()


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_what_the_code_makes(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == FILES[path], "run `make generate`"


@pytest.mark.parametrize("folder", sorted({str(Path(path).parent) for path in FILES if path.startswith("helm")}))
def test_nothing_is_left_of_what_the_code_made_once(folder: str) -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / folder).iterdir()}

    assert there == {path for path in FILES if str(Path(path).parent) == folder}
