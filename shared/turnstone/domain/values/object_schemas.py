"""JSON schemas of objects, the form of a call's arguments."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from turnstone.domain.values.frozen import JsonObject


def refuse_no_object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema. Raises ValueError unless it describes an object, the form of a call's arguments."""
    if schema.get("type") != "object":
        raise ValueError('a tool takes an object: input_schema must be a JSON schema with "type": "object"')
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(value, dict | bool) for value in properties.values()):
        raise ValueError("properties must be an object of JSON schemas")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ValueError("required must be a list of names")
    return schema


def names_in(schema: Mapping[str, Any]) -> set[str]:
    """Return the names of the schema's own properties."""
    return set(schema.get("properties", ()))


ObjectSchema = Annotated[
    JsonObject,
    AfterValidator(refuse_no_object),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "type": {"const": "object"},
                "properties": {"type": "object", "additionalProperties": {"type": ["object", "boolean"]}},
                "required": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["type"],
            "additionalProperties": True,
        }
    ),
]
