"""An image of one file, written without a builder: the sandbox of every Pod is there before any builder could be."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

_OCI: Final = "application/vnd.oci.image"


def one_file_image(program: Path, name: str, destination: Path) -> None:
    """Write an archive in the OCI layout whose image `name` runs `program`."""
    layer = _layer(program)
    entry = f"/{program.name}"
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [entry], "User": "65535"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _descriptor(config, "config.v1+json"),
            "layers": [_descriptor(layer, "layer.v1.tar")],
        }
    )
    named = _descriptor(manifest, "manifest.v1+json") | {"annotations": {"io.containerd.image.name": name}}
    index = _json({"schemaVersion": 2, "manifests": [named]})
    with tarfile.open(destination, "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", index)
        for blob in (layer, config, manifest):
            _add(archive, f"blobs/{_digest(blob).replace(':', '/')}", blob)


def _layer(program: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        _add(layer, program.name, program.read_bytes(), mode=0o755)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _descriptor(blob: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": f"{_OCI}.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
