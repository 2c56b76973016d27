"""The folder of one local instance: where everything is, and how a file in it is replaced.

Runner and command line meet only here, so every file is replaced atomically (write aside, fsync, rename): a reader
sees the old value or the new one, never half of one, whoever dies in between.

Sockets are the exception to "everything in one folder": a unix socket's path is limited to 107 bytes, and ZeroMQ
truncates no better than the kernel.  A state folder too deep for them lends a short one under the runtime directory.
"""

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOCKET_PATH_LIMIT = 103
"""Bytes of the longest socket path that works everywhere: 107 on Linux, 103 on macOS."""
_LONGEST_SOCKET_NAME = 40


class StateError(Exception):
    """A state file or folder cannot be used; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths of one instance."""

    root: Path

    @property
    def desired(self) -> Path:
        return self.root / "desired.yaml"

    @property
    def desired_lock(self) -> Path:
        return self.root / "desired.lock"

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def catalogue(self) -> Path:
        return self.root / "catalogue.json"

    @property
    def router_config(self) -> Path:
        return self.root / "router.yaml"

    @property
    def router_report(self) -> Path:
        return self.root / "router.listen.json"

    @property
    def planner_config(self) -> Path:
        return self.root / "planner.yaml"

    @property
    def kv_config(self) -> Path:
        return self.root / "kv-store.json"

    @property
    def kv_secret(self) -> Path:
        return self.root / "kv-secret"

    @property
    def decisions(self) -> Path:
        return self.root / "decisions.jsonl"

    @property
    def records(self) -> Path:
        return self.root / "records"

    @property
    def children(self) -> Path:
        return self.root / "children.json"

    @property
    def lock(self) -> Path:
        return self.root / "runner.lock"

    @property
    def pid(self) -> Path:
        return self.root / "runner.pid"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def create(self) -> None:
        """Make the folder for its owner alone: desired state and logs may hold prompts and secrets."""
        for folder in (self.root, self.logs, self.cache):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise StateError(
                    f"{folder}: cannot be created ({error.strerror}); choose another --state-dir"
                ) from error


def replace_file(path: Path, text: str) -> None:
    """Replace `path` atomically; a crash leaves the old or the new content, and at most a stray `.tmp` file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def file_stamp(path: Path) -> tuple[int, int] | None:
    """Return what changes with every replacement of a file; None when there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def socket_dir(state: StateDir, *, runtime_root: Path) -> Path:
    """Return a folder, made and private, whose sockets have paths short enough.

    `runtime_root` is a short folder such as $XDG_RUNTIME_DIR; it is used only when the state folder is too deep.
    """
    own = state.root / "sockets"
    if len(os.fsencode(own)) + 1 + _LONGEST_SOCKET_NAME <= SOCKET_PATH_LIMIT:
        return _private(own)
    digest = hashlib.sha256(os.fsencode(state.root)).hexdigest()[:12]
    lent = runtime_root / f"inferplane-{os.getuid()}" / digest
    if len(os.fsencode(lent)) + 1 + _LONGEST_SOCKET_NAME > SOCKET_PATH_LIMIT:
        raise StateError(f"{runtime_root}: too deep for unix sockets ({SOCKET_PATH_LIMIT} bytes); set XDG_RUNTIME_DIR")
    _private(lent.parent)
    return _private(lent)


def _private(folder: Path) -> Path:
    """Make `folder` with mode 700, or check that it is ours: /tmp is shared, a name in it can be squatted."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StateError(f"{folder}: must be a folder of yours with mode 700; remove it or set XDG_RUNTIME_DIR")
    return folder
