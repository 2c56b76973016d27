"""The image that the Dockerfile makes: nothing is compiled at start, nothing can be written, nothing is hidden."""

import json
from typing import Any

import pytest

from e2e.support.cluster import Cluster
from e2e.support.waiting import until

LOOK = "import json, shutil; print(json.dumps({name: shutil.which(name) for name in ('pip', 'gcc', 'cc', 'python')}))"
SBOM = "print(open('/usr/share/inferplane/sbom.cdx.json').read())"
WARM = "from inferplane_router.core.warming import warm; warm()"


def run(cluster: Cluster, namespace: str, image: str, program: str, **environment: str) -> str:
    """Run a program as strictly as the chart runs ours; return what it printed."""
    container = {
        "name": "once",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", program],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "once"},
        "spec": {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]},
    }
    cluster.apply(pod, namespace=namespace)

    def ended() -> str:
        phase = cluster.get("pod", "once", namespace=namespace)["status"].get("phase", "")
        return phase if phase in {"Succeeded", "Failed"} else ""

    phase = until(ended, 120, what="the program's end")
    said = cluster.kubectl("logs", "-n", namespace, "once")
    assert phase == "Succeeded", said
    return said


def test_a_started_container_compiles_no_kernel(cluster: Cluster, image: str, namespace: str) -> None:
    said = run(cluster, namespace, image, WARM, NUMBA_DEBUG_CACHE="1").splitlines()

    loaded = [line for line in said if "data loaded from" in line]
    assert loaded
    assert [line for line in said if "data saved to" in line or "index saved to" in line] == []


@pytest.mark.parametrize("tool", ["pip", "gcc", "cc"])
def test_no_tool_to_build_with_is_in_it(tool: str, cluster: Cluster, image: str, namespace: str) -> None:
    found: dict[str, Any] = json.loads(run(cluster, namespace, image, LOOK))

    assert found["python"]
    assert found[tool] is None


def test_it_says_what_it_is_made_of(cluster: Cluster, image: str, namespace: str) -> None:
    document: dict[str, Any] = json.loads(run(cluster, namespace, image, SBOM))
    made_of = {part["name"]: part["purl"] for part in document["components"]}

    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "inferplane"
    assert {"numba", "grpcio", "lightkube", "kopf", "python", "libc6"} <= made_of.keys()
    assert made_of["numba"].startswith("pkg:pypi/numba@")
    assert made_of["libc6"].startswith("pkg:deb/debian/libc6@")
