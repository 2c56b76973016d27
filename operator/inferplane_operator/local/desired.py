"""Desired state of a local instance: `desired.yaml`, written by the command line, read by the runner.

It holds the manifests as the user gave them and, beside them, what the command line adds: replica overrides of `scale`,
the gateway's port, which interpreter runs the engines.  The manifests are never rewritten, so what a user sees in the
file is what they wrote.  `generation` rises with each change; the runner reports the one it has seen.

Two commands may write at once: a change is a read, an edit and a replace under a lock.
"""

import fcntl
import time
from collections.abc import Callable
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from inferplane_operator.local.statedir import StateDir, StateError, replace_file
from inferplane_operator.local.status import read_status

DEFAULT_GATEWAY_PORT = 8000


class Desired(BaseModel):
    """What an instance should be."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    manifests: list[dict[str, Any]] = Field(
        description="Documents as given: one InferenceService and what belongs to it."
    )
    generation: int = Field(default=1, ge=1)
    replicas: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="Pool to replicas, from `scale`; overrides the manifest until the next `up`."
    )
    gateway_port: int = Field(default=DEFAULT_GATEWAY_PORT, ge=0, le=65535, description="0: the system chooses.")
    engine_python: str = Field(default="", description="Interpreter of real engines; empty: none can be started.")
    gpus: str = Field(default="auto", description="auto (ask nvidia-smi), none, or a comma-separated list of devices.")
    stopped: bool = Field(default=False, description="The instance is to drain and end.")


def dump_desired(desired: Desired) -> str:
    document = desired.model_dump(by_alias=True)
    # The stub's own signature is partly untyped.
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)  # pyright: ignore[reportUnknownMemberType]


def parse_desired(text: str, *, name: str = "desired.yaml") -> Desired:
    try:
        return Desired.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else None
        raise _damaged(name, f"not YAML ({problem or 'unreadable characters'})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _damaged(name, f"{where}: {first['msg']}" if where else first["msg"]) from error


def _damaged(name: str, problem: str) -> StateError:
    return StateError(f"{name}: {problem}; run `inferplane up -f FILE` again to replace it")


def read_desired(state: StateDir) -> Desired | None:
    """Return the desired state, or None when none was ever written."""
    try:
        text = state.desired.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{state.desired}: cannot be read ({error})") from error
    return parse_desired(text, name=str(state.desired))


def change_desired(state: StateDir, change: Callable[[Desired | None], Desired]) -> Desired:
    """Apply `change` to what is there and return what was written; writers wait for each other.

    `change` is given None when there is nothing, or nothing that can be read.
    """
    try:
        with state.desired_lock.open("a+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            current, generation = _current(state)
            result = change(current).model_copy(update={"generation": generation + 1})
            replace_file(state.desired, dump_desired(result))
    except OSError as error:
        message = f"{state.root}: cannot be written ({error.strerror}); choose another --state-dir"
        raise StateError(message) from error
    return result


def _current(state: StateDir) -> tuple[Desired | None, int]:
    """Return what is there and its generation; where that is lost, one that no reader can have seen.

    A clock alone does not tell: it may have been set back since.  What the runner says it has seen is never undercut.
    """
    try:
        found = read_desired(state)
    except StateError:
        return None, max(_seen(state), state.desired.stat().st_mtime_ns // 1_000_000)
    if found is None:
        return None, max(_seen(state), time.time_ns() // 1_000_000) if state.status.exists() else 0
    return found, found.generation


def _seen(state: StateDir) -> int:
    """Return the generation that the runner has seen; 0 where it does not say."""
    try:
        status = read_status(state)
    except StateError:
        return 0
    return status.observed_generation if status is not None else 0
