"""The download itself: which commit, which files, whether they fit, and the mark that they are all there.

The hub's own library does the transfer: it continues files that were begun and places each one whole.  A commit's
folder fills up file by file, though, so a mark beside it says when the last one has come.
"""

import shutil
import ssl
import time
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import httpx2
import huggingface_hub
import structlog
from huggingface_hub import HfApi, set_client_factory
from huggingface_hub.hf_api import RepoFile

from inferplane_workers.fetch.config import FetchConfig
from inferplane_workers.fetch.failures import FetchError
from inferplane_workers.fetch.lock import locked
from inferplane_workers.fetch.progress import told

_LOCK_WAIT_S: Final = 2.0
_OTHER_FORMATS: Final = (
    "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*.gguf", "original/*",
)  # fmt: skip
"""The same weights again, where there are safetensors."""
_log = structlog.get_logger("inferplane.fetch")


def _wait() -> None:
    time.sleep(_LOCK_WAIT_S)


def fetch(config: FetchConfig, *, token: str | None, wait: Callable[[], None] = _wait) -> Path:
    """Have all files of the revision on disk and return their folder."""
    if config.commit and config.mark(config.commit).exists():
        return _found(config, config.commit)
    with locked(config.cache / ".locks" / f"inferplane-{config.folder.name}", wait=wait):
        if config.commit and config.mark(config.commit).exists():
            return _found(config, config.commit)
        return _fetch(config, token)


def _found(config: FetchConfig, commit: str) -> Path:
    _log.info("all files are here", repository=config.repository, commit=commit)
    return config.snapshot(commit)


def _fetch(config: FetchConfig, token: str | None) -> Path:
    _trust(config.ca_bundle)
    endpoint = config.endpoint or None
    api = HfApi(endpoint=endpoint, token=token or False)
    commit = config.commit or str(api.model_info(config.repository, revision=config.revision).sha)
    files = {
        entry.path: entry.size
        for entry in api.list_repo_tree(config.repository, recursive=True, revision=commit)
        if isinstance(entry, RepoFile)
    }
    ignored = _OTHER_FORMATS if any(path.endswith(".safetensors") for path in files) else ()
    wanted = {path: size for path, size in files.items() if not any(fnmatch(path, pattern) for pattern in ignored)}
    _drop_broken(config, commit, wanted)
    check_space(config, commit, wanted, free=shutil.disk_usage(config.cache).free)
    total = sum(wanted.values())
    _log.info("fetching", repository=config.repository, commit=commit, files=len(wanted), bytes=total)
    with told(config.folder / "blobs", total, interval_s=config.progress_interval):
        huggingface_hub.snapshot_download(  # pyright: ignore[reportUnknownMemberType] - of a progress bar
            config.repository,
            revision=config.revision,
            cache_dir=config.cache,
            endpoint=endpoint,
            token=token or False,
            ignore_patterns=list(ignored),
            max_workers=config.max_workers,
        )
    return complete(config, commit, wanted)


def complete(config: FetchConfig, commit: str, wanted: dict[str, int]) -> Path:
    """Look at every file before saying that they are there."""
    folder = config.snapshot(commit)
    wrong = sorted(path for path, size in wanted.items() if _size(folder / path) != size)
    if wrong:
        raise FetchError(f"{config.repository} came incomplete: {wrong[0]} has the wrong size; it is tried again")
    mark = config.mark(commit)
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    _log.info("all files have come", repository=config.repository, commit=commit)
    return folder


def _drop_broken(config: FetchConfig, commit: str, wanted: dict[str, int]) -> None:
    """Remove files that are not as long as the hub says: the library takes whatever is there for whole."""
    for path, size in wanted.items():
        file = config.snapshot(commit) / path
        if file.exists() and _size(file) != size:
            _log.warning("a file is broken: fetching it anew", file=path)
            file.resolve().unlink()
            file.unlink(missing_ok=True)


def check_space(config: FetchConfig, commit: str, wanted: dict[str, int], *, free: int) -> None:
    """Say before the first byte that the last one will not fit; parts that are there already are not counted again."""
    folder = config.snapshot(commit)
    missing = sum(size for path, size in wanted.items() if _size(folder / path) != size)
    begun = sum(max(0, _size(part)) for part in (config.folder / "blobs").glob("*.incomplete"))
    if missing - begun > free:
        raise FetchError(
            f"{config.cache} has {_gib(free)} free and {config.repository} needs {_gib(missing - begun)} more;"
            " make the volume of spec.model.cache (or the node's disk) larger"
        )


def _trust(ca_bundle: Path | None) -> None:
    if ca_bundle is None:
        return
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=ca_bundle)
    except (OSError, ssl.SSLError) as error:
        raise FetchError(f"{ca_bundle} holds no certificates ({error}); correct spec.model.caBundle") from error
    set_client_factory(lambda: httpx2.Client(verify=context, follow_redirects=True, timeout=None))


def _size(path: Path) -> int:
    """Return a file's size; -1 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _gib(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB"
