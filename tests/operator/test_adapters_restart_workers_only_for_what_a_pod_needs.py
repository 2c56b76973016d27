"""A new adapter restarts nothing, unless its weights need a volume, a rank or room that the Pods do not have."""

from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.render import RenderedService, render_service
from inferplane_operator.render.adapter_need import (
    ANNOTATION,
    AdapterNeed,
    Place,
    PlaceKind,
    Present,
    need_of,
    offered_by,
    path_of,
    token_file,
)

FOLDER = Place(PlaceKind.FOLDER, "/srv/adapters")


def manifest(kind: str, name: str, spec: dict[str, Any]) -> Any:
    document = {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return parse_resource(document)


def service(engine: dict[str, Any] | None = None, **spec: Any) -> InferenceService:
    model = spec.pop("model", {"name": "m", "source": {"path": "/models/m"}})
    made = {"model": model, "engine": {"type": "vllm", "device": "cpu", **(engine or {})}, "decode": {}, **spec}
    parsed = manifest("InferenceService", "demo", made)
    assert isinstance(parsed, InferenceService)
    return parsed


def adapter(name: str, source: dict[str, Any] | None = None, **spec: Any) -> LoRAAdapter:
    given = source or {"path": f"/srv/adapters/{name}"}
    parsed = manifest("LoRAAdapter", name, {"service": "demo", "source": given, **spec})
    assert isinstance(parsed, LoRAAdapter)
    return parsed


def present(rendered: RenderedService) -> Present:
    pool = rendered.pools[0]
    return Present(pool.revision, offered_by(pool.pod_template["metadata"]["annotations"]))


def containers(rendered: RenderedService) -> dict[str, dict[str, Any]]:
    spec = rendered.pools[0].pod_template["spec"]
    return {each["name"]: each for each in (*spec["initContainers"], *spec["containers"])}


def volumes(rendered: RenderedService) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in rendered.pools[0].pod_template["spec"]["volumes"]}


def mounts(container: dict[str, Any]) -> dict[str, bool]:
    return {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}


def after(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


ONE = render_service(service(), adapters=[adapter("a")])


@pytest.mark.parametrize(
    "adapters",
    [
        [adapter("b")],
        [adapter("a"), adapter("b", rank=8), adapter("c", pinned=True)],
        [adapter("a", servedName="x", revision="2")],
        [adapter("a", rank=16)],
    ],
    ids=["another", "more", "name and revision", "rank that fits"],
)
def test_which_adapters_there_are_changes_nothing(adapters: list[LoRAAdapter]) -> None:
    assert render_service(service(), adapters=adapters).revision == ONE.revision


@pytest.mark.parametrize(
    "second",
    [
        adapter("b", {"path": "/mnt/other/b"}),
        adapter("b", {"pvc": {"claimName": "weights"}}),
        adapter("b", {"oci": "example.test/b:1"}),
        adapter("b", {"hf": "org/b"}),
        adapter("b", rank=64),
    ],
    ids=["folder", "claim", "image", "hub", "rank"],
)
def test_what_a_pod_does_not_have_changes_the_revision(second: LoRAAdapter) -> None:
    assert render_service(service(), adapters=[adapter("a"), second]).revision != ONE.revision


def test_room_can_be_made_before_there_is_an_adapter() -> None:
    engine = {"lora": {"maxAdapters": 3, "maxRank": 32}}
    room = render_service(service(engine))
    args = containers(room)["engine"]["args"]

    assert after(args, "--max-loras") == "3"
    assert after(args, "--max-lora-rank") == "32"
    assert room.revision != render_service(service()).revision
    assert need_of(service(), []) is None


def test_what_is_there_and_not_needed_is_kept_while_nothing_else_changes() -> None:
    two = render_service(service(), adapters=[adapter("a"), adapter("b", {"path": "/mnt/other/b"}, rank=64)])

    fewer = render_service(service(), adapters=[adapter("a")], present=present(two))
    none = render_service(service(), present=present(two))
    renewed = render_service(service(drainTimeout="10s"), adapters=[adapter("a")], present=present(two))
    more = render_service(
        service(), adapters=[adapter("a"), adapter("c", {"path": "/mnt/third/c"})], present=present(two)
    )

    assert fewer.revision == none.revision == two.revision
    assert fewer.pools[0].pod_template == two.pools[0].pod_template
    assert after(containers(renewed)["engine"]["args"], "--max-lora-rank") == "16"
    assert "/mnt/other" not in mounts(containers(renewed)["engine"])
    assert more.revision not in (two.revision, ONE.revision)


def test_the_need_is_read_back_from_the_template_that_meets_it() -> None:
    need = AdapterNeed(8, 16, (FOLDER,))

    assert present(ONE).offers == need
    assert offered_by({ANNOTATION: "{}"}) is None
    assert offered_by({ANNOTATION: '{"maxAdapters":1,"maxRank":1,"places":[["new","x",""]]}'}) is None
    assert offered_by(None) is None


def test_the_agent_is_told_what_it_may_load_and_listens_for_the_operator_alone() -> None:
    agent = containers(ONE)["agent"]

    assert after(agent["args"], "--listen-control") == "$(INFERPLANE_BIND_HOST):$(INFERPLANE_CONTROL_PORT)"
    assert after(agent["args"], "--max-adapters") == "8"
    assert after(agent["args"], "--adapter-root") == "/srv/adapters"
    assert {"name": "control", "containerPort": 8102, "protocol": "TCP"} in agent["ports"]
    assert "--listen-control" not in containers(render_service(service()))["agent"]["args"]


def test_a_folder_serves_all_adapters_in_it_and_is_read_only() -> None:
    assert volumes(ONE)[FOLDER.volume]["hostPath"] == {"path": "/srv/adapters", "type": "Directory"}
    assert mounts(containers(ONE)["engine"])["/srv/adapters"] is True
    assert path_of(adapter("a").spec.source) == "/srv/adapters/a"


def test_a_claim_is_mounted_whole() -> None:
    one = adapter("a", {"pvc": {"claimName": "weights", "path": "lora/a"}})
    rendered = render_service(service(), adapters=[one, adapter("b", {"pvc": {"claimName": "weights"}})])

    assert mounts(containers(rendered)["engine"])["/mnt/adapters/weights"] is True
    assert path_of(one.spec.source) == "/mnt/adapters/weights/lora/a"
    assert sum("persistentVolumeClaim" in volume for volume in volumes(rendered).values()) == 1


def test_a_folder_that_holds_the_model_is_not_mounted_twice() -> None:
    rendered = render_service(service(), adapters=[adapter("a", {"path": "/models/m/adapter"})])
    paths = [mount["mountPath"] for mount in containers(rendered)["engine"]["volumeMounts"]]

    assert len(paths) == len(set(paths))
    assert after(containers(rendered)["agent"]["args"], "--adapter-root") == "/models/m"


def test_a_hubs_adapter_is_downloaded_by_the_agent_and_its_token_never_reaches_the_engine() -> None:
    mirrored = {"name": "m", "source": {"hf": "org/m"}, "endpoint": "https://mirror.test"}
    given = adapter("a", {"hf": "org/a"}, secretRef="hub-token")
    rendered = render_service(service(model=mirrored), adapters=[given], model_revision="c" * 40)
    agent, engine = containers(rendered)["agent"], containers(rendered)["engine"]

    assert after(agent["args"], "--adapter-cache") == "$(INFERPLANE_MODEL_CACHE)/hub"
    assert after(agent["args"], "--hub-endpoint") == "https://mirror.test"
    assert mounts(agent)["/var/cache/inferplane/models"] is False
    assert mounts(engine)["/var/cache/inferplane/models"] is True
    assert token_file(given) == "/etc/inferplane/adapter-tokens/hub-token/token"
    assert mounts(agent)["/etc/inferplane/adapter-tokens/hub-token"] is True
    assert not any("token" in path for path in mounts(engine))
    assert "fetch-adapter" not in " ".join(containers(rendered))
