"""Values, their schema, their reference and what the programs take are one thing told four times."""

import dataclasses
import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic.alias_generators import to_camel

from chart_values import CHART, PAGE, Schema, page, read_defaults, read_schema, resolved
from chart_values import values as all_values
from inferplane_operator.crds import CrdSettings
from inferplane_operator.settings import OperatorSettings
from inferplane_planner.config import Flags as PlannerFlags
from inferplane_router.config import Flags, LimitSettings, RouterConfig

ROOT = Path(__file__).parents[2]
SCHEMA = read_schema()


def objects(schema: Schema, path: str = "") -> list[tuple[str, Schema]]:
    """Return every object of the schema that has named properties."""
    known = resolved(schema, SCHEMA)
    inner = [
        found
        for name, each in known.get("properties", {}).items()
        for found in objects(each, f"{path}.{name}".lstrip("."))
    ]
    return [(path, known), *inner] if "properties" in known else inner


def default_at(path: str) -> Any:
    found: Any = read_defaults()
    for part in path.split(".") if path else []:
        found = found[part]
    return found


def test_chart_and_project_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))

    assert [chart["version"], chart["appVersion"], version("inferplane")] == [project] * 3


def test_every_value_has_a_default_and_no_default_is_unknown() -> None:
    optional = {"", "gateway.limits", "operator.resources", "gateway.resources", "planner.resources"}
    closed = [(path, schema) for path, schema in objects(SCHEMA) if path not in optional]

    assert {path: set(default_at(path)) ^ set(schema["properties"]) for path, schema in closed} == {
        path: set[str]() for path, _ in closed
    }
    assert set(SCHEMA["properties"]) - set(read_defaults()) == {"global"}


def test_a_misspelt_value_is_refused_everywhere() -> None:
    assert [path for path, schema in objects(SCHEMA) if schema.get("additionalProperties") is not False] == []


def test_every_value_says_what_it_means() -> None:
    unsaid = [value.path for value in all_values(SCHEMA, {}, SCHEMA) if not value.schema.get("description")]

    assert unsaid == []


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make generate`"


def test_the_gateways_limits_are_the_routers() -> None:
    limits = SCHEMA["properties"]["gateway"]["properties"]["limits"]["properties"]

    assert set(limits) == {to_camel(field.name) for field in dataclasses.fields(LimitSettings)}


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("operator-deployment.yaml", OperatorSettings),
        ("crds.yaml", CrdSettings),
        ("gateway-deployment.yaml", Flags),
        ("planner-deployment.yaml", PlannerFlags),
    ],
)
def test_flags_of_the_chart_are_the_programs_flags(file: str, settings: type[Any]) -> None:
    given = set(re.findall(r"--([a-z-]+)=", (CHART / "templates" / file).read_text("utf-8")))

    assert given
    assert given <= {field.name.replace("_", "-") for field in dataclasses.fields(settings)}


def test_keys_of_the_routers_configuration_exist() -> None:
    text = (CHART / "templates" / "_gateway.tpl").read_text("utf-8")
    given = set(re.findall(r"^([a-zA-Z]+):", text.partition("{{/* Where clients")[0], re.MULTILINE))

    assert given <= {to_camel(field.name) for field in dataclasses.fields(RouterConfig)}


def test_every_example_of_the_schema_is_json_that_yaml_reads_alike() -> None:
    text = json.dumps(SCHEMA)

    assert yaml.safe_load(text) == SCHEMA
