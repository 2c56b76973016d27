"""One page that stands alone: what was asked, a table, and how it went over time."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from inferplane_simulator.outcome import Outcome
from inferplane_simulator.report.plot import COLOURS, Line, plot
from inferplane_simulator.report.summary import HEADS, rows, summarise

_PLOTS: Final = (
    ("attainment", "Requests within the SLO", "", 1.0),
    ("ttft_s", "Mean time to first token", "s", None),
    ("hit_rate", "Prompt tokens found in a cache", "", 1.0),
    ("rate_per_s", "Requests a second", "", None),
    ("in_flight", "Requests in flight", "", None),
    ("devices", "Accelerators", "", None),
)

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #6a737d; --line: #d8dee4; --paper: #ffffff;
  --c0: #0969da; --c1: #cf222e; --c2: #1a7f37; --c3: #9a6700; --c4: #8250df; --c5: #bf3989; --c6: #0a7d8c;
  --c7: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #8d96a0; --line: #30363d; --paper: #0d1117;
  --c0: #58a6ff; --c1: #ff7b72; --c2: #3fb950; --c3: #d29922; --c4: #bc8cff; --c5: #f778ba; --c6: #39c5cf;
  --c7: #b1bac4; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1000px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } .asked { color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; } svg text { font-size: 11px; fill: var(--soft); } svg path { fill: none; stroke-width: 1.6; }
.grid { stroke: var(--line); } .dashed { stroke-dasharray: 5 3; }
.key i { display: inline-block; width: 1.1rem; height: .25rem; vertical-align: middle; margin: 0 .35rem 0 1rem; }
"""


def page(title: str, asked: Mapping[str, str], outcomes: Sequence[Outcome]) -> str:
    """Return HTML.  The plots show the first seed of each policy; the table all of them."""
    firsts = list({outcome.policy: outcome for outcome in reversed(outcomes)}.values())[::-1]
    colours = "".join(
        f"path.c{number} {{ stroke: var(--c{number}); }} i.c{number} {{ background: var(--c{number}); }}\n"
        for number in range(COLOURS)
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}{colours}</style>'
        f"<h1>{escape(title)}</h1>{_asked(asked)}{_table(outcomes)}{_key(firsts)}"
        f'<div class="plots">{"".join(_plots(firsts))}</div></html>\n'
    )


def _asked(asked: Mapping[str, str]) -> str:
    words = " · ".join(f"{escape(name)} {escape(value)}" for name, value in asked.items())
    return f'<p class="asked">{words}</p>'


def _table(outcomes: Sequence[Outcome]) -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in HEADS)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows(summarise(outcomes))
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _key(outcomes: Sequence[Outcome]) -> str:
    names = (f'<i class="c{at % COLOURS}"></i>{escape(each.policy)}' for at, each in enumerate(outcomes))
    return f'<p class="key">{"".join(names)}</p>'


def _plots(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        plot(
            title,
            unit,
            [Line(each.policy, each.tracks[name].width_s, each.tracks[name].values) for each in outcomes],
            top=top,
        )
        for name, title, unit, top in _PLOTS
    ]
