"""Convert a request to the body of an OpenAI chat completion. Pure, no I/O.

Source: the OpenAI API reference; `top_k` and `repetition_penalty` are extensions of vLLM, llama.cpp and Ollama.
"""

import base64
import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Literal, assert_never

from pydantic_core import to_json

from turnstone.domain.agents.agents import GrammarFormat, Greedy, JsonSchemaFormat, SamplingParams, TopK, TopP
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    UserMessage,
)
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolCall, ToolDef
from turnstone.domain.values.content import Content, Image, TextItem, items_of, text_of
from turnstone.domain.values.image_files import find_image_kind

GrammarServer = Literal["vllm", "llama.cpp"]
IMAGE_PLACEHOLDER = "[image]"


def written(body: Mapping[str, Any]) -> bytes:
    """Return the body as JSON; for a history of 100 KB in a fifth of the standard library's time (measured)."""
    try:
        return to_json(body)
    except ValueError:  # a lone surrogate, or very deep
        return json.dumps(body).encode()


def request_body(request: InferenceRequest, grammar_server: GrammarServer | None = None) -> dict[str, Any]:
    """Return the body of a streamed completion.

    Args:
        grammar_server: the server whose field carries a grammar; the OpenAI API itself has none.

    Raises:
        ModelFailed: the response format is a grammar, but no grammar server is configured.
    """
    body = {
        "model": request.model,
        "messages": messages_to_wire(request.messages, request.message_extras),
        "stream": True,
        "stream_options": {"include_usage": True},
        **sampling_to_wire(request.sampling or SamplingParams()),
    }
    if request.tools:
        body["tools"] = [tool_to_wire(tool, request.tool_extras.get(tool.name, {})) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = tool_choice_to_wire(request.tool_choice)
    match request.response_format:
        case JsonSchemaFormat() as schema:
            body["response_format"] = json_schema_to_wire(schema)
        case GrammarFormat() as grammar:
            body |= grammar_to_wire(grammar, grammar_server)
        case None:
            pass
        case _:
            assert_never(request.response_format)
    body |= request.extras
    if "max_completion_tokens" in body:
        body.pop("max_tokens", None)  # the same limit under its older name, which some models refuse
    return body


def sampling_to_wire(sampling: SamplingParams) -> dict[str, Any]:
    """Return the values that differ from the model's own defaults. `top_k` and `repetition_penalty` are extensions."""
    fields: dict[str, Any] = {}
    match sampling.strategy:
        case Greedy():
            fields["temperature"] = 0
        case TopP(temperature=temperature, top_p=top_p):
            fields = {name: v for name, v in (("temperature", temperature), ("top_p", top_p)) if v is not None}
        case TopK(top_k=top_k):
            fields["top_k"] = top_k
        case _:
            assert_never(sampling.strategy)
    if sampling.repetition_penalty != 1.0:
        fields["repetition_penalty"] = sampling.repetition_penalty
    if sampling.max_tokens > 0:
        fields["max_tokens"] = sampling.max_tokens
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    return fields


def tool_to_wire(tool: ToolDef, extras: Mapping[str, Any]) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": input_schema_of(tool)}
    if tool.description:
        function["description"] = tool.description
    return {**extras, "type": "function", "function": {**extras.get("function", {}), **function}}


def tool_choice_to_wire(tool_choice: str) -> str | dict[str, Any]:
    if tool_choice in ("auto", "required", "none"):
        return tool_choice
    return {"type": "function", "function": {"name": tool_choice}}


def grammar_to_wire(response_format: GrammarFormat, server: GrammarServer | None) -> dict[str, Any]:
    """Return the server's own fields for a grammar.

    Source: vLLM from 0.12 on reads `structured_outputs` only, before 0.11 only `guided_grammar`, and either ignores the
    other silently; llama.cpp's server reads `grammar`, in GBNF.
    """
    grammar = response_format.bnf.get("grammar")
    match server:
        case "vllm":
            return {"structured_outputs": {"grammar": grammar}, "guided_grammar": grammar}
        case "llama.cpp":
            return {"grammar": grammar}
        case None:
            raise ModelFailed("this model server takes no grammar as response_format; use json_schema")
        case _:
            assert_never(server)


def json_schema_to_wire(response_format: JsonSchemaFormat) -> dict[str, Any]:
    title = re.sub(r"[^A-Za-z0-9_-]", "_", str(response_format.json_schema.get("title", "")))[:64]
    return {"type": "json_schema", "json_schema": {"name": title or "response", "schema": response_format.json_schema}}


def messages_to_wire(messages: Sequence[Message], extras: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages, with their extras by index. The objects are shared: a message of a history has one."""
    wire = _wires.of(messages)
    for index, fields in extras.items():
        if index < len(wire):
            wire[index] = {**wire[index], **fields}
    return wire


class _Wires:
    """The objects of plain messages, the last made ones: each turn sends its history again, with little more.

    A message is a value, and the log of a session keeps it from turn to turn.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[int, tuple[Message, dict[str, Any]]] = OrderedDict()  # by id, of a message kept alive
        self._changing = Lock()

    def of(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the objects of the messages."""
        with self._changing:
            kept = list(map(self._kept.get, map(id, messages)))
        wires = []
        for message, found in zip(messages, kept, strict=True):
            if found is not None and found[0] is message:
                wires.append(found[1])
            else:
                wires.append(message_to_wire(message))
                content = wires[-1].get("content")
                if len(wires[-1]) == _PLAIN_FIELDS and isinstance(content, str) and len(content) <= MOST_KEPT:
                    self._keep(message, wires[-1])
        return wires

    def _keep(self, message: Message, wire: dict[str, Any]) -> None:
        with self._changing:
            self._kept[id(message)] = message, wire
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)


_PLAIN_FIELDS = 2  # the role and the content
MOST_KEPT = 4_096  # characters of a kept message
_wires = _Wires(4_096)


def message_to_wire(message: Message) -> dict[str, Any]:
    """Return the message; images outside user messages, which the wire cannot carry, become a placeholder."""
    if message.role == "user":
        return {"role": "user", "content": user_content_to_wire(message)}
    if message.role == "assistant":
        return assistant_to_wire(message)
    content = text_with_placeholders(message.content)
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": content}
    return {"role": message.role, "content": content}


def user_content_to_wire(message: UserMessage) -> str | list[dict[str, Any]]:
    """Return the content followed by its context: one text, or a list of parts if there are images."""
    if isinstance(message.content, str) and message.context is None:
        return message.content  # the form of most messages in a long history
    contents = [message.content] if message.context is None else [message.content, message.context]
    items = [item for content in contents for item in items_of(content)]
    if all(isinstance(item, TextItem) for item in items):
        return "\n\n".join(text for content in contents if (text := text_of(content)))
    return [
        {"type": "text", "text": item.text} if isinstance(item, TextItem) else image_to_wire(item.image)
        for item in items
        if not isinstance(item, TextItem) or item.text
    ]


def image_to_wire(image: Image) -> dict[str, Any]:
    if image.url is not None:
        return {"type": "image_url", "image_url": {"url": image.url.uri}}
    if not image.data:
        return {"type": "text", "text": IMAGE_PLACEHOLDER}
    is_address = image.data.startswith("data:")
    url = image.data if is_address else f"data:{image_mime_type(image.data)};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def image_mime_type(data: str) -> str:
    """Return the media type from the first bytes of base64 data, image/png if unrecognised."""
    try:
        head = base64.b64decode(data[:24])
    except ValueError:
        return "image/png"
    kind = find_image_kind(head)
    return kind.mime_type if kind is not None else "image/png"


def assistant_to_wire(message: CompletionMessage) -> dict[str, Any]:
    text = text_with_placeholders(message.content)
    if not message.tool_calls:
        return {"role": "assistant", "content": text}
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.tool_name, "arguments": arguments_to_wire(call)},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def arguments_to_wire(call: ToolCall) -> str:
    """Return the arguments as JSON; `{}` for invalid ones, because servers refuse a whole history over them."""
    if isinstance(call.arguments, str):
        return "{}"
    try:
        return json.dumps(call.arguments, allow_nan=False)
    except (ValueError, RecursionError):
        return "{}"


def text_with_placeholders(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(item.text if isinstance(item, TextItem) else IMAGE_PLACEHOLDER for item in items_of(content))
