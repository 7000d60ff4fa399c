"""What a tool takes, as a JSON schema, however its definition says it."""

from typing import Any

from turnstone.domain.tools import ToolDef, ToolParameter

SCHEMA_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "set": "array",
    "dict": "object",
    **{name: name for name in ("string", "integer", "number", "boolean", "array", "object")},
}


def input_schema_of(tool: ToolDef) -> dict[str, Any]:
    """Return the tool's own schema as it is, else one made of its parameters."""
    if tool.input_schema is not None:
        return tool.input_schema
    parameters = tool.parameters or ()
    return {
        "type": "object",
        "properties": {parameter.name: parameter_to_schema(parameter) for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
    }


def parameter_to_schema(parameter: ToolParameter) -> dict[str, Any]:
    """Return the JSON schema of a parameter whose type has a Python or a JSON name; an unknown type is a string."""
    base_type = parameter.parameter_type.partition("[")[0].strip().lower()
    schema: dict[str, Any] = {"type": SCHEMA_TYPES.get(base_type, "string"), "description": parameter.description}
    if schema["type"] == "array":
        schema["items"] = {}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema
