"""Tools: how they are defined, called and answered."""

from pydantic_core import from_json

from turnstone.domain.content import Content
from turnstone.domain.model import Frozen, JsonObject, JsonValue, Many, NullMeansDefault, is_too_deep
from turnstone.domain.numbers import Flag


class ToolParameter(NullMeansDefault):
    name: str
    parameter_type: str
    description: str
    required: Flag = True
    default: JsonValue = None


class ToolDef(Frozen):
    name: str
    description: str | None = None
    parameters: Many[ToolParameter] | None = None
    metadata: JsonObject | None = None


class ToolCall(Frozen):
    """A call the model asks for. `arguments` is a string where the model's JSON could not be parsed."""

    call_id: str
    tool_name: str
    arguments: str | JsonObject
    arguments_json: str | None = None


class ToolResponse(Frozen):
    call_id: str
    tool_name: str
    content: Content
    metadata: JsonObject | None = None


def call_from_json(call_id: str, tool_name: str, arguments_json: str) -> ToolCall:
    """Return the call a model wrote; arguments that are no JSON object stay the string they were."""
    try:
        # stricter than the json module: no NaN, no half of a surrogate pair, which could not be stored
        arguments = from_json(arguments_json or "{}", allow_inf_nan=False)
    except (ValueError, TypeError):
        arguments = arguments_json
    if not isinstance(arguments, dict) or is_too_deep(arguments):
        arguments = arguments_json
    return ToolCall(call_id=call_id, tool_name=tool_name, arguments=arguments, arguments_json=arguments_json or "{}")
