"""Valid bodies of the routes of responses, with grades of others and of the queries of their lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.support.server.body_shapes import RIGHT, UNSURE, WRONG
from turnstone.dialects.openai.responses.conversations import AddItems, CreateConversation
from turnstone.dialects.openai.responses.lists import SERVED_INCLUDES
from turnstone.dialects.openai.responses.requests import CreateResponse

RESPONSES = "/v1/openai/v1/responses"
RESPONSE = f"{RESPONSES}/{{response_id}}"
CANCEL = f"{RESPONSE}/cancel"
INPUT_ITEMS = f"{RESPONSE}/input_items"
CONVERSATIONS = "/v1/openai/v1/conversations"
CONVERSATION = f"{CONVERSATIONS}/{{conversation_id}}"
ITEMS = f"{CONVERSATION}/items"
ITEM = f"{ITEMS}/{{item_id}}"
FUNCTION = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "strict": True,
}
MESSAGES: tuple[dict[str, Any], ...] = (
    {"role": "developer", "content": "Be polite."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is in it?"}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "http://a/b.png", "detail": "auto"}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "A bird.", "annotations": []}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
    {"type": "function_call", "call_id": "a", "name": "add", "arguments": "{}", "status": "completed"},
    {"type": "function_call_output", "call_id": "a", "output": "3"},
)
VALID: tuple[dict[str, Any], ...] = (
    {"model": "offline", "input": "hello"},
    {
        "model": "offline",
        "input": list(MESSAGES),
        "instructions": "Be brief.",
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 50,
        "tools": [FUNCTION],
        "tool_choice": {"type": "function", "name": "add"},
        "parallel_tool_calls": False,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "reasoning": {"effort": "low"},
        "metadata": {"topic": "birds"},
        "user": "ann",
    },
)


NEW_CONVERSATIONS: tuple[dict[str, Any], ...] = ({}, {"items": list(MESSAGES), "metadata": {"topic": "birds"}})
ADDED_ITEMS: tuple[dict[str, Any], ...] = ({"items": list(MESSAGES)},)


def conversation_grade(body: Any) -> int:
    """Return the grade of a new conversation: a field that none has is wrong."""
    if not isinstance(body, dict) or body.keys() - CreateConversation.model_fields:
        return WRONG
    return RIGHT if body in NEW_CONVERSATIONS else UNSURE


def added_grade(body: Any) -> int:
    """Return the grade of added items, likewise."""
    if not isinstance(body, dict) or body.keys() != AddItems.model_fields.keys():
        return WRONG
    return RIGHT if body in ADDED_ITEMS else UNSURE


def create_grade(body: Any) -> int:
    """Return the grade of a body: a field that no request has is wrong."""
    if not isinstance(body, dict) or not {"model", "input"} <= body.keys() or body.keys() - CreateResponse.model_fields:
        return WRONG
    return RIGHT if body in VALID else UNSURE


def list_grade(query: Mapping[str, list[str]], names: tuple[str, ...], after: str, most: int) -> int:
    """Return the grade of a list's query: one value each, a limit in range."""
    given = {name: query[name] for name in names if name in query}
    if any(len(values) > 1 for values in given.values()):
        return WRONG
    one = {name: values[0] for name, values in given.items()}
    limit = one.get("limit") or "1"
    if not re.fullmatch(r"[0-9]{1,9}", limit) or not 1 <= int(limit) <= most:
        return WRONG
    if one.get("order", "") not in ("", "asc", "desc") or not re.fullmatch(f"({after})?", one.get("after", "")):
        return WRONG
    return UNSURE if one.get("after") or one.get("before") or "include" in query or "include[]" in query else RIGHT


def responses_grade(query: Mapping[str, list[str]]) -> int:
    return list_grade(query, ("after", "limit", "order", "model"), r"resp_[\w-]+", 10**9)


def conversation_items_grade(query: Mapping[str, list[str]]) -> int:
    return list_grade(query, ("after", "limit", "order"), r"[a-z]+_[0-9a-f]{36}", 100)


def include_grade(query: Mapping[str, list[str]]) -> int:
    named = {*query.get("include", ()), *query.get("include[]", ())}
    return RIGHT if named <= {"", *SERVED_INCLUDES} else WRONG


def items_grade(query: Mapping[str, list[str]]) -> int:
    return list_grade(query, ("after", "before", "limit", "order"), r"(?s:.+)", 100)


def read_grade(query: Mapping[str, list[str]]) -> int:
    """Return the grade of the query of a response: its stream may begin behind a number."""
    names = ("stream", "starting_after", "include_obfuscation")
    if any(len(query[name]) > 1 for name in names if name in query):
        return WRONG
    stream, after, padded = (query.get(name, [""])[0] for name in names)
    if stream not in ("true", "false", "") or padded not in ("false", ""):
        return WRONG
    if not re.fullmatch(r"([0-9]{1,15})?", after) or (after and stream != "true"):
        return WRONG
    return UNSURE if "include" in query or "include[]" in query else RIGHT
