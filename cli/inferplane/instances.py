"""Finding local instances: each is a folder; which is meant follows from options and from what is there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane_operator.local.desired import Desired, change_desired
from inferplane_operator.local.lock import runner_is_alive
from inferplane_operator.local.statedir import StateDir, StateError
from inferplane_operator.local.status import InstancePhase, Status, read_status


@dataclass(frozen=True, slots=True)
class Instance:
    """A local instance as its files show it."""

    name: str
    state: StateDir

    @property
    def running(self) -> bool:
        return runner_is_alive(self.state)

    def status(self) -> Status | None:
        """Return the last status; what a dead runner left is marked as stopped, since nothing keeps it true.

        None when there is none, or a damaged one: a living runner writes it again, and `up` does not need it.
        """
        try:
            found = read_status(self.state)
        except StateError:
            return None
        if found is None or self.running or found.phase is InstancePhase.STOPPED:
            return found
        return found.model_copy(
            update={
                "phase": InstancePhase.STOPPED,
                "message": "the runner has ended unexpectedly; `inferplane up` again",
                "workers": (),
                "pools": tuple(pool.model_copy(update={"ready": 0, "updated": 0}) for pool in found.pools),
            }
        )

    def change(self, change: Callable[[Desired | None], Desired]) -> Desired:
        """Change what is wanted and return it; `change` is given None where that is lost."""
        try:
            return change_desired(self.state, change)
        except StateError as error:
            raise CommandError(str(error)) from error


def instance_at(folder: Path) -> Instance:
    state = StateDir(folder)
    return Instance(folder.name, state)


def all_instances(context: Context) -> list[Instance]:
    root = context.state_root
    if not root.is_dir():
        return []
    return [instance_at(folder) for folder in sorted(root.iterdir()) if (folder / "desired.yaml").exists()]


def choose(context: Context, *, name: str | None, state_dir: Path | None) -> Instance:
    """Return the instance meant: the folder given, the name given, or the only one that runs."""
    if state_dir is not None:
        found_there = instance_at(state_dir.absolute())
        if not found_there.state.desired.exists() and not found_there.running:
            raise InvalidError(f"--state-dir {state_dir}: no instance there; run `inferplane up -f FILE`")
        status = found_there.status()
        return Instance(status.service, found_there.state) if status and status.service else found_there
    known = all_instances(context)
    if name is not None:
        found = [instance for instance in known if instance.name == name]
        if not found:
            raise InvalidError(f"no local instance is called {name!r}; {_listing(known)}")
        return found[0]
    running = [instance for instance in known if instance.running]
    candidates = running or known
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise InvalidError("no local instance; start one with `inferplane up -f FILE`")
    raise InvalidError(
        f"more than one local instance: give the NAME of one (see --help for where); {_listing(candidates)}"
    )


def _listing(instances: list[Instance]) -> str:
    if not instances:
        return "there is none"
    return f"there are: {', '.join(instance.name for instance in instances)}"
