"""Messages in the vocabulary of the Llama Stack wire."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.values.content import Content, text_of
from turnstone.domain.values.frozen import Frozen, Many, NullMeansDefault

StopReason = Literal["end_of_turn", "end_of_message", "out_of_tokens"]


class SystemMessage(Frozen):
    role: Literal["system"] = "system"
    content: Content


class UserMessage(Frozen):
    """A user's message. `context` is shown to the model in this turn only."""

    role: Literal["user"] = "user"
    content: Content
    context: Content | None = None


class ToolResponseMessage(Frozen):
    role: Literal["tool"] = "tool"
    call_id: str
    content: Content


class CompletionMessage(NullMeansDefault):
    role: Literal["assistant"] = "assistant"
    content: Content
    stop_reason: StopReason
    tool_calls: Many[ToolCall] = ()


InputMessage = Annotated[UserMessage | ToolResponseMessage, Field(discriminator="role")]
Message = Annotated[SystemMessage | UserMessage | ToolResponseMessage | CompletionMessage, Field(discriminator="role")]


def message_text(message: SystemMessage | UserMessage | ToolResponseMessage | CompletionMessage) -> str:
    """Return the message's text, with its context for the model."""
    context = message.context if isinstance(message, UserMessage) else None
    return text_of(message.content) if context is None else f"{text_of(message.content)}\n{text_of(context)}"


MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...], config=ConfigDict(defer_build=True))
