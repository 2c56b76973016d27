"""What is known of an engine before anything was observed: calibration, else a profile, else a guess.

A calibration file is a timing profile as JSON, one key a coefficient.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from inferplane_api.v1alpha1.engine import EngineType
from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec
from inferplane_api.v1alpha1.pool_template import PoolTemplate
from inferplane_engine.profiles import CPU_TEST, PROFILES
from inferplane_engine.timing import TimingProfile
from inferplane_planner.act.records import RecordError, decode
from inferplane_planner.core.engine_model import CALIBRATED, GUESSED, EngineModel
from inferplane_planner.core.times import EngineTimes
from inferplane_runtime.settings import SettingsError

Calibrations = Mapping[str, TimingProfile]
"""By accelerator class; "" for engines of pools without one."""


@dataclass(frozen=True, slots=True)
class _Known:
    profile: TimingProfile
    deviation: float


def read_calibration(path: Path) -> TimingProfile:
    """Read a calibration file.  Raises SettingsError."""
    try:
        return decode(TimingProfile, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecordError) as error:
        raise SettingsError(str(path), f"is no calibration: {error}; write it anew") from error


def prior_of(spec: InferenceServiceSpec, calibrations: Calibrations) -> EngineModel:
    """Return the engines of both pools as they are known."""
    prefill, decoding = spec.prefill or spec.decode, spec.decode
    known = [_known(spec, pool, calibrations) for pool in (prefill, decoding)]
    return EngineModel(
        prefill=_times(spec, prefill, known[0].profile),
        decode=_times(spec, decoding, known[1].profile),
        deviation=max(each.deviation for each in known),
    )


def _known(spec: InferenceServiceSpec, pool: PoolTemplate, calibrations: Calibrations) -> _Known:
    if pool.accelerator in calibrations:
        return _Known(calibrations[pool.accelerator], CALIBRATED)
    if spec.engine.type is EngineType.SIM:
        sim = spec.engine.sim
        profile = _named((sim.profile if sim else "") or pool.accelerator)
        return _Known(profile.scaled(1.0 / sim.speed) if sim else profile, CALIBRATED)
    return _Known(_named(pool.accelerator), GUESSED)


def _named(name: str) -> TimingProfile:
    """Find a profile; a bare accelerator means its smallest model, and what is unknown the profile for tests."""
    return PROFILES.get(name) or PROFILES.get(f"{name}-8b") or CPU_TEST


def _times(spec: InferenceServiceSpec, pool: PoolTemplate, profile: TimingProfile) -> EngineTimes:
    engine, plain = spec.engine, EngineTimes(profile)
    memory = pool.engine.kv_cache_memory_bytes or engine.kv_cache_memory_bytes
    if memory is not None:
        profile = replace(profile, kv_capacity_tokens=max(1, int(memory) // profile.kv_bytes_per_token))
    return EngineTimes(
        profile,
        chunk_tokens=pool.engine.max_num_batched_tokens or engine.max_num_batched_tokens or plain.chunk_tokens,
        max_sequences=pool.engine.max_num_seqs or engine.max_num_seqs or plain.max_sequences,
    )
