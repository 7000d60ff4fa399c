"""Refusals of real model servers: the rules of a chat-completions request that a history can break."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


def refusal_of(body: Mapping[str, Any]) -> str | None:
    """Return why a server refuses the request, None if it does not."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "[] is too short - 'messages'"
    if "tools" in body and not body["tools"]:
        return "[] is too short - 'tools'"
    if "tool_choice" in body and "tools" not in body:
        return "'tool_choice' is only allowed when 'tools' are specified"
    return refusal_of_messages(messages)


def refusal_of_messages(messages: Sequence[Mapping[str, Any]]) -> str | None:
    open_ids: set[str] = set()
    for position, message in enumerate(messages):
        role = message.get("role")
        if role not in ROLES:
            return f"messages[{position}]: unknown role {role!r}"
        if role == "tool":
            if message.get("tool_call_id") not in open_ids:
                return f"messages[{position}]: a tool message must answer a call of the assistant message before it"
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            return unanswered(position, open_ids)
        if role == "assistant":
            broken = refusal_of_assistant(message)
            if broken is not None:
                return f"messages[{position}]: {broken}"
            open_ids = {call["id"] for call in message.get("tool_calls", ())}
    return unanswered(len(messages), open_ids) if open_ids else None


def refusal_of_assistant(message: Mapping[str, Any]) -> str | None:
    calls = message.get("tool_calls")
    if calls is None:
        return None if message.get("content") is not None else "content must not be null without tool_calls"
    if not calls:
        return "[] is too short - 'tool_calls'"
    if len({call["id"] for call in calls}) < len(calls):
        return "two tool calls have the same id"
    for call in calls:
        try:
            arguments = json.loads(call["function"]["arguments"])
        except (ValueError, TypeError):
            return f"the arguments of {call['id']} are not valid JSON"
        if not isinstance(arguments, dict):
            return f"the arguments of {call['id']} are no JSON object"
    return None


def unanswered(position: int, call_ids: set[str]) -> str:
    missing = ", ".join(sorted(call_ids))
    return (
        f"messages[{position}]: tool_calls must be followed by tool messages for each tool_call_id; missing: {missing}"
    )
