"""Design note 0001 names every flag, setting and path that two processes agree on."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from inferplane_router.config import ExtProc, LimitSettings, Listen, RouterConfig
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.agent.model_files import OPTIONS_FILE

(NOTE,) = (Path(__file__).parents[2] / "docs/design").glob("0001-*.md")
TEXT = NOTE.read_text("utf-8")


def names(config: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]


@pytest.mark.parametrize("name", names(AgentConfig))
def test_every_flag_of_the_agent_is_there(name: str) -> None:
    assert f"--{name.replace('_', '-')}" in TEXT


@pytest.mark.parametrize("name", sorted({*names(RouterConfig), *names(Listen), *names(LimitSettings), *names(ExtProc)}))
def test_every_key_of_the_routers_configuration_is_there(name: str) -> None:
    assert f"{to_camel(name)}" in TEXT


def test_the_agents_own_file_is_there() -> None:
    assert OPTIONS_FILE in TEXT
