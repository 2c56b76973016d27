"""Keys and certificates of one cluster's life, made by openssl: an authority, a server, one identity per component."""

import base64
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_DAYS: Final = "30"
_AUTHORITY: Final = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature")
_KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
clusters: [{{name: e2e, cluster: {{server: "{server}", certificate-authority-data: {authority}}}}}]
users: [{{name: {name}, user: {{client-certificate-data: {certificate}, client-key-data: {key}}}}}]
contexts: [{{name: e2e, context: {{cluster: e2e, user: {name}}}}}]
current-context: e2e
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who somebody is for the API server: user and group are the certificate's subject."""

    name: str
    user: str
    group: str = ""

    @property
    def subject(self) -> str:
        return f"/O={self.group}/CN={self.user}" if self.group else f"/CN={self.user}"


@dataclass(frozen=True, slots=True)
class Certificates:
    """The folder that holds them; every path is inside it."""

    folder: Path
    server: str
    """URL of the API server."""

    def path(self, name: str) -> Path:
        return self.folder / name

    def make_authority(self) -> None:
        self.folder.mkdir(parents=True)
        self._key("ca")
        extensions = [part for extension in _AUTHORITY for part in ("-addext", extension)]
        self._openssl(
            "req", "-x509", "-new", "-key", "ca.key", "-days", _DAYS, "-subj", "/CN=e2e", "-out", "ca.crt", *extensions
        )

    def make_token_keys(self) -> None:
        """Make the pair that service account tokens are signed with."""
        self._openssl("genrsa", "-out", "tokens.key", "2048")
        self._openssl("rsa", "-in", "tokens.key", "-pubout", "-out", "tokens.pub")

    def make_server(self, name: str, names: Sequence[str]) -> None:
        """Make a server's certificate for `names`, each `DNS:...` or `IP:...`."""
        self._certificate(name, f"/CN={name}", "serverAuth", f"subjectAltName={','.join(names)}")

    def make_client(self, identity: Identity) -> Path:
        """Make a client's certificate and its kubeconfig; return the latter."""
        self._certificate(identity.name, identity.subject, "clientAuth")
        text = _KUBECONFIG.format(
            server=self.server,
            name=identity.name,
            authority=self.encoded("ca.crt"),
            certificate=self.encoded(f"{identity.name}.crt"),
            key=self.encoded(f"{identity.name}.key"),
        )
        kubeconfig = self.path(f"{identity.name}.kubeconfig")
        kubeconfig.write_text(text)
        return kubeconfig

    def _certificate(self, name: str, subject: str, usage: str, *extensions: str) -> None:
        self._key(name)
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        wanted = ["keyUsage=critical,digitalSignature,keyEncipherment", f"extendedKeyUsage={usage}", *extensions]
        self.path(f"{name}.ext").write_text("\n".join(wanted) + "\n")
        signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", _DAYS]
        self._openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-extfile", f"{name}.ext", "-out", f"{name}.crt")

    def _key(self, name: str) -> None:
        # elliptic curves: making RSA keys would be half of a cluster's start
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def encoded(self, name: str) -> str:
        return base64.b64encode(self.path(name).read_bytes()).decode()
