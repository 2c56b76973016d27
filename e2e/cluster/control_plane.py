"""etcd, the API server, the controllers and the scheduler, as one-node settings have them.

Quotas on requests are high and leader election is off: there is one of each, and tests wait for what they do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import path_of
from e2e.cluster.certificates import Certificates, Identity
from e2e.cluster.components import Component
from e2e.cluster.enclosure import STATE, Enclosure

ADDRESS: Final = "10.99.0.1"
"""The node's and the API server's; not loopback, since Pods have to reach it."""
PORT: Final = 6443
SERVICES: Final = "10.96.0.0/16"
PODS: Final = "10.244.0.0/16"
DOMAIN: Final = "cluster.local"
SERVER: Final = f"https://{ADDRESS}:{PORT}"
NODE: Final = "node"
_ETCD: Final = "http://127.0.0.1:2379"
_ETCD_PEER: Final = "http://127.0.0.1:2380"
_PKI: Final = STATE / "pki"
_ISSUER: Final = f"https://kubernetes.default.svc.{DOMAIN}"
_NAMES: Final = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{DOMAIN}")
_ADDRESSES: Final = ("127.0.0.1", "10.96.0.1", ADDRESS)
_BRISK: Final = ("--kube-api-qps=500", "--kube-api-burst=1000", "--leader-elect=false")

ADMIN: Final = Identity("admin", "admin", "system:masters")
KUBELET: Final = Identity("kubelet", f"system:node:{NODE}", "system:nodes")
PROXY: Final = Identity("kube-proxy", "system:kube-proxy")
_CONTROLLERS: Final = Identity("controller-manager", "system:kube-controller-manager")
_SCHEDULER: Final = Identity("scheduler", "system:kube-scheduler")
_TO_KUBELET: Final = Identity("to-kubelet", "to-kubelet", "system:masters")
_FRONT: Final = Identity("front-proxy", "front-proxy")
IDENTITIES: Final = (_FRONT, ADMIN, KUBELET, PROXY, _CONTROLLERS, _SCHEDULER, _TO_KUBELET)

AUDIT_POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


def make_certificates(folder: Path) -> Certificates:
    """Make everything that the control plane and the node need."""
    certificates = Certificates(folder, SERVER)
    certificates.make_authority()
    certificates.make_token_keys()
    certificates.make_server(
        "apiserver",
        [*(f"IP:{address}" for address in _ADDRESSES), *(f"DNS:{name}" for name in ("localhost", *_NAMES))],
    )
    for identity in IDENTITIES:
        certificates.make_client(identity)
    return certificates


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """In the order of their start."""

    etcd: Component
    api_server: Component
    controllers: Component
    scheduler: Component

    @property
    def components(self) -> Sequence[Component]:
        return (self.etcd, self.api_server, self.controllers, self.scheduler)


def control_plane(enclosure: Enclosure) -> ControlPlane:
    def component(name: str, arguments: Sequence[str]) -> Component:
        return Component(name, [path_of(name), *arguments], enclosure)

    (enclosure.folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
    return ControlPlane(
        component("etcd", _etcd()),
        component("kube-apiserver", _api_server()),
        component("kube-controller-manager", _controllers()),
        component("kube-scheduler", _scheduler()),
    )


def _etcd() -> list[str]:
    return [
        f"--data-dir={STATE / 'etcd'}",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=default={_ETCD_PEER}",
        "--unsafe-no-fsync",  # what a crash of the machine would lose is thrown away anyway
        "--log-level=warn",
    ]


def _api_server() -> list[str]:
    return [
        f"--etcd-servers={_ETCD}",
        f"--secure-port={PORT}",
        f"--advertise-address={ADDRESS}",
        f"--client-ca-file={_PKI / 'ca.crt'}",
        f"--tls-cert-file={_PKI / 'apiserver.crt'}",
        f"--tls-private-key-file={_PKI / 'apiserver.key'}",
        f"--kubelet-client-certificate={_PKI / 'to-kubelet.crt'}",
        f"--kubelet-client-key={_PKI / 'to-kubelet.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        # an aggregated API (the metrics of a test) recognises the API server by these
        f"--requestheader-client-ca-file={_PKI / 'ca.crt'}",
        f"--requestheader-allowed-names={_FRONT.user}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={_PKI / 'front-proxy.crt'}",
        f"--proxy-client-key-file={_PKI / 'front-proxy.key'}",
        "--enable-aggregator-routing=true",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={_PKI / 'tokens.pub'}",
        f"--service-account-signing-key-file={_PKI / 'tokens.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",
        f"--audit-policy-file={STATE / 'audit-policy.yaml'}",
        f"--audit-log-path={STATE / 'log' / 'audit.log'}",
        "--audit-log-mode=blocking-strict",
        "--profiling=false",
    ]


def _controllers() -> list[str]:
    kubeconfig = _PKI / "controller-manager.kubeconfig"
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={_PKI / 'tokens.key'}",
        f"--root-ca-file={_PKI / 'ca.crt'}",
        f"--cluster-signing-cert-file={_PKI / 'ca.crt'}",
        f"--cluster-signing-key-file={_PKI / 'ca.key'}",
        "--use-service-account-credentials=true",
        "--allocate-node-cidrs=true",
        f"--cluster-cidr={PODS}",
        f"--service-cluster-ip-range={SERVICES}",
        "--horizontal-pod-autoscaler-sync-period=2s",
        *_BRISK,
    ]


def _scheduler() -> list[str]:
    kubeconfig = _PKI / "scheduler.kubeconfig"
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        *_BRISK,
    ]
