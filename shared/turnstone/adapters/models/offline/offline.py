"""Stand-in model of a server without one: answers in plain words, calls tools on request, costs nothing."""

import json
import re
from collections.abc import Iterator, Sequence
from uuid import uuid4

from turnstone.adapters.models.offline.call_text import CallSyntaxError, calls_in
from turnstone.domain.agents.agents import JsonSchemaFormat
from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage, UserMessage
from turnstone.domain.models.requests import Chunk, InferenceRequest, Inferred, TextChunk, call_pieces
from turnstone.domain.models.routing import Target
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolCall, ToolDef, call_from_json
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.content import Content, TextItem, items_of
from turnstone.ports.models import Capability

CHARACTERS_PER_TOKEN = 4
ECHOED_CHARACTERS = 200
HOW_TO_CONNECT = (
    "To connect a model, set TURNSTONE_MODEL_URL to the address of a server that speaks the OpenAI API, "
    "such as http://localhost:11434/v1, and start again."
)


class OfflineInference:
    """Answers every request deterministically, except for the ids of its calls."""

    def stream(self, request: InferenceRequest) -> Iterator[Chunk | Inferred]:
        """Yield the answer word by word; it never fails. `max_tokens` counts words here."""
        calls, text = answer_to(request)
        if isinstance(request.response_format, JsonSchemaFormat) and not calls:
            text = json.dumps({"offline": True, "message": text})
        words = re.findall(r"\s*\S+", text)
        limit = (request.sampling.max_tokens if request.sampling else 0) or len(words)
        for word in words[:limit]:
            yield TextChunk(word)
        yield from call_pieces(calls)
        message = CompletionMessage(
            content="".join(words[:limit]),
            stop_reason="end_of_turn" if len(words) <= limit else "out_of_tokens",
            tool_calls=calls,
        )
        yield Inferred(message, estimated_usage(request.messages, message))

    def models(self) -> tuple[str, ...]:
        """Return the one model id; requests for any other are answered as well."""
        return ("offline",)

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:  # noqa: ARG002 - all are one
        """Return no capabilities: no grammars. Tools are called in text, whatever their prompt format."""
        return frozenset()


def answer_to(request: InferenceRequest) -> tuple[tuple[ToolCall, ...], str]:
    """Return the calls in the last message, else a plain reply."""
    returned = responses_at_end(request.messages)
    if returned:
        return (), responses_reply(returned, request.messages)
    question = last_question(request.messages)
    tools = {} if request.tool_choice == "none" else {tool.name: tool for tool in request.tools}
    try:
        written_calls = calls_in(question, tuple(tools))
    except CallSyntaxError as exc:
        name = exc.tool_name
        return (), f"I can't read what is in the parentheses of {name}. Write it like this: {example_call(tools[name])}"
    calls = (call_from_json(f"call_{uuid4().hex}", call.name, json.dumps(call.arguments)) for call in written_calls)
    return tuple(calls), "" if written_calls else offline_reply(question, tuple(tools.values()))


def offline_reply(question: str, tools: Sequence[ToolDef]) -> str:
    echo = f"You said: “{shortened(question)}”. " if question.strip() else ""
    offer = f"I can call a tool when you write, for example, {example_call(tools[0])}. " if tools else ""
    return f"I am offline: no model is connected, so this answer is a canned one. {echo}{offer}{HOW_TO_CONNECT}"


def responses_reply(responses: Sequence[ToolResponseMessage], messages: Sequence[Message]) -> str:
    names = {
        call.call_id: call.tool_name
        for message in messages
        if isinstance(message, CompletionMessage)
        for call in message.tool_calls
    }
    results = (f"{names.get(r.call_id, 'A tool')} returned: {shortened(shown(r.content))}" for r in responses)
    return "\n".join(results) + "\nI am offline, so that is all I can say about it."


def responses_at_end(messages: Sequence[Message]) -> list[ToolResponseMessage]:
    """Return the trailing tool responses, oldest first."""
    responses: list[ToolResponseMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolResponseMessage):
            break
        responses.append(message)
    return responses[::-1]


def last_question(messages: Sequence[Message]) -> str:
    return next((shown(message.content) for message in reversed(messages) if isinstance(message, UserMessage)), "")


def example_call(tool: ToolDef) -> str:
    """Return an example of a call of the tool, as a person would write it."""
    arguments = ", ".join(f'{name}="…"' for name in input_schema_of(tool).get("properties", ()))
    return f"{tool.name}({arguments})"


def shown(content: Content) -> str:
    return "\n".join(item.text if isinstance(item, TextItem) else "[image]" for item in items_of(content))


def shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= ECHOED_CHARACTERS else words[: ECHOED_CHARACTERS - 1] + "…"


def estimated_usage(messages: Sequence[Message], answer: CompletionMessage) -> TokenUsage:
    prompt_tokens = estimated_tokens("".join(shown(message.content) for message in messages))
    arguments = "".join(call.arguments_json or "" for call in answer.tool_calls)
    completion_tokens = estimated_tokens(shown(answer.content) + arguments)
    total_tokens = prompt_tokens + completion_tokens
    return TokenUsage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, total_tokens=total_tokens)


def estimated_tokens(text: str) -> int:
    return max(1, len(text) // CHARACTERS_PER_TOKEN)
