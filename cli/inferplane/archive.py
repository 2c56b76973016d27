"""An archive that tells a stranger what is wrong, without secrets.

Objects are redacted; logs are what programs wrote and go in as they are, which the archive itself says.
"""

import io
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferplane.cluster import Object
from inferplane.kube.fields import name_of, text
from inferplane.redaction import redacted


@dataclass
class Archive:
    """Files by name, in the order in which they are written."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def put_objects(self, folder: str, objects: Sequence[Object], write: Callable[[object], str]) -> None:
        for it in objects:
            self.files[f"{folder}/{text(it, 'kind').lower()}-{name_of(it)}.yaml"] = write(redacted(it)).encode()

    def write(self, path: Path, root: str, modified: float) -> None:
        with tarfile.open(path, "w:gz") as tar:
            for name, content in self.files.items():
                entry = tarfile.TarInfo(f"{root}/{name}")
                entry.size, entry.mtime, entry.mode = len(content), int(modified), 0o600
                tar.addfile(entry, io.BytesIO(content))
