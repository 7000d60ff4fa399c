"""Convert a request to the arguments of Bedrock's Converse and ConverseStream. Pure, no I/O.

Source: the service description of `bedrock-runtime` in botocore, and the Amazon Bedrock user guide.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from turnstone.adapters.models.bedrock.bedrock_messages import Conversation
from turnstone.adapters.models.bedrock.bedrock_names import Aliases
from turnstone.adapters.models.openai.openai_wire import text_with_placeholders
from turnstone.domain.agents.agents import Greedy, JsonSchemaFormat, ResponseFormat, SamplingParams, TopK, TopP
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import CompletionMessage, SystemMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolDef

CACHE_POINT = {"cachePoint": {"type": "default"}}
UNAVAILABLE = "Not available now. Do not call it."


@dataclass(frozen=True, slots=True)
class BedrockOptions:
    """The operator's settings for Bedrock.

    Attributes:
        models: the ids to list; Bedrock's own list would need another permission, client and call.
        is_streaming: False for models that support Converse but not ConverseStream.
        has_cache_points: mark the ends of the tools and of the system message as cacheable prefixes.
        guardrail_id: the id or ARN of a guardrail for every request and answer, None for none.
        guardrail_version: its number, or DRAFT.
    """

    models: tuple[str, ...] = ()
    is_streaming: bool = True
    has_cache_points: bool = False
    guardrail_id: str | None = None
    guardrail_version: str = "DRAFT"


@dataclass(frozen=True, slots=True)
class ConverseRequest:
    """A request to Converse.

    Attributes:
        arguments: of the client's `converse` and `converse_stream`.
        tool_names: the aliases of the tools' names.
        may_call: whether the answer may call tools.
    """

    arguments: dict[str, Any]
    tool_names: Aliases
    may_call: bool


def converse_request(request: InferenceRequest, options: BedrockOptions) -> ConverseRequest:
    """Return the Converse request.

    Raises:
        InvalidRequest: Converse does not support a field of the request.
    """
    tool_names = Aliases()
    may_call = bool(request.tools) and request.tool_choice != "none"
    cache_point = [CACHE_POINT] if options.has_cache_points else []
    arguments: dict[str, Any] = {"modelId": request.model}
    system = [block for message in request.messages if isinstance(message, SystemMessage) for block in _texts(message)]
    if system:
        arguments["system"] = [*system, *cache_point]
    tools = list(_tools(request, tool_names))
    if tools:
        arguments["toolConfig"] = {"tools": [*tools, *cache_point]}
        if may_call and request.tool_choice != "auto":
            arguments["toolConfig"]["toolChoice"] = _tool_choice(request.tool_choice, tool_names)
    arguments["messages"] = Conversation(tool_names).converted(request.messages)
    arguments.update(_sampling(request.sampling or SamplingParams(), request.model))
    if request.response_format is not None:
        arguments["outputConfig"] = {"textFormat": _text_format(request.response_format)}
    if options.guardrail_id is not None:
        arguments["guardrailConfig"] = {
            "guardrailIdentifier": options.guardrail_id,
            "guardrailVersion": options.guardrail_version,
        }
    return ConverseRequest(arguments, tool_names, may_call)


def _texts(message: SystemMessage) -> Iterator[dict[str, Any]]:
    text = text_with_placeholders(message.content)
    if text.strip():
        yield {"text": text}


# ---- tools


def _tools(request: InferenceRequest, tool_names: Aliases) -> Iterator[dict[str, Any]]:
    """Yield the tools to declare.

    Converse has no choice `none`, and refuses a history of calls without tools. So where calls are not permitted,
    tools are declared only if the history has calls, at least the tools named there; a call is then dropped.
    """
    called = list(_called_in(request))
    if called or request.tool_choice != "none":
        yield from (_tool(tool, tool_names) for tool in request.tools)
    if called and not request.tools:
        yield from (_tool(ToolDef(name=name, description=UNAVAILABLE), tool_names) for name in dict.fromkeys(called))


def _called_in(request: InferenceRequest) -> Iterator[str]:
    """Yield the names of the tools that the history calls."""
    for message in request.messages:
        if isinstance(message, CompletionMessage):
            yield from (call.tool_name for call in message.tool_calls)


def _tool(tool: ToolDef, tool_names: Aliases) -> dict[str, Any]:
    specification: dict[str, Any] = {
        "name": tool_names.alias_of(tool.name),
        "inputSchema": {"json": input_schema_of(tool)},
    }
    if tool.description:
        specification["description"] = tool.description
    return {"toolSpec": specification}


def _tool_choice(tool_choice: str, tool_names: Aliases) -> dict[str, Any]:
    return {"any": {}} if tool_choice == "required" else {"tool": {"name": tool_names.alias_of(tool_choice)}}


# ---- sampling


def _sampling(sampling: SamplingParams, model: str) -> dict[str, Any]:
    """Return the values that differ from the model's own defaults."""
    if sampling.repetition_penalty != 1.0:
        raise InvalidRequest(
            "Bedrock's Converse takes no repetition_penalty; leave it out, or 1",
            ("sampling_params", "repetition_penalty"),
        )
    config: dict[str, Any] = {}
    more: dict[str, Any] = {}
    match sampling.strategy:
        case Greedy():
            config["temperature"] = 0.0
        case TopP(temperature=temperature, top_p=top_p):
            config = {name: v for name, v in (("temperature", temperature), ("topP", top_p)) if v is not None}
        case TopK(top_k=top_k):
            more = _top_k(top_k, model)
        case _:
            assert_never(sampling.strategy)
    if sampling.max_tokens > 0:
        config["maxTokens"] = sampling.max_tokens
    if sampling.stop:
        config["stopSequences"] = _stop_sequences(sampling.stop)
    fields = {"inferenceConfig": config, "additionalModelRequestFields": more}
    return {name: value for name, value in fields.items() if value}


def _top_k(top_k: int, model: str) -> dict[str, Any]:
    """Return the field that the model's maker uses for `top_k`, which Converse lacks.

    Source: the pages on inference parameters of Anthropic, Mistral, Cohere and Amazon Nova in the Bedrock user guide.
    """
    if "anthropic." in model or "mistral." in model:
        return {"top_k": top_k}
    if "cohere." in model:
        return {"k": top_k}
    if "amazon.nova" in model:
        return {"inferenceConfig": {"topK": top_k}}
    raise InvalidRequest(
        f"how model {model!r} of Bedrock takes top_k is unknown to this server; use the strategy top_p or greedy",
        ("sampling_params", "strategy", "top_k"),
    )


def _stop_sequences(stop: tuple[str, ...]) -> list[str]:
    if "" in stop:
        raise InvalidRequest("Bedrock takes no empty stop sequence; leave it out", ("sampling_params", "stop"))
    return list(stop)


# ---- the answer's format


def _text_format(response_format: ResponseFormat) -> dict[str, Any]:
    if not isinstance(response_format, JsonSchemaFormat):
        raise InvalidRequest(
            "Bedrock takes no grammar as response_format; use json_schema", ("response_format", "type")
        )
    schema = closed_objects(response_format.json_schema)
    name = Aliases().alias_of(str(response_format.json_schema.get("title") or "response"))
    return {"type": "json_schema", "structure": {"jsonSchema": {"schema": json.dumps(schema), "name": name}}}


def closed_objects(schema: Any) -> Any:
    """Return the schema with `additionalProperties: false` wherever it lists properties and leaves others unspecified.

    Bedrock requires this of every schema. A value that fits the result fits the schema. Parts of an `allOf`, each of
    which sees the others' properties, and of a `oneOf` stay unchanged.
    """
    if not isinstance(schema, dict):
        return schema
    closed = dict(schema)
    for keyword in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(keyword), dict):
            closed[keyword] = {name: closed_objects(inner) for name, inner in schema[keyword].items()}
    for keyword in ("anyOf", "prefixItems"):
        if isinstance(schema.get(keyword), list):
            closed[keyword] = [closed_objects(inner) for inner in schema[keyword]]
    if "items" in schema:
        closed["items"] = closed_objects(schema["items"])
    if "properties" in schema and "allOf" not in schema:
        closed.setdefault("additionalProperties", False)
    return closed
