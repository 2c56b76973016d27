"""What a command knows of where it was called: environment, folder, terminal; made once in `__main__`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Context:
    environment: Mapping[str, str]
    working_dir: Path
    terminal: bool = False
    """Output goes to a person: tables may be drawn and lines rewritten."""
    colour: bool = False

    @property
    def state_root(self) -> Path:
        """The folder that holds a folder for each local instance."""
        home = self.environment.get("HOME") or "/"
        state = self.environment.get("XDG_STATE_HOME") or str(Path(home) / ".local" / "state")
        return Path(state) / "inferplane"
