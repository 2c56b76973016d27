"""Answers of an API server as exceptions; settings with the flag and the fix; the health page; kopf's log lines."""

import logging
from pathlib import Path

import orjson
import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User

from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_operator.cluster import errors
from inferplane_operator.cluster.event_recording import shortened
from inferplane_operator.cluster.health import Health
from inferplane_operator.cluster.kinds import DECODE_POOL, POD
from inferplane_operator.cluster.transport import Answer, Call, raise_for
from inferplane_operator.handlers.kopf_logging import KopfFilter
from inferplane_operator.handlers.registry import connection_info
from inferplane_operator.settings import OperatorSettings, check, render_options
from inferplane_runtime.http.api import Request
from inferplane_runtime.http.testing import RecordedExchange
from inferplane_runtime.settings import SettingsError, load

CALL = Call("PATCH", "/apis/x/v1/y")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, errors.InvalidError),
        (401, errors.ForbiddenError),
        (403, errors.ForbiddenError),
        (404, errors.AbsentError),
        (409, errors.ConflictError),
        (418, errors.RefusedError),
        (422, errors.InvalidError),
        (429, errors.ThrottledError),
        (500, errors.UnreachableError),
        (503, errors.UnreachableError),
    ],
)
def test_a_status_becomes_the_error_that_callers_tell_apart(status: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"/apis/x/v1/y: {status}: because") as caught:
        raise_for(CALL, Answer(status, b'{"message": "because"}', retry_after_s=7.0))

    assert type(caught.value) is error
    if isinstance(caught.value, errors.ThrottledError):
        assert caught.value.retry_after_s == 7.0


def test_a_namespace_that_is_being_deleted_is_no_matter_of_rights() -> None:
    body = {"message": "m", "reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}
    with pytest.raises(errors.TerminatingError):
        raise_for(CALL, Answer(403, orjson.dumps(body)))


@pytest.mark.parametrize("body", [b"", b"<html>no", b"[]", b'{"details": 3}'])
def test_an_answer_that_is_no_status_object_is_an_error_all_the_same(body: bytes) -> None:
    with pytest.raises(errors.AbsentError):
        raise_for(CALL, Answer(404, body))


def test_kinds_are_addressed_as_the_api_server_wants_them() -> None:
    assert POD.path("ns", "x") == "/api/v1/namespaces/ns/pods/x"
    assert POD.path("") == "/api/v1/pods"
    assert DECODE_POOL.path("ns", "p", "scale") == "/apis/inferplane.dev/v1alpha1/namespaces/ns/decodepools/p/scale"


def settings(*flags: str, **environ: str) -> OperatorSettings:
    return load(OperatorSettings, flags, environ, program="inferplane-operator")


def test_images_of_flags_replace_those_of_the_release() -> None:
    options = render_options(settings("--agent-image", "a:1", "--engine-image", "vllm/cuda=mirror/v:2"))

    assert options.agent_image == "a:1"
    assert options.engine_images[EngineType.VLLM, Device.CUDA] == "mirror/v:2"
    assert options.engine_images[EngineType.VLLM, Device.CPU]


@pytest.mark.parametrize("text", ["x", "vllm=y", "vllm/cuda", "vllm/cuda=", "other/cuda=x", "vllm/other=x"])
def test_a_wrong_engine_image_names_its_form_and_the_choices(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--engine-image: .*TYPE/DEVICE=IMAGE; types: .*vllm"):
        render_options(settings("--engine-image", text))


def test_a_leader_that_would_stop_too_late_is_refused() -> None:
    with pytest.raises(SettingsError, match="--renew-deadline"):
        check(settings("--lease-duration", "10s", "--renew-deadline", "10s"))
    check(settings())


def test_a_file_of_accelerators_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--accelerator-classes: .*absent"):
        render_options(settings("--accelerator-classes", str(tmp_path / "absent")))


def test_the_environment_fills_what_no_flag_says() -> None:
    assert settings(INFERPLANE_NAMESPACES="a,b").namespaces == ("a", "b")


def answer(health: Health, path: bytes) -> tuple[int | None, bytes]:
    exchange = RecordedExchange()
    health.handle(Request(b"GET", path), exchange)
    return exchange.status, exchange.body


def test_a_process_is_ready_when_its_store_is_warm_and_alive_while_watches_deliver() -> None:
    health = Health()
    assert answer(health, b"/health")[0] == 200
    assert answer(health, b"/ready") == (503, b'{"reason":"waiting for the cluster"}')

    health.warm = health.leading = True
    assert answer(health, b"/ready") == (200, b'{"leading":true}')
    health.stuck = "Pod"
    assert answer(health, b"/health")[0] == 503
    assert answer(health, b"/other")[0] == 404


def test_text_is_cut_between_characters() -> None:
    assert shortened("ä" * 10, 20) == "ä" * 10
    assert shortened("ä" * 11, 20) == "ä" * 8 + "..."


@pytest.mark.parametrize(
    ("name", "level", "message", "shown"),
    [
        ("kopf.reactor", logging.INFO, "started", None),
        ("kopf._cogs.clients.api", logging.ERROR, "failed; will retry", logging.WARNING),
        ("kopf._cogs.clients.api", logging.ERROR, "failed; escalating", logging.ERROR),
        ("inferplane.operator", logging.INFO, "leading", logging.INFO),
    ],
)
def test_kopfs_routine_is_a_detail_and_its_retries_are_warnings(
    name: str, level: int, message: str, shown: int | None
) -> None:
    record = logging.LogRecord(name, level, "", 0, message, None, None)
    passed = KopfFilter(logging.INFO).filter(record)

    assert (record.levelno if passed else None) == shown


def test_kopf_logs_in_as_the_other_client_does_with_the_token_of_today(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    config = KubeConfig.from_one(
        cluster=Cluster(server="https://s", certificate_auth="/ca"), user=User(token_file=str(token))
    ).get()
    assert config is not None
    token.write_text("second\n")
    info = connection_info(config)

    assert (info.server, info.ca_path, info.token) == ("https://s", "/ca", "second")
    assert info.expiration is not None
