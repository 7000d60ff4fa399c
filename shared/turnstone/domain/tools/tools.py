"""Tools: definitions, calls and answers."""

import re
from hashlib import sha256
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import from_json

from turnstone.domain.values.content import Content
from turnstone.domain.values.frozen import (
    Frozen,
    JsonObject,
    JsonValue,
    Many,
    NullMeansDefault,
    infinity_path,
    is_too_deep,
)
from turnstone.domain.values.numbers import Flag
from turnstone.domain.values.object_schemas import ObjectSchema, names_in


class ToolParameter(NullMeansDefault):
    name: str
    parameter_type: str
    description: str
    required: Flag = True
    default: JsonValue = None


def _refuse_group(value: Any) -> None:
    """Raise ValueError for a group, which a client tool must not have."""
    if value is not None:
        raise ValueError("a client tool runs on the client and is in no toolgroup; name groups in toolgroups")


def _is_none(value: Any) -> bool:
    return value is None


class ToolDef(Frozen):
    """A tool that a model may call, described by an `input_schema` or by `parameters`.

    Where both are sent, the model receives the schema, which is more precise; they must name the same parameters,
    because one named only by `parameters` would be lost. No parameters at all, `[]`, contradict no schema.
    `output_schema` and `metadata` are for readers of the agent, not for models. Schemas that were not sent are omitted
    from answers, as clients of 0.2 expect.

    Source: `llama-stack-client` 0.2 sends `parameters`, 0.3 `input_schema`; its other fields are as in MCP.
    """

    name: str
    description: str | None = None
    parameters: Many[ToolParameter] | None = None
    metadata: JsonObject | None = None
    input_schema: ObjectSchema | None = Field(default=None, exclude_if=_is_none)
    output_schema: JsonObject | None = Field(default=None, exclude_if=_is_none)
    toolgroup_id: Annotated[None, BeforeValidator(_refuse_group), Field(exclude=True, repr=False)] = None

    @model_validator(mode="after")
    def agree_on_names(self) -> Self:
        if self.input_schema is None or not self.parameters:
            return self
        in_one_only = {parameter.name for parameter in self.parameters} ^ names_in(self.input_schema)
        if in_one_only:
            name = min(in_one_only)
            raise ValueError(f"only one of parameters and input_schema names {name!r}; send one, or the same in both")
        return self


class ToolCall(Frozen):
    """A call requested by the model. `arguments` is a string where the model's JSON could not be parsed."""

    call_id: str
    tool_name: str
    arguments: str | JsonObject
    arguments_json: str | None = None


class ToolResponse(Frozen):
    call_id: str
    tool_name: str
    content: Content
    metadata: JsonObject | None = None


# Source: OpenAI's chat completions refuse ids of more than 40 characters, and other names of functions
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)
IN_TEXT = ""  # as the JSON of arguments, which only the client has


def call_in_text(response: ToolResponse) -> ToolCall:
    """Return the call that a client parsed from a model's text, as far as its answer shows it."""
    # the id is the client's text, which no shield judges
    call_id = f"call_{sha256(response.call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    name = NOT_IN_NAMES.sub("_", response.tool_name)[:64] or "tool"
    return ToolCall(call_id=call_id, tool_name=name, arguments={}, arguments_json=IN_TEXT)


def call_from_json(call_id: str, tool_name: str, arguments_json: str) -> ToolCall:
    """Return the call a model wrote; arguments other than a JSON object stay a string."""
    try:
        # stricter than the json module: no NaN, no lone surrogate, which could not be stored
        arguments = from_json(arguments_json or "{}", allow_inf_nan=False)
    except (ValueError, TypeError):
        arguments = arguments_json
    if not isinstance(arguments, dict) or is_too_deep(arguments) or infinity_path(arguments) is not None:
        arguments = arguments_json
    return ToolCall(call_id=call_id, tool_name=tool_name, arguments=arguments, arguments_json=arguments_json or "{}")
