"""A service on this machine, through the files of its instance, and its command line.

`desired.yaml` says what is wanted, `status.json` what is there.  Scaling is `inferplane scale`, as a user would: it
holds the lock of the desired state, stays within the bounds of the file, and the next `up` wins over it.
The plan is shown in `plan.json`.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from inferplane_api.v1alpha1.inference_service import InferenceService, ScalingMode
from inferplane_api.v1alpha1.manifests import ManifestError, parse_resource
from inferplane_planner.act.priors import Calibrations
from inferplane_planner.act.records import encode
from inferplane_planner.act.startups import Seen, StartUps
from inferplane_planner.act.wishes import PLANNED, Prices, spec_of
from inferplane_planner.act.world import Findings, Sight, WorldError
from inferplane_planner.core.contract import NOBODY, Workers
from inferplane_planner.core.errors import PlanningError

_START_UP_S = 10.0
"""Until one was measured: processes of this machine, weights on its disk."""
_SCALE_TIMEOUT_S = 60.0


@dataclass(slots=True)
class LocalWorld:
    """`now` is the planner's clock, `wall` the time of day, both in seconds."""

    folder: Path
    now: Callable[[], float]
    period_s: float
    prices: Prices
    calibrations: Calibrations
    environment: Mapping[str, str]
    wall: Callable[[], float] = time.time
    _start_ups: StartUps = field(default_factory=StartUps)

    async def look(self) -> Sight:
        service, status = self._service(), self._status()
        workers = [_seen(each) for each in _list(status, "workers")]
        took = self._start_ups.look([seen for _, seen in workers], self.now())
        mode = service.spec.scaling.mode
        if mode not in PLANNED:
            raise WorldError(f"spec.scaling.mode is {mode.value}: nothing is planned")
        try:
            spec = spec_of(
                service.spec,
                prices=self.prices,
                calibrations=self.calibrations,
                period_s=self.period_s,
                start_up_s=_START_UP_S,
                wall_s=self.wall(),
            )
        except PlanningError as error:
            raise WorldError(str(error)) from error
        pools = {str(pool["role"]): pool for pool in _list(status, "pools")}
        return Sight(
            service=service.metadata.name,
            spec=spec,
            decode=self._workers(pools.get("decode"), workers),
            prefill=self._workers(pools.get("prefill"), workers),
            routers=(str(status["grpc"]),) if status.get("grpc") else (),
            acting=mode is ScalingMode.SLO,
            window_s=service.spec.slo.window_s,
            start_ups_s=took,
            namespace=service.metadata.namespace,
        )

    async def scale(self, role: str, replicas: int) -> None:
        command = (sys.executable, "-m", "inferplane", "scale", role, str(replicas), "--state-dir", str(self.folder))
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(self.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_SCALE_TIMEOUT_S):
                _, said = await process.communicate()
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise WorldError(f"scaling {role} to {replicas} took too long") from error
        if process.returncode:
            raise WorldError(f"{role} cannot be scaled to {replicas}: {said.decode(errors='replace').strip()}")

    async def tell(self, findings: Findings, sight: Sight) -> None:
        if findings.plan is None:
            return
        shown = {"service": sight.service, "acting": sight.acting, **encode(findings.plan)}
        _replace(self.folder / "plan.json", json.dumps(shown, indent=2) + "\n")

    def _service(self) -> InferenceService:
        try:
            document: Any = yaml.safe_load((self.folder / "desired.yaml").read_text(encoding="utf-8"))
            found = [parse_resource(manifest) for manifest in document["manifests"]]
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ManifestError, KeyError, TypeError) as error:
            raise WorldError(f"desired.yaml cannot be read: {error}") from error
        services = [each for each in found if isinstance(each, InferenceService)]
        if len(services) != 1:
            raise WorldError(f"desired.yaml holds {len(services)} services instead of one")
        return services[0]

    def _status(self) -> dict[str, Any]:
        try:
            found: object = json.loads((self.folder / "status.json").read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise WorldError(f"status.json cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise WorldError("status.json holds no status")
        return cast("dict[str, Any]", found)

    def _workers(self, pool: Mapping[str, Any] | None, workers: list[tuple[str, Seen]]) -> Workers:
        if pool is None:
            return NOBODY
        mine = [seen.name for name, seen in workers if name == pool["name"]]
        return Workers(int(pool["replicas"]), int(pool["ready"]), self._start_ups.pending_since(mine))


def _seen(worker: Mapping[str, Any]) -> tuple[str, Seen]:
    phase = worker.get("phase")
    return str(worker.get("pool")), Seen(str(worker.get("name")), phase == "Ready", phase == "Pending")


def _list(status: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found: object = status.get(name)
    return cast("list[dict[str, Any]]", found) if isinstance(found, list) else []


def _replace(path: Path, text: str) -> None:
    """Replace a file whole.  Raises WorldError."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise WorldError(f"{path}: cannot be written ({error.strerror})") from error
