"""A hub's files come by a container of their own; the engine gets a folder and no secret."""

import json
from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.render import RenderedPool, RenderOptions, local_options, render_service

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FOLDER = "$(INFERPLANE_MODEL_CACHE)/hub/models--org--m"


def resource(kind: str, name: str, spec: dict[str, Any]) -> Any:
    return parse_resource(
        {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    )


def service(engine: dict[str, Any] | None = None, **model: Any) -> InferenceService:
    given = {"name": "m", "source": {"hf": "org/m"}, **model}
    parsed = resource("InferenceService", "demo", {"model": given, "engine": {"type": "vllm", **(engine or {})}})
    assert isinstance(parsed, InferenceService)
    return parsed


def rendered(given: InferenceService, *, commit: str = COMMIT, options: RenderOptions | None = None) -> RenderedPool:
    return render_service(given, model_revision=commit, options=options).pools[0]


def containers(pool: RenderedPool) -> dict[str, dict[str, Any]]:
    body: dict[str, Any] = pool.pod_template["spec"]
    return {container["name"]: container for container in [*body["initContainers"], *body["containers"]]}


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def volume(pool: RenderedPool, name: str) -> dict[str, Any]:
    (found,) = (volume for volume in pool.pod_template["spec"]["volumes"] if volume["name"] == name)
    return dict(found)


def mount(container: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (mount for mount in container["volumeMounts"] if mount["name"] == name)
    return dict(found)


def after(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


def test_only_the_download_is_given_the_token() -> None:
    pool = rendered(service(secretRef="hub"))
    token = {"secretKeyRef": {"name": "hub", "key": "token"}}

    assert variables(containers(pool)["fetch-model"])["HF_TOKEN"] == token
    assert json.dumps(pool.pod_template).count('"hub", "key"') == 1
    assert "HF_TOKEN" not in variables(containers(pool)["engine"])


def test_the_engine_gets_the_folder_of_the_commit_and_asks_no_hub() -> None:
    found = containers(rendered(service(revision="v1")))
    engine, agent = found["engine"], found["agent"]

    assert engine["args"][:3] == ["vllm", "serve", f"{FOLDER}/snapshots/{COMMIT}"]
    assert "--revision" not in engine["args"]
    assert variables(engine)["HF_HUB_OFFLINE"] == "1"
    assert after(agent["args"], "--model-path") == f"{FOLDER}/snapshots/{COMMIT}"
    assert after(agent["args"], "--model-revision") == COMMIT
    assert after(found["fetch-model"]["args"], "--revision") == COMMIT


def test_a_revision_that_is_not_resolved_is_looked_up_in_the_cache() -> None:
    found = containers(rendered(service(revision="v1"), commit=""))

    assert found["engine"]["args"][:3] == ["vllm", "serve", "org/m"]
    assert after(found["engine"]["args"], "--revision") == "v1"
    assert variables(found["engine"])["HF_HUB_OFFLINE"] == "1"
    assert after(found["agent"]["args"], "--model-path") == FOLDER


def test_only_the_download_writes_to_the_cache() -> None:
    found = containers(rendered(service()))

    assert "readOnly" not in mount(found["fetch-model"], "model-cache")
    assert mount(found["engine"], "model-cache")["readOnly"] is True
    assert mount(found["agent"], "model-cache")["readOnly"] is True


def test_a_models_own_code_has_a_place_that_can_be_written() -> None:
    pool = rendered(service(trustRemoteCode=True))

    assert variables(containers(pool)["engine"])["HF_MODULES_CACHE"] == "$(INFERPLANE_RUN_DIR)/hf-modules"


def test_the_agent_is_there_before_the_download() -> None:
    names = [container["name"] for container in rendered(service()).pod_template["spec"]["initContainers"]]

    assert names == ["agent", "fetch-model"]


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        (None, {"emptyDir": {}}),
        ({"claimName": "weights"}, {"persistentVolumeClaim": {"claimName": "weights"}}),
        ({"hostPath": "/srv/w"}, {"hostPath": {"path": "/srv/w", "type": "DirectoryOrCreate"}}),
    ],
    ids=["own", "claim", "node"],
)
def test_the_cache_is_where_the_service_says(cache: dict[str, str] | None, expected: dict[str, Any]) -> None:
    pool = rendered(service(**({"cache": cache} if cache else {})))

    assert volume(pool, "model-cache") == {"name": "model-cache", **expected}


def test_a_mirror_is_asked_with_its_certificates() -> None:
    pool = rendered(service(endpoint="https://mirror.example", caBundle={"configMapName": "ca", "key": "root.pem"}))
    fetch = containers(pool)["fetch-model"]

    assert after(fetch["args"], "--endpoint") == "https://mirror.example"
    assert after(fetch["args"], "--ca-bundle") == f"{mount(fetch, 'hub-ca')['mountPath']}/ca.crt"
    items = [{"key": "root.pem", "path": "ca.crt"}]
    assert volume(pool, "hub-ca")["configMap"] == {"name": "ca", "items": items}
    secret = rendered(service(caBundle={"secretName": "ca"}))
    assert volume(secret, "hub-ca")["secret"]["secretName"] == "ca"


def test_the_operators_mirror_is_asked_where_a_service_names_none() -> None:
    options = RenderOptions(hub_endpoint="http://mirror")

    shared = containers(rendered(service(), options=options))["fetch-model"]
    own = containers(rendered(service(endpoint="http://own"), options=options))["fetch-model"]

    assert after(shared["args"], "--endpoint") == "http://mirror"
    assert after(own["args"], "--endpoint") == "http://own"


def test_a_machine_downloads_nothing_beforehand() -> None:
    options = local_options(engine_python="/engine/python")
    found = containers(rendered(service(revision="v1", secretRef="hub"), options=options))

    assert set(found) == {"agent", "engine"}
    assert after(found["engine"]["args"], "--model") == "org/m"
    assert after(found["engine"]["args"], "--revision") == COMMIT
    assert "HF_HUB_OFFLINE" not in variables(found["engine"])
    assert "HF_TOKEN" not in variables(found["engine"])
    assert variables(found["engine"])["HF_HOME"] == "$(INFERPLANE_MODEL_CACHE)"


def test_weights_that_guess_are_downloaded_as_well() -> None:
    guesses = {"method": "eagle3", "source": {"hf": "org/e"}, "revision": COMMIT[::-1]}
    found = containers(rendered(service({"speculation": guesses})))

    config = json.loads(after(found["engine"]["args"], "--speculative-config"))
    assert config["model"] == f"$(INFERPLANE_MODEL_CACHE)/hub/models--org--e/snapshots/{COMMIT[::-1]}"
    assert after(found["fetch-draft"]["args"], "--repository") == "org/e"
