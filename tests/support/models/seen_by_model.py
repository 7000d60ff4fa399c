"""Requests of the model server, in a form that reads well in an assert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def seen(request: Mapping[str, Any]) -> list[str]:
    """Return a line for each message the model was sent."""
    return [line_of(message) for message in request["messages"]]


def requests_ending_with(requests: Sequence[Mapping[str, Any]], text: str) -> list[Mapping[str, Any]]:
    """Return the requests whose last message of the user has this text."""
    return [request for request in requests if last_user_text(request) == text]


def last_user_text(request: Mapping[str, Any]) -> str | None:
    return next((m["content"] for m in reversed(request["messages"]) if m["role"] == "user"), None)


def line_of(message: Mapping[str, Any]) -> str:
    functions = (call["function"] for call in message.get("tool_calls", ()))
    calls = [f"{function['name']}({function['arguments']})" for function in functions]
    parts = [part for part in (message["content"], *calls) if part]
    return f"{message['role']}: {' '.join(parts)}"
