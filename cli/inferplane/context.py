"""What a command knows of where it was called: environment, folder, terminal; made once in `__main__`."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inferplane.cluster import Choice, Connect, Connection


@dataclass(frozen=True, slots=True)
class Context:
    environment: Mapping[str, str]
    working_dir: Path
    terminal: bool = False
    """Output goes to a person: tables may be drawn and lines rewritten."""
    colour: bool = False
    connector: Connect | None = None
    """The way to a cluster; None: as the kubeconfig says."""
    wall: Callable[[], float] = time.time
    """Seconds since 1970, for ages."""

    @property
    def state_root(self) -> Path:
        """The folder that holds a folder for each local instance."""
        home = self.environment.get("HOME") or "/"
        state = self.environment.get("XDG_STATE_HOME") or str(Path(home) / ".local" / "state")
        return Path(state) / "inferplane"

    def connect(self, choice: Choice) -> Connection | None:
        """Connect to the cluster meant; None where there is no kubeconfig and nothing asks for one."""
        if self.connector is not None:
            return self.connector(choice)
        from inferplane.kubeconfig import connect  # noqa: PLC0415  the client is not needed on this machine

        return connect(choice, self.environment)
