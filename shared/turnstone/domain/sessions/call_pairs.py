"""Calls and their answers among messages: models refuse a call without an answer, and an answer without a call."""

from collections.abc import Iterable, Sequence

from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage
from turnstone.domain.tools.tools import ToolCall

NO_ANSWER = "Not executed: no answer to this call was given."


def answered(messages: Sequence[Message], reason: str) -> tuple[Message, ...]:
    """Return the messages with an answer after each unanswered call; nothing is moved or left out."""
    complete: list[Message] = []
    open_calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, ToolResponseMessage):
            open_calls.pop(message.call_id, None)
        else:
            complete += _answers(open_calls, reason)
            open_calls = {call.call_id: call for call in calls_of(message)}
        complete.append(message)
    return (*complete, *_answers(open_calls, reason))


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with exactly one answer directly after each call, and no other answer.

    An answer belongs to a call of the last assistant message before it: a turn may begin with answers to the turn
    before it, in any order and beside other messages. An answer that came later is moved to its call.
    """
    for message in messages:
        kind = type(message)  # a check of the class or a field takes ten times as long
        if kind is ToolResponseMessage or (kind is CompletionMessage and calls_of(message)):
            return _paired(messages)
    return tuple(messages)


def _paired(messages: Iterable[Message]) -> tuple[Message, ...]:
    complete: list[Message] = []
    others: list[Message] = []
    open_calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, ToolResponseMessage):
            if open_calls.pop(message.call_id, None) is not None:
                complete.append(message)
        elif isinstance(message, CompletionMessage):
            complete += (*_answers(open_calls, NO_ANSWER), *others, message)
            others, open_calls = [], {call.call_id: call for call in message.tool_calls}
        elif open_calls:
            others.append(message)
        else:
            complete += (*others, message)
            others = []
    return (*complete, *_answers(open_calls, NO_ANSWER), *others)


def begins_with_answers(messages: Iterable[Message]) -> bool:
    """Return whether there are answers to calls of earlier messages."""
    for message in messages:
        if isinstance(message, ToolResponseMessage):
            return True
        if isinstance(message, CompletionMessage):
            return False
    return False


def open_calls(messages: Iterable[Message]) -> frozenset[str]:
    """Return the ids of the last message's calls that no answer after it is for: the ones that can be answered."""
    calls: frozenset[str] = frozenset()
    for message in messages:
        if isinstance(message, CompletionMessage):
            calls = frozenset(call.call_id for call in message.tool_calls)
        elif isinstance(message, ToolResponseMessage):
            calls -= {message.call_id}
    return calls


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    return message.tool_calls if isinstance(message, CompletionMessage) else ()


def _answers(calls: Iterable[str], reason: str) -> list[Message]:
    return [ToolResponseMessage(call_id=call_id, content=reason) for call_id in calls]
