"""The hub's own library against a hub on loopback: resumed, by commit, shared, and refused in words."""

import errno
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from inferplane_workers.fetch.config import FetchConfig
from inferplane_workers.fetch.download import check_space, complete, fetch
from inferplane_workers.fetch.failures import FetchError, explain
from inferplane_workers.fetch.lock import locked
from inferplane_workers.fetch.testing import COMMIT, Hub, Repository, running
from self_signed import self_signed

WEIGHTS = bytes(range(256)) * 4096
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"the same again",
    "original/consolidated.00.pth": b"and again",
    "sub/tokenizer.json": b"{}",
}
KEPT = {"config.json", "model.safetensors", "sub/tokenizer.json"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running(Hub({"org/m": Repository(FILES)})) as served:
        yield served


@pytest.fixture
def config(hub: Hub, tmp_path: Path) -> Callable[..., FetchConfig]:
    def make(**changes: Any) -> FetchConfig:
        given: dict[str, Any] = {"repository": "org/m", "revision": COMMIT, "cache": tmp_path / "hub"}
        given |= {"endpoint": hub.url, **changes}
        return FetchConfig(**given)

    return make


Make = Callable[..., FetchConfig]


def relative(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def words(config: FetchConfig, *, token: str | None = None) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, its words count
        fetch(config, token=token)
    found = explain(caught.value, config, token=token is not None)
    assert found is not None
    return found


def test_a_commit_comes_whole_and_without_the_same_weights_twice(config: Make) -> None:
    folder = fetch(config(), token=None)

    assert folder == config().snapshot(COMMIT)
    assert relative(folder) == KEPT
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert config().mark(COMMIT).exists()


def test_what_is_there_is_not_asked_for_again(hub: Hub, config: Make) -> None:
    fetch(config(), token=None)
    asked = hub.asked.total()
    fetch(config(), token=None)

    assert hub.asked.total() == asked


def test_weights_without_safetensors_come_as_they_are(hub: Hub, config: Make) -> None:
    hub.repositories["org/m"] = Repository({"pytorch_model.bin": b"weights", "config.json": b"{}"})

    assert relative(fetch(config(), token=None)) == {"pytorch_model.bin", "config.json"}


def test_a_branch_is_kept_under_the_commit_that_it_names(config: Make) -> None:
    folder = fetch(config(revision="main"), token=None)

    assert folder.name == COMMIT
    assert (config().folder / "refs" / "main").read_text() == COMMIT


def test_a_file_that_broke_off_goes_on_where_it_stopped(
    hub: Hub, config: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 65_536)
    hub.breaks["model.safetensors"] = 700_000
    folder = fetch(config(), token=None)

    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.sent < len(WEIGHTS) + 200_000, "not everything anew"


def test_a_download_that_was_killed_is_finished_by_the_next(config: Make) -> None:
    first = config()
    (first.snapshot(COMMIT)).mkdir(parents=True)
    (first.snapshot(COMMIT) / "config.json").write_bytes(b"{")

    folder = fetch(first, token=None)

    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_private_repository_opens_with_its_token(hub: Hub, config: Make) -> None:
    hub.repositories["org/m"].token = "right"  # noqa: S105 - a fake hub's

    assert relative(fetch(config(), token="right")) == KEPT  # noqa: S106


Case = tuple[tuple[dict[str, Any], dict[str, Any]], str | None, str]
REFUSALS: list[Case] = [
    (({"token": "right"}, {}), None, "if it is private, give a token in spec.model.secretRef"),
    (({"token": "right"}, {}), "wrong", "renew the key `token` of spec.model.secretRef"),
    (({"gated": True}, {}), "right", "accept its terms with the account of the token"),
    (({"gated": True}, {}), None, "accept its terms, and give that account's token"),
    (({}, {"repository": "org/none"}), "right", "shows no org/none (404); correct spec.model.source.hf"),
    (({}, {"revision": "v9"}), None, "no revision 'v9'; correct spec.model.revision"),
    (({}, {"revision": COMMIT[::-1]}), None, "correct spec.model.revision"),
]


@pytest.mark.parametrize(
    ("case", "token", "says"),
    REFUSALS,
    ids=["private", "token", "terms", "no-token", "repository", "branch", "commit"],
)
def test_a_refusal_names_the_field(
    hub: Hub, config: Make, case: tuple[dict[str, Any], dict[str, Any]], token: str | None, says: str
) -> None:
    about_hub, settings = case
    for name, value in about_hub.items():
        setattr(hub.repositories["org/m"], name, value)

    assert says in words(config(**settings), token=token)


@pytest.mark.parametrize(("status", "says"), [(403, "forbids org/m"), (418, "answers 418; it is tried again")])
def test_other_answers_are_told(hub: Hub, config: Make, status: int, says: str) -> None:
    hub.status = status

    assert says in words(config())


def no_time(_seconds: float) -> None:
    """Let the library's own tries follow each other at once."""


def test_a_hub_that_is_not_there_is_named(config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", no_time)
    found = words(config(endpoint="http://127.0.0.1:9"))

    assert "cannot reach http://127.0.0.1:9" in found
    assert "spec.model.endpoint" in found


def test_a_full_disk_is_told_before_the_first_byte(config: Make) -> None:
    with pytest.raises(FetchError, match=r"needs 2\.0 GiB more; make the volume of spec\.model\.cache"):
        check_space(config(), COMMIT, {"a": 2 * 1024**3}, free=1000)


def test_parts_that_are_there_are_not_counted_again(config: Make) -> None:
    given = config()
    given.snapshot(COMMIT).mkdir(parents=True)
    (given.folder / "blobs").mkdir()
    (given.snapshot(COMMIT) / "whole").write_bytes(bytes(100))
    (given.folder / "blobs" / "x.incomplete").write_bytes(bytes(60))

    check_space(given, COMMIT, {"whole": 100, "begun": 100}, free=40)


@pytest.mark.parametrize(
    ("number", "says"), [(errno.ENOSPC, "is full"), (errno.EROFS, "cannot be written"), (errno.EACCES, "group 65532")]
)
def test_errors_of_the_disk_are_told(config: Make, number: int, says: str) -> None:
    found = explain(OSError(number, os.strerror(number)), config(), token=False)

    assert found is not None
    assert says in found


def test_certificates_that_are_none_are_told(config: Make, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")

    assert "correct spec.model.caBundle" in words(config(ca_bundle=tmp_path / "ca.crt"))


def test_our_own_faults_are_not_explained_away(config: Make) -> None:
    assert explain(KeyError("x"), config(), token=False) is None


def test_two_pods_download_once(hub: Hub, config: Make) -> None:
    """The second waits for the lock and finds everything there."""
    asked, waited = threading.Event(), threading.Event()

    def hold(_path: str) -> None:
        asked.set()
        assert waited.wait(30)

    hub.before = hold
    folders: list[Path] = []
    first = threading.Thread(target=lambda: folders.append(fetch(config(), token=None)))
    first.start()
    assert asked.wait(30)
    folders.append(fetch(config(), token=None, wait=waited.set))
    first.join()

    assert folders[0] == folders[1]
    assert hub.asked[f"GET /org/m/resolve/{COMMIT}/model.safetensors"] == 1


def test_a_holder_that_dies_gives_the_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    take = f"f = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT); fcntl.flock(f, fcntl.LOCK_EX)"
    code = f"import fcntl, os; {take}; os._exit(9)"
    subprocess.run([sys.executable, "-c", code], check=False)

    with locked(path, wait=lambda: pytest.fail("nobody holds it")):
        pass


def test_a_file_system_without_locks_is_used_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_file: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("inferplane_workers.fetch.lock.fcntl.flock", refuse)
    with locked(tmp_path / "lock", wait=lambda: pytest.fail("it cannot be waited for")):
        pass


def test_a_file_of_the_wrong_size_is_not_called_complete(config: Make) -> None:
    given = config()
    given.snapshot(COMMIT).mkdir(parents=True)
    (given.snapshot(COMMIT) / "a").write_bytes(b"12")

    with pytest.raises(FetchError, match="a has the wrong size"):
        complete(given, COMMIT, {"a": 3})
    assert not given.mark(COMMIT).exists()


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ((), 0, "all files have come"),
        (("--repository", "org/none"), 1, "inferplane-fetch: "),
        (("--endpoint", "mirror"), 2, "--endpoint"),
    ],
    ids=["done", "failed", "settings"],
)
def test_the_program_ends_with_a_status_and_a_last_line(
    hub: Hub, tmp_path: Path, arguments: tuple[str, ...], status: int, says: str
) -> None:
    done = run_program(hub.url, tmp_path, *arguments)

    assert done.returncode == status, done.stderr
    assert "/resolve/" not in done.stderr, "addresses of a hub's stores are secrets"
    assert says in done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate that nobody vouches for; return a file that holds it and its key."""
    files = self_signed(tmp_path_factory.mktemp("tls") / "mirror", "mirror")
    both = files.chain.with_suffix(".pem")
    both.write_text(files.key.read_text() + files.chain.read_text())
    return both


def run_program(url: str, cache: Path, *more: str) -> subprocess.CompletedProcess[str]:
    given = ("--repository", "org/m", "--revision", COMMIT, "--cache", str(cache), "--endpoint", url, *more)
    return subprocess.run(
        [sys.executable, "-m", "inferplane_workers.fetch", *given],
        env={**os.environ, "HF_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_a_mirror_with_a_certificate_of_its_own_is_trusted_when_told(tmp_path: Path, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with running(Hub({"org/m": Repository(FILES)}), tls=context) as hub:
        told = run_program(hub.url, tmp_path / "a", "--ca-bundle", str(certificate.with_suffix(".crt")))
        untold = run_program(hub.url, tmp_path / "b")

    assert told.returncode == 0, told.stderr
    assert untold.returncode == 1
    assert "give its issuer's in spec.model.caBundle" in untold.stderr.strip().splitlines()[-1]
