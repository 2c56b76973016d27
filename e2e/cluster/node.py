"""The node: containerd with a bridge for Pods, the kubelet, kube-proxy and the cluster's DNS.

Two settings stand against what containers and virtual machines for tests often lack.  The right to lower a process's
OOM score: containerd, kubelet and kube-proxy are told not to try.  Disk space: Pods are evicted only when next to
nothing is left, and images are never collected, since no registry would give them again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from e2e.cluster.binaries import path_of
from e2e.cluster.components import Component
from e2e.cluster.control_plane import ADDRESS, DOMAIN, NODE, PODS
from e2e.cluster.enclosure import STATE, Enclosure

SOCKET: Final = STATE / "containerd.sock"
PAUSE_IMAGE: Final = "localhost/pause:1"
DNS_READY: Final = f"http://{ADDRESS}:8181/ready"
PROXY_HEALTH: Final = "http://127.0.0.1:10256/healthz"
_PKI: Final = STATE / "pki"

_CONTAINERD: Final = f"""\
version = 2
root = "{STATE}/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt",
]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{STATE}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""
_POD_NETWORK: Final = f"""\
{{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {{"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
    "ipam": {{"type": "host-local", "dataDir": "{STATE}/addresses",
             "ranges": [[{{"subnet": "10.244.0.0/24"}}]], "routes": [{{"dst": "0.0.0.0/0"}}]}}}},
  {{"type": "loopback"}}
]}}
"""
_KUBELET: Final = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://{socket}
cgroupDriver: cgroupfs
cgroupRoot: /{group}
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {pki}/ca.crt}}}}
authorization: {{mode: Webhook}}
clusterDomain: {domain}
clusterDNS: [{address}]
resolvConf: {state}/resolv.conf
podLogsDir: {state}/pod-logs
volumePluginDir: {state}/volume-plugins
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 4s
kubeAPIQPS: 200
kubeAPIBurst: 400
maxPods: 200
"""
_PROXY: Final = f"""\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {{kubeconfig: {_PKI}/kube-proxy.kubeconfig}}
clusterCIDR: {PODS}
hostnameOverride: {NODE}
conntrack: {{maxPerCore: 0}}
nftables: {{minSyncPeriod: 100ms}}
oomScoreAdj: 0
"""
_DNS: Final = f"""\
.:53 {{
  bind {ADDRESS}
  errors
  ready {ADDRESS}:8181
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {_PKI}/admin.kubeconfig
    ttl 2
  }}
  cache 2
}}
"""


@dataclass(frozen=True, slots=True)
class Node:
    """In the order of their start."""

    containerd: Component
    kubelet: Component
    proxy: Component
    dns: Component

    @property
    def components(self) -> Sequence[Component]:
        return (self.containerd, self.kubelet, self.proxy, self.dns)


def node(enclosure: Enclosure) -> Node:
    """Write what the programs are told, and say how they are started."""
    folder = enclosure.folder
    (folder / "cni").mkdir(exist_ok=True)
    kubelet = _KUBELET.format(
        socket=SOCKET, group=enclosure.name, pki=_PKI, domain=DOMAIN, address=ADDRESS, state=STATE
    )
    files = {
        "containerd.toml": _CONTAINERD,
        "cni/10-pods.conflist": _POD_NETWORK,
        "kubelet.yaml": kubelet,
        "kube-proxy.yaml": _PROXY,
        "Corefile": _DNS,
        "resolv.conf": f"nameserver {ADDRESS}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return Node(
        Component("containerd", ["containerd", "--config", STATE / "containerd.toml"], enclosure),
        Component("kubelet", [path_of("kubelet"), *_kubelet()], enclosure),
        Component("kube-proxy", [path_of("kube-proxy"), f"--config={STATE / 'kube-proxy.yaml'}"], enclosure),
        Component("coredns", [path_of("coredns"), "-conf", STATE / "Corefile"], enclosure),
    )


def _kubelet() -> list[str]:
    return [
        f"--config={STATE / 'kubelet.yaml'}",
        f"--kubeconfig={_PKI / 'kubelet.kubeconfig'}",
        f"--root-dir={STATE / 'kubelet'}",
        f"--cert-dir={STATE / 'kubelet-pki'}",
        f"--hostname-override={NODE}",
        f"--node-ip={ADDRESS}",
    ]
