"""An adapter of a hub is downloaded by the program that downloads models, with a token that nobody else sees."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferplane_workers.agent.adapter_source import AdapterSource, DownloadingHub, SourceError
from inferplane_workers.agent.adapters import Wish
from inferplane_workers.fetch.testing import COMMIT, Hub, Repository, running

pytestmark = pytest.mark.slow

FILES = {"adapter_config.json": b'{"r": 8}', "adapter_model.safetensors": bytes(1024)}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub({"org/a": Repository(FILES), "org/closed": Repository(FILES, token="secret")})) as served:  # noqa: S106
        yield served


def located(hub: Hub, folder: Path, wish: Wish) -> Path:
    source = AdapterSource([], DownloadingHub(folder / "hub", hub.url))
    return Path(asyncio.run(source.locate(wish)))


@pytest.mark.parametrize("revision", [COMMIT, ""], ids=["commit", "default"])
def test_the_folder_of_the_commit_holds_its_files(hub: Hub, tmp_path: Path, revision: str) -> None:
    folder = located(hub, tmp_path, Wish("a", revision, hf="org/a"))

    assert folder.name == COMMIT
    assert json.loads((folder / "adapter_config.json").read_bytes()) == {"r": 8}
    assert (folder / "adapter_model.safetensors").stat().st_size == 1024


def test_a_closed_repository_opens_with_the_token_in_the_file_and_says_so_without(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    token = str(tmp_path / "token")

    assert located(hub, tmp_path, Wish("a", COMMIT, hf="org/closed", token_file=token)).is_dir()
    with pytest.raises(SourceError, match=r"org/closed: .*token"):
        located(hub, tmp_path / "other", Wish("a", COMMIT, hf="org/closed"))


def test_a_worker_without_a_cache_says_so() -> None:
    with pytest.raises(SourceError, match="no folder for a hub's files"):
        asyncio.run(AdapterSource([], DownloadingHub(None)).locate(Wish("a", hf="org/a")))
