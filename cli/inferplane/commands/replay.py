"""`replay`: recorded decisions of routers and planners made again, and where they differ."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click

from inferplane.context import Context
from inferplane.decision import target
from inferplane.errors import InvalidError
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.redeciding import RULES, UNKNOWABLE, Redecided, cached, redecide
from inferplane_api.proto.router_pb2 import Candidate, DecisionRecord

_PLANNER = "planner"


@click.command("replay")
@click.option(
    "--records",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Decisions as JSON lines, of routers or of a planner; may be repeated.",
)
@click.option("--policy", help="Rule that decides.  [default: kv-aware for routers, planner for planners]")
@click.option("--weight", "weights", multiple=True, metavar="TERM=N", help="Factor on a term of a router's costs.")
@click.option("--show", type=click.IntRange(0), default=10, show_default=True, help="Differences that are listed.")
@output_option
@click.pass_obj
def command(
    context: Context,
    *,
    records: tuple[Path, ...],
    policy: str | None,
    weights: tuple[str, ...],
    show: int,
    output: str,
) -> None:
    """Make recorded decisions again, and say how many come out the same and which do not.

    A router's decision is made among the candidates of its record, by their costs (kv-aware) or cached tokens
    (most-cached); a planner's from all that it saw.  What an earlier difference would have led to is not replayed.
    """
    found = [_lines(path) for path in records]
    planner = {_is_plan(path, lines) for path, lines in zip(records, found, strict=True)}
    if len(planner) > 1:
        raise InvalidError("--records: decisions of routers and of planners are replayed one kind at a time")
    if True in planner:
        _require_plain(policy, weights)
        report = _plans(records)
    else:
        report = _routes([line for lines in found for line in lines], policy or "kv-aware", _weights(weights))
    _show(context, Format(output), report, show)


@dataclass(frozen=True, slots=True)
class _Report:
    summary: dict[str, Any]
    heads: tuple[str, ...]
    differences: list[list[str]]


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of lines.  Raises InvalidError."""
    found = list[dict[str, Any]]()
    for number, text in enumerate(_text(path).splitlines(), start=1):
        if not text.strip():
            continue
        try:
            value: object = json.loads(text)
        except ValueError as error:
            raise InvalidError(f"{path}:{number}: is not JSON ({error}); one object a line") from error
        if not isinstance(value, dict):
            raise InvalidError(f"{path}:{number}: is not an object; one object a line")
        found.append(cast("dict[str, Any]", value))
    if not found:
        raise InvalidError(f"{path}: holds no decision")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"{path}: cannot be read: {error}") from error


def _is_plan(path: Path, lines: list[dict[str, Any]]) -> bool:
    first = lines[0]
    if "observations" in first and "plan" in first:
        return True
    if "requestId" in first:
        return False
    raise InvalidError(f"{path}:1: is neither a router's nor a planner's decision; see docs/how-to/planner.md")


def _require_plain(policy: str | None, weights: tuple[str, ...]) -> None:
    if policy not in (None, _PLANNER):
        raise InvalidError(f"--policy: {policy!r} does not plan; leave it out for a planner's decisions")
    if weights:
        raise InvalidError("--weight: a planner's decisions have no cost terms; leave it out")


# Planners -----------------------------------------------------------------------------------------------------------


def _plans(records: tuple[Path, ...]) -> _Report:
    from inferplane_planner.act.comparing import Remade, remake  # noqa: PLC0415  numpy, which routers' do not need
    from inferplane_planner.act.records import RecordError  # noqa: PLC0415

    def row(each: Remade) -> list[str]:
        before, now = each.decided.plan, each.now
        return [
            each.decided.service,
            f"{each.decided.now:.0f}",
            f"{before.candidate}{f' ({before.lent} lent)' if before.lent else ''} {before.verdict.value}",
            f"{now.candidate}{f' ({now.lent} lent)' if now.lent else ''} {now.verdict.value}",
            now.reason,
        ]

    try:
        made = [each for path in records for each in remake(path)]
    except RecordError as error:
        raise InvalidError(f"--records: {error}") from error
    differing = [each for each in made if not each.same]
    summary: dict[str, Any] = {
        "kind": "plans",
        "decisions": len(made),
        "same": len(made) - len(differing),
        "sameWorkers": sum(each.same_workers for each in made),
    }
    return _Report(summary, ("service", "at", "recorded", "now", "why"), [row(each) for each in differing])


# Routers ------------------------------------------------------------------------------------------------------------


def _routes(lines: list[dict[str, Any]], name: str, factors: dict[str, float]) -> _Report:
    _require_rule(name)
    records = [_record(line) for line in lines]
    _require_terms(factors, records)
    made = redecide(records, RULES[name], factors)
    differing = [each for each in made if not each.same]
    equal = sum(each.as_good(factors) for each in differing)
    summary: dict[str, Any] = {
        "kind": "routes",
        "policy": name,
        "decisions": len(made),
        "withoutChoice": len(records) - len(made),
        "same": len(made) - len(differing),
        "asGood": equal,
        "meanDearerMs": _mean([each.dearer_ms for each in made]),
        "meanMoreCachedTokens": _mean([float(each.more_cached) for each in made]),
    }
    differing.sort(key=lambda each: -abs(each.dearer_ms))
    heads = ("request", "recorded", "had cached", "now", "has cached", "dearer ms")
    return _Report(summary, heads, [_row(each) for each in differing])


def _weights(given: tuple[str, ...]) -> dict[str, float]:
    found = dict[str, float]()
    for text in given:
        term, _, number = text.partition("=")
        try:
            found[term] = float(number)
        except ValueError:
            found[term] = -1.0
        if not (term and 0 <= found[term] < float("inf")):
            raise InvalidError(f"--weight: {text!r} is no factor; write TERM=N with N of at least 0, as decode=2")
    return found


def _require_rule(name: str) -> None:
    if name in UNKNOWABLE:
        raise InvalidError(
            f"--policy: {name} goes by loads or an order that records do not hold; play it with `inferplane simulate`"
        )
    if name not in RULES:
        raise InvalidError(f"--policy: {name!r} is unknown; use one of {', '.join(RULES)}")


def _require_terms(factors: dict[str, float], records: list[DecisionRecord]) -> None:
    known = sorted({term for record in records for candidate in record.candidates for term in candidate.terms_ms})
    unknown = next((term for term in factors if term not in known), None)
    if unknown is not None:
        raise InvalidError(f"--weight: no cost has a term {unknown!r}; there are: {', '.join(known) or 'none'}")


def _record(line: dict[str, Any]) -> DecisionRecord:
    from google.protobuf.json_format import ParseDict, ParseError  # noqa: PLC0415  other commands do without it

    try:
        return ParseDict(line, DecisionRecord(), ignore_unknown_fields=True)
    except ParseError as error:
        raise InvalidError(f"--records: {line.get('requestId')}: {error}") from error


def _row(each: Redecided) -> list[str]:
    return [
        each.record.request_id,
        _where(each.recorded),
        str(cached(each.recorded)),
        _where(each.now),
        str(cached(each.now)),
        f"{each.dearer_ms:.1f}",
    ]


def _where(candidate: Candidate) -> str:
    decode = target(candidate.decode_worker, candidate.decode_rank)
    prefill = target(candidate.prefill_worker, candidate.prefill_rank)
    return f"{prefill} > {decode}" if candidate.prefill_worker else decode


# Both ---------------------------------------------------------------------------------------------------------------


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _show(context: Context, form: Format, report: _Report, show: int) -> None:
    rows = report.differences
    if form is not Format.TABLE:
        keys = [head.title().replace(" ", "") for head in report.heads]
        named = [key[0].lower() + key[1:] for key in keys]
        show_document({**report.summary, "differences": [dict(zip(named, row, strict=True)) for row in rows]}, form)
        return
    click.echo(_sentence(report.summary))
    if rows[:show]:
        show_table(context, report.heads, rows[:show])
    if len(rows) > show:
        click.echo(f"{len(rows) - show} more differences: --show {len(rows)}")


def _sentence(summary: dict[str, Any]) -> str:
    total, same = summary["decisions"], summary["same"]
    share = f"{same / total:.1%}" if total else "none"
    if summary["kind"] == "plans":
        return f"{same} of {total} plans come out the same ({share}); {summary['sameWorkers']} have the same workers"
    return (
        f"{same} of {total} requests go to the same workers ({share}), {summary['asGood']} more to some as good; "
        f"{summary['withoutChoice']} had no choice; what was recorded is {summary['meanDearerMs']:.2f} ms dearer on "
        f"average, and what is chosen now has {summary['meanMoreCachedTokens']:.0f} tokens more cached"
    )
