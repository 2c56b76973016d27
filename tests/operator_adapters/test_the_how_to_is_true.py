"""What docs/how-to/adapters.md shows is taken as it stands, and its words are those of statuses."""

import re
from pathlib import Path

import yaml

from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter
from inferplane_api.v1alpha1.conditions import Reason
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.reconcile import adapter_status, service_adapters
from inferplane_operator.render import render_service
from inferplane_operator.render.adapter_need import Present, offered_by
from inferplane_operator.render.names import DEFAULT_CONTROL_PORT

HOW_TO = (Path(__file__).parents[2] / "docs" / "how-to" / "adapters.md").read_text()


def shown() -> tuple[InferenceService, LoRAAdapter]:
    blocks = re.findall(r"```yaml\n(.*?)```", HOW_TO, re.DOTALL)
    service, adapter = (parse_resource(yaml.safe_load(block)) for block in blocks)
    assert isinstance(service, InferenceService)
    assert isinstance(adapter, LoRAAdapter)
    return service, adapter


def test_the_manifests_are_valid_and_fit_each_other() -> None:
    service, adapter = shown()
    rendered = render_service(service, adapters=[adapter])
    annotations = rendered.pools[0].pod_template["metadata"]["annotations"]
    present = Present(rendered.revision, offered_by(annotations))
    second = adapter.model_copy(update={"metadata": adapter.metadata.model_copy(update={"name": "support-fr"})})

    assert render_service(service, adapters=[adapter, second], present=present).revision == rendered.revision


def test_every_reason_that_a_status_can_give_is_explained() -> None:
    explained = set(re.findall(r"^\| `(\w+)` \|", HOW_TO, re.MULTILINE))
    sources = "".join(Path(str(module.__file__)).read_text() for module in (adapter_status, service_adapters))
    given = {Reason[name].value for name in re.findall(r"Reason\.([A-Z_]+)", sources)}

    assert explained == given


def test_the_port_is_the_one_that_agents_listen_on() -> None:
    assert f"port {DEFAULT_CONTROL_PORT}" in HOW_TO
