"""A change that nobody has made yet, as text and as a document.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from inferplane.kube.preview import Preview
from inferplane_operator.reconcile.change import Change

_NAMED = 8
"""Pods that are called by their names; more are counted."""


def nothing_changes(foreseen: Change, previews: Sequence[Preview]) -> bool:
    return foreseen.empty and not any(it.before is None or it.lines for it in previews)


def change_lines(foreseen: Change, previews: Sequence[Preview]) -> Iterator[str]:
    """Give what changes in the objects (`!`: workers are replaced because of it), then what that does."""
    for it in previews:
        yield from _object_lines(it, foreseen.fields)
    yield ""
    if foreseen.problem:
        yield f"nothing is done at first: {foreseen.problem}"
    yield from _revision(foreseen)
    yield from _workers(foreseen)
    yield from _names(foreseen)


def _object_lines(found: Preview, fields: Sequence[str]) -> Iterator[str]:
    if found.before is None:
        yield f"{found.called}: is created"
        return
    yield f"{found.called}:{'' if found.lines else ' stays as it is'}"
    for line in found.lines:
        replaces = any(_meets(line.partition(": ")[0], field) for field in fields)
        yield f"{'!' if replaces else '~'} {line}"


def _meets(path: str, field: str) -> bool:
    """Say whether one of them is the other or lies within it."""
    return path == field or path.startswith(f"{field}.") or field.startswith(f"{path}.")


def _revision(foreseen: Change) -> Iterator[str]:
    old, new = foreseen.old_revision, foreseen.new_revision
    if not old:
        yield f"revision:     {new or 'known once the model is resolved'} (the first)"
    elif old == new:
        yield f"revision:     {old} stays: no worker is replaced"
    else:
        because = f", because of {', '.join(foreseen.fields)}" if foreseen.fields else ""
        yield f"revision:     {old} -> {new or 'known once the model is resolved'}{because}"


def _workers(foreseen: Change) -> Iterator[str]:
    if foreseen.stops:
        shown = ", ".join(foreseen.stops[:_NAMED])
        more = f" and {len(foreseen.stops) - _NAMED} more" if len(foreseen.stops) > _NAMED else ""
        yield f"Pods end:     {len(foreseen.stops)} ({shown}{more}), each once it has finished what it has"
    else:
        yield "Pods end:     none"
    starts = ", ".join(f"{count} of {pool}" for pool, count in sorted(foreseen.starts.items()))
    yield f"Pods start:   {starts or 'none'}"
    for pool, (before, after) in sorted(foreseen.replicas.items()):
        yield f"replicas:     {pool} {before} -> {after}"
    if foreseen.devices_peak:
        now, peak, after = foreseen.devices_now, foreseen.devices_peak, foreseen.devices_after
        yield f"devices:      {now} now, {peak} at the peak (and what draining workers still hold), {after} afterwards"
    if foreseen.stops:
        lost = foreseen.cached_blocks_lost
        known = "unknown: the agents could not be asked" if lost is None else f"{lost} KV blocks on the Pods that end"
        yield f"cache lost:   {known}"


def _names(foreseen: Change) -> Iterator[str]:
    if foreseen.names_lost:
        yield f"names lost:   {', '.join(foreseen.names_lost)}: requests for them fail"
    if foreseen.names_gained:
        yield f"names new:    {', '.join(foreseen.names_gained)}"


def change_document(foreseen: Change, previews: Sequence[Preview]) -> dict[str, Any]:
    objects = [{"object": it.called, "created": it.before is None, "changes": it.lines} for it in previews]
    return {"differs": not nothing_changes(foreseen, previews), "objects": objects, "effects": asdict(foreseen)}
