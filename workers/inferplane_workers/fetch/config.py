"""The download's settings: every flag, once."""

import re
from dataclasses import dataclass
from pathlib import Path

from inferplane_runtime.logs import LogFormat, LogLevel
from inferplane_runtime.settings import SettingsError, parse_duration, setting

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    """Download a model's files into a hub's cache folder."""

    repository: str = setting(help="owner/name of the model on the hub")
    revision: str = setting(default="main", help="commit, branch or tag")
    cache: Path = setting(help="cache folder, in the hub's own layout")
    endpoint: str = setting(default="", help="URL of a mirror; empty: the hub")
    ca_bundle: Path | None = setting(default=None, help="PEM file of certificates to trust besides the system's")
    max_workers: int = setting(default=8, minimum=1, maximum=64, help="files downloaded at once")
    progress_interval: float = setting(default=10.0, parse=parse_duration, help="time between two lines of progress")
    log_format: LogFormat = setting(default=LogFormat.LOGFMT, help="logfmt, json or console")
    log_level: LogLevel = setting(default=LogLevel.INFO, help="debug, info, warning or error")

    def __post_init__(self) -> None:
        if not _REPOSITORY.fullmatch(self.repository):
            raise SettingsError("--repository", f"{self.repository!r} is not owner/name")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise SettingsError("--endpoint", f"{self.endpoint!r} must begin with http:// or https://")

    @property
    def commit(self) -> str:
        """The revision if it is a commit; "" if it has to be looked up."""
        return self.revision if _COMMIT.fullmatch(self.revision) else ""

    @property
    def folder(self) -> Path:
        """The repository's folder in the cache."""
        return self.cache / f"models--{self.repository.replace('/', '--')}"

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def mark(self, commit: str) -> Path:
        """Return the file that says that a commit is complete."""
        return self.folder / ".inferplane" / commit
