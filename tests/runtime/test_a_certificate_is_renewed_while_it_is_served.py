"""Who connects after a certificate was replaced is shown the new one; one that is broken changes nothing."""

import contextlib
import shutil
import ssl
from pathlib import Path

import pytest

from inferplane_runtime.certificates import CertificateFiles, ServedCertificate
from self_signed import self_signed


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[CertificateFiles, CertificateFiles]:
    folder = tmp_path_factory.mktemp("tls")
    return self_signed(folder / "first", "first"), self_signed(folder / "second", "second")


def replace(files: CertificateFiles, *, chain: Path, key: Path) -> None:
    for old, new in ((files.chain, chain), (files.key, key)):
        shutil.copy(new, old.with_suffix(".new"))
        old.with_suffix(".new").replace(old)


@pytest.fixture
def files(tmp_path: Path, pairs: tuple[CertificateFiles, CertificateFiles]) -> CertificateFiles:
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    replace(files, chain=pairs[0].chain, key=pairs[0].key)
    return files


def shown(context: ssl.SSLContext) -> bytes:
    """Return the certificate that a client is shown, in a handshake without sockets."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return client.getpeercert(binary_form=True) or b""


def held(file: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(file.read_text())


def test_a_replaced_pair_is_shown(files: CertificateFiles, pairs: tuple[CertificateFiles, CertificateFiles]) -> None:
    served = ServedCertificate(files, protocols=["http/1.1"])
    before = shown(served.context)
    replace(files, chain=pairs[1].chain, key=pairs[1].key)
    served.renew()

    assert (before, shown(served.context)) == (held(pairs[0].chain), held(pairs[1].chain))


def test_a_chain_whose_key_has_not_come_yet_waits_for_it(
    files: CertificateFiles, pairs: tuple[CertificateFiles, CertificateFiles]
) -> None:
    served = ServedCertificate(files, protocols=["http/1.1"])
    replace(files, chain=pairs[1].chain, key=pairs[0].key)
    served.renew()
    before = shown(served.context)
    replace(files, chain=pairs[1].chain, key=pairs[1].key)
    served.renew()

    assert (before, shown(served.context)) == (held(pairs[0].chain), held(pairs[1].chain))


def test_files_that_went_away_or_hold_nothing_leave_the_former_in_force(files: CertificateFiles) -> None:
    served = ServedCertificate(files, protocols=["http/1.1"])
    before = shown(served.context)
    files.chain.write_text("no certificate")
    served.renew()
    files.key.unlink()
    served.renew()

    assert shown(served.context) == before


def test_a_pair_that_does_not_fit_cannot_be_begun_with(pairs: tuple[CertificateFiles, CertificateFiles]) -> None:
    with pytest.raises(OSError, match="KEY_VALUES_MISMATCH"):
        ServedCertificate(CertificateFiles(pairs[0].chain, pairs[1].key), protocols=[])
