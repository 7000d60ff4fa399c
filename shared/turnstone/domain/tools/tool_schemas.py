"""JSON schema of a tool's parameters, from either form of its definition."""

from typing import Any

from turnstone.domain.tools.tools import ToolDef, ToolParameter

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
    """Return the tool's own schema unchanged, else one created from its parameters."""
    if tool.input_schema is not None:
        return tool.input_schema
    parameters = tool.parameters or ()
    return {
        "type": "object",
        "properties": {parameter.name: parameter_to_schema(parameter) for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
    }


def parameters_of(tool: ToolDef) -> tuple[ToolParameter, ...]:
    """Return the tool's parameters, from its schema if it has one, in the form of clients of 0.2."""
    if tool.parameters is not None or tool.input_schema is None:
        return tool.parameters or ()
    required = tool.input_schema.get("required", ())
    return tuple(
        _parameter(name, schema if isinstance(schema, dict) else {}, is_required=name in required)
        for name, schema in tool.input_schema.get("properties", {}).items()
    )


def _parameter(name: str, schema: dict[str, Any], *, is_required: bool) -> ToolParameter:
    kind, text = schema.get("type", "string"), schema.get("description", "")
    return ToolParameter(
        name=name,
        parameter_type=kind if isinstance(kind, str) else "string",
        description=text if isinstance(text, str) else "",
        required=is_required,
        default=schema.get("default"),
    )


def parameter_to_schema(parameter: ToolParameter) -> dict[str, Any]:
    """Return the JSON schema of a parameter whose type has a Python or a JSON name; an unrecognised one is a string."""
    base_type = parameter.parameter_type.partition("[")[0].strip().lower()
    schema: dict[str, Any] = {"type": SCHEMA_TYPES.get(base_type, "string"), "description": parameter.description}
    if schema["type"] == "array":
        schema["items"] = {}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema
