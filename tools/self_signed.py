"""Certificates that nobody vouches for, made by OpenSSL's program."""

import subprocess
from pathlib import Path

from inferplane_runtime.certificates import CertificateFiles


def self_signed(folder: Path, name: str) -> CertificateFiles:
    """Make a certificate for `name` and 127.0.0.1, and its key, in a new folder."""
    folder.mkdir(parents=True)
    files = CertificateFiles(folder / "tls.crt", folder / "tls.key")
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    whose = ("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", *kind, *whose, "-keyout", str(files.key), "-out", str(files.chain))
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own command
    return files
