"""Custom resource definitions and their reference, made from the resource types; `python -m inferplane_api.schema`."""

from inferplane_api.schema.definitions import custom_resource_definition
from inferplane_api.schema.reference import reference
from inferplane_api.schema.rules import Rule
from inferplane_api.schema.structural import structural_schema

__all__ = ["Rule", "custom_resource_definition", "reference", "structural_schema"]
