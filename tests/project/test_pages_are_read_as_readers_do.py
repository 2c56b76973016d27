"""What a page says is printed is compared with what is: figures may differ, words may not."""

import pytest

from doc_blocks import blocks, missing, steps

PRINTED = "sim: Ready\nPOOL   READY  \ndecode   2/3  0.0\ncached 48 0\n"


@pytest.mark.parametrize(
    "said",
    [
        ("sim: Ready",),
        ("POOL READY", "decode 1/9 0"),
        ("sim: ...", "cached 1 0"),
        ("... Ready",),
        ("",),
    ],
)
def test_what_differs_from_run_to_run_does_not_count(said: tuple[str, ...]) -> None:
    assert missing(said, PRINTED) == []


@pytest.mark.parametrize(
    "said",
    ["sim: Starting", "decode 0/3 0.0", "cached 48 7", "cached 0 0", "decode 2/3 1"],
)
def test_words_zeros_and_their_absence_do(said: str) -> None:
    assert missing((said,), PRINTED) == [said]


def test_lines_come_in_the_order_of_the_page() -> None:
    assert missing(("cached 1 0", "sim: Ready"), PRINTED) == ["sim: Ready"]


def test_a_step_has_what_the_page_says_that_it_prints() -> None:
    typed = "# T\n```sh\na\nb\n```\nand\n```text\none\n```\n"
    page = typed + "<!-- not run: needs a moon -->\n```sh\nfly\n```\n```yaml\nx: 1\n```\n"

    (step,) = steps(page)

    assert (step.line, step.commands, step.printed) == (2, "a\nb\n", ("one",))


def test_a_reason_is_that_of_the_block_below_it() -> None:
    page = "<!-- not run: one -->\n```sh\na\n```\n\n<!-- not run: two -->\n```sh\nb\n```\n\n```sh\nc\n```\n"

    assert [block.not_run for block in blocks(page)] == ["one", "two", ""]
