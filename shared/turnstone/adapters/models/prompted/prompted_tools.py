"""Tools for models without native ones: described in the prompt, and their calls parsed from the model's text."""

from collections.abc import Iterable, Iterator, Sequence
from uuid import uuid4

from turnstone.adapters.models.openai.openai_answer import call_ids_of
from turnstone.adapters.models.prompted.answers import AnswerText
from turnstone.adapters.models.prompted.arguments import call_of
from turnstone.adapters.models.prompted.conversation import split_system, without_calls
from turnstone.adapters.models.prompted.formats import FORMATS
from turnstone.adapters.models.prompted.instructions import choice_instruction, system_text
from turnstone.domain.messages.messages import Message, SystemMessage
from turnstone.domain.models.requests import (
    InferenceRequest,
    Inferred,
    ReasoningChunk,
    Streamed,
    TextChunk,
    call_pieces,
)
from turnstone.domain.models.routing import Target
from turnstone.domain.tools.tools import ToolCall
from turnstone.ports.models import Capability, Inference

OF_NATIVE_TOOLS = "parallel_tool_calls"  # fields that servers refuse in a request without tools


class PromptedTools:
    """Wraps an Inference: a request with a `tool_prompt_format` needs no native tools of the model."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def stream(self, request: InferenceRequest) -> Iterator[Streamed]:
        """Yield the answer as it arrives; hold back a possible call until it is decided. Raises ModelError.

        A required tool is an instruction only: an answer without a call is valid.
        """
        if request.tool_prompt_format is None:
            return self._inference.stream(request)
        has_tools = bool(request.tools) and request.tool_choice != "none"
        parts = self._inference.stream(prompted(request))
        return _with_calls(parts, request) if has_tools else parts

    def models(self) -> tuple[str, ...]:
        """Return the ids of the models. Raises ModelError."""
        return self._inference.models()

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:
        """Return the capabilities of the targets."""
        return self._inference.capabilities(targets)


def prompted(request: InferenceRequest) -> InferenceRequest:
    """Return the request for a model without tools: the messages contain everything about them."""
    assert request.tool_prompt_format is not None  # noqa: S101 - as its one caller ensures
    form = FORMATS[request.tool_prompt_format]
    tools = () if request.tool_choice == "none" else request.tools
    instructions, messages = split_system(request.messages)
    is_replaced = request.system_message_behavior == "replace"
    system = system_text(instructions, tools, form, is_replaced=is_replaced)
    choice = choice_instruction(request.tool_choice) if tools else ""
    text = "\n\n".join(part for part in (system, choice) if part)
    head: tuple[Message, ...] = (SystemMessage(content=text),) if text else ()
    return request._replace(
        messages=(*head, *without_calls(messages, form)),
        tools=(),
        tool_choice="auto",
        tool_prompt_format=None,
        system_message_behavior="append",
        extras={name: value for name, value in request.extras.items() if name != OF_NATIVE_TOOLS},
        message_extras={},  # the messages have changed in number and position
        tool_extras={},
        takes_batches=False,
    )


def _with_calls(parts: Iterator[Streamed], request: InferenceRequest) -> Iterator[Streamed]:
    assert request.tool_prompt_format is not None  # noqa: S101 - as its one caller ensures
    tools = {tool.name: tool for tool in request.tools}
    answer = AnswerText(request.tool_prompt_format, tools)
    emitted: list[str] = []
    for item in parts:
        if isinstance(item, ReasoningChunk):
            yield item
            continue
        if isinstance(item, TextChunk):
            text = answer.feed(item.text)
            logprobs = item.logprobs  # both of an answer's text and of its calls
        elif not isinstance(item, Inferred):
            continue  # a native call, whose index and id are decided at the end
        else:
            text = answer.end(is_cut_off=item.message.stop_reason == "out_of_tokens")
            logprobs = ()
        if text:
            emitted.append(text)
        if text or logprobs:
            yield TextChunk(text, logprobs)
        if isinstance(item, Inferred):
            written = (call_of(new_call_id(), call, tools.get(call.name)) for call in answer.calls)
            native = with_other_ids(item.message.tool_calls, call_ids_of(request.messages))
            calls = (*native, *written)
            yield from call_pieces(calls)
            changes = {"content": "".join(emitted), "tool_calls": calls}
            yield item._replace(message=item.message.model_copy(update=changes))


def with_other_ids(calls: Iterable[ToolCall], taken: frozenset[str]) -> Iterator[ToolCall]:
    """Yield native calls, which were not requested; rename ids used in the history, which the model did not see."""
    for call in calls:
        yield call.model_copy(update={"call_id": new_call_id()}) if call.call_id in taken else call


def new_call_id() -> str:
    return f"call_{uuid4().hex}"
