"""Rewrite a conversation with calls as messages without calls. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from turnstone.adapters.models.prompted.formats import ToolFormat
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.tools.tools import IN_TEXT
from turnstone.domain.values.content import ContentItem, TextItem, items_of, text_of


def split_system(messages: Sequence[Message]) -> tuple[str, tuple[Message, ...]]:
    """Return the text of the system messages, and the other messages."""
    texts = [text_of(message.content) for message in messages if isinstance(message, SystemMessage)]
    others = tuple(message for message in messages if not isinstance(message, SystemMessage))
    return "\n\n".join(text for text in texts if text), others


def without_calls(messages: Sequence[Message], form: ToolFormat) -> tuple[Message, ...]:
    """Return the messages with calls as text, and tool responses as messages of the user.

    Responses of several tools become one message: many models accept no two messages of a user in a row.
    """
    return tuple(_rewritten(messages, form))


def _rewritten(messages: Sequence[Message], form: ToolFormat) -> Iterator[Message]:
    names: dict[str, str] = {}
    returned: list[ToolResponseMessage] = []
    for message in messages:
        if isinstance(message, ToolResponseMessage):
            returned.append(message)
            continue
        if returned:
            yield _as_user_message(returned, names)
            returned = []
        if isinstance(message, CompletionMessage) and message.tool_calls:
            names |= {call.call_id: call.tool_name for call in message.tool_calls}
            message = _with_written_calls(message, form)
        yield message
    if returned:
        yield _as_user_message(returned, names)


def _with_written_calls(message: CompletionMessage, form: ToolFormat) -> CompletionMessage:
    """Return the message with its calls in its text; unreadable arguments are shown as none.

    A call that the client parsed from the text is there already.
    """
    calls = [
        (c.tool_name, c.arguments if isinstance(c.arguments, dict) else {})
        for c in message.tool_calls
        if c.arguments_json != IN_TEXT
    ]
    text = "\n".join(part for part in (text_of(message.content), form.written(calls) if calls else "") if part)
    return message.model_copy(update={"content": text, "tool_calls": ()})


def _as_user_message(returned: Sequence[ToolResponseMessage], names: Mapping[str, str]) -> UserMessage:
    items: list[ContentItem] = []
    for message in returned:
        items.append(TextItem(text=f"{names.get(message.call_id, 'A function')} returned:"))
        items += items_of(message.content)
    if all(isinstance(item, TextItem) for item in items):
        return UserMessage(content=text_of(tuple(items)))
    return UserMessage(content=tuple(items))
