"""A calibration as it goes: points one by one, each kept in a file, so that a broken run goes on where it was."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from inferplane.errors import InvalidError
from inferplane.probing import Engine
from inferplane_planner.calibration.grid import DecodePoint, PrefillPoint, Sample

Point = PrefillPoint | DecodePoint


@dataclass(frozen=True, slots=True)
class Notes:
    """Samples in a file of lines; the first line says of which engine they are."""

    path: Path
    engine: str

    def read(self) -> list[Sample]:
        """Return what was measured before.  Raises InvalidError where the file is another engine's or damaged."""
        if not self.path.exists():
            return []
        try:
            lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines() if line.strip()]
            if lines and lines[0] != {"engine": self.engine}:
                raise InvalidError(
                    f"{self.path}: holds times of {lines[0].get('engine')}; remove it, or name another --out"
                )
            return [_sample(line) for line in lines[1:]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidError(f"{self.path}: cannot be read ({error}); remove it to begin anew") from error

    def add(self, sample: Sample) -> None:
        """Raise OSError where the disk takes nothing."""
        fresh = not self.path.exists()
        with self.path.open("a", encoding="utf-8") as file:
            if fresh:
                file.write(json.dumps({"engine": self.engine}) + "\n")
            kind = "prefill" if isinstance(sample.point, PrefillPoint) else "decode"
            value = {kind: asdict(sample.point), "seconds": sample.seconds, "kvTokens": sample.kv_tokens}
            file.write(json.dumps(value) + "\n")


def _sample(line: dict[str, Any]) -> Sample:
    point = PrefillPoint(**line["prefill"]) if "prefill" in line else DecodePoint(**line["decode"])
    return Sample(point, float(line["seconds"]), float(line["kvTokens"]))


def counts(samples: Sequence[Sample]) -> Sample:
    """Return the sample that counts.

    A prompt is timed from sending it, to which noise only adds: the least.  A step is timed between two pieces of an
    answer, and noise that holds the first of them back makes it look faster: the middle one.
    """
    ordered = sorted(samples, key=lambda it: it.seconds)
    return ordered[0] if isinstance(ordered[0].point, PrefillPoint) else ordered[len(ordered) // 2]


async def measure(
    engine: Engine, points: Sequence[Point], notes: Notes, *, repeats: int, tell: Callable[[str], None]
) -> list[Sample]:
    """Measure what the notes do not have, each point several times."""
    found = {sample.point: sample for sample in notes.read()}
    for number, point in enumerate(points, start=1):
        if point in found:
            continue
        samples = [await engine.measure(point) for _ in range(repeats)]
        found[point] = counts(samples)
        notes.add(found[point])
        spread = statistics.pstdev(it.seconds for it in samples) / found[point].seconds
        tell(f"{number}/{len(points)} {words(point)}: {found[point].seconds * 1000:.2f} ms (spread {spread:.0%})")
    return [found[point] for point in points]


def words(point: Point) -> str:
    if isinstance(point, PrefillPoint):
        return f"a prompt of {point.tokens} tokens" + (f" after {point.cached} cached ones" if point.cached else "")
    return f"a step of {point.batch} sequences after {point.context} tokens each"
