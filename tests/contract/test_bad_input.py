"""Whatever is sent to a route: a true status, an envelope of the contract, nothing of the inside, nothing stored.

What is valid is said here once more, apart from the models that parse it, so that a rule lost there is missed here.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.local.routes import ROUTES
from tests.cases import generated
from tests.contract.asgi_client import Answered, Raw, Served, served, strict_json
from tests.contract.tenant_world import attach
from turnstone.domain.refs import SessionRef
from turnstone.http.routes import Route

CASES = 250
CASES_AT_NIGHT = 2_000

# How a value stands to the contract: wrong; written otherwise than it says, so that either answer is true; right.
WRONG, UNSURE, RIGHT = 0, 1, 2
Shape = Callable[[Any], int]


def anything(_: Any) -> int:
    return RIGHT


def text(value: Any) -> int:
    return RIGHT if isinstance(value, str) else WRONG


def mapping(value: Any) -> int:
    return RIGHT if isinstance(value, dict) else WRONG


def never(_: Any) -> int:
    return WRONG


def flag(value: Any) -> int:
    if isinstance(value, bool):
        return RIGHT
    return UNSURE if isinstance(value, int | float | str) else WRONG


MOST_INFER_ITERS = 100  # unless a setting says otherwise


def number(above: float = float("-inf"), whole_from: int | None = None, whole_to: float = float("inf")) -> Shape:
    def grade(value: Any) -> int:
        if isinstance(value, bool) or (isinstance(value, str) and re.search(r"\d|inf|nan", value, re.I)):
            return UNSURE
        if not isinstance(value, int | float) or not above < value < float("inf"):
            return WRONG
        if whole_from is None:
            return RIGHT if abs(value) < 2**1000 else UNSURE
        if not whole_from <= value <= whole_to or value % 1:
            return WRONG
        return RIGHT if isinstance(value, int) else UNSURE

    return grade


def one_of(*values: str) -> Shape:
    return lambda value: RIGHT if isinstance(value, str) and value in values else WRONG


def either(*shapes: Shape) -> Shape:
    return lambda value: max(shape(value) for shape in shapes)


def nullable(shape: Shape) -> Shape:
    return lambda value: RIGHT if value is None else shape(value)


def many(shape: Shape, least: int = 0) -> Shape:
    def grade(value: Any) -> int:
        is_list = isinstance(value, list) and len(value) >= least
        return min([RIGHT, *map(shape, value)]) if is_list else WRONG

    return grade


def values(shape: Shape) -> Shape:
    return lambda value: min([RIGHT, *map(shape, value.values())]) if isinstance(value, dict) else WRONG


def record(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """An object. What it has beyond these fields is ignored; whether an optional one may be null is not said."""

    def grade(value: Any) -> int:
        if not isinstance(value, dict) or not required.keys() <= value.keys():
            return WRONG
        grades = [RIGHT, *(shape(value[name]) for name, shape in required.items())]
        for name, shape in (optional or {}).items():
            if name in value:
                grades.append(max(shape(value[name]), UNSURE if value[name] is None else WRONG))
        return min(grades)

    return grade


def exactly(optional: Mapping[str, Shape]) -> Shape:
    """An object that has nothing beyond these fields; whether one more may be null is not said."""
    fields = record({}, optional)

    def grade(value: Any) -> int:
        if not isinstance(value, dict):
            return WRONG
        more = [value[name] for name in value if name not in optional]
        return min([fields(value), *(UNSURE if found is None else WRONG for found in more)])

    return grade


def tagged(tag: str, shapes: Mapping[str, Shape]) -> Shape:
    def grade(value: Any) -> int:
        if not isinstance(value, dict):
            return WRONG
        if tag not in value:
            return UNSURE
        return shapes[value[tag]](value) if one_of(*shapes)(value[tag]) else WRONG

    return grade


def exact(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """An object of these fields and no others; the optional ones may be null."""
    optional = {name: nullable(shape) for name, shape in (optional or {}).items()}
    shape = record(required, optional)
    return lambda value: shape(value) if isinstance(value, dict) and {*required, *optional} >= value.keys() else WRONG


def typed(kind: str, required: Mapping[str, Shape]) -> Shape:
    return exact({"type": one_of(kind), **required})


def of_kind(kind: str, required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """An object of this type, which may have fields beyond these."""
    return record({"type": one_of(kind), **required}, optional)


def within(least: float, most: float) -> Shape:
    def grade(value: Any) -> int:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return RIGHT if is_number and least <= value <= most else WRONG

    return grade


def some(value: Any) -> int:
    return RIGHT if isinstance(value, str) and value else WRONG


NONE_YET = nullable(lambda value: RIGHT if value == [] else WRONG)
FORMAT = nullable(one_of("json", "function_tag", "python_list"))
IMAGE = record({}, {"url": nullable(record({"uri": text})), "data": nullable(text)})
ITEM = tagged("type", {"text": record({"text": text}), "image": record({"image": IMAGE})})
CONTENT = either(text, ITEM, many(ITEM))
TOP_P = record({"temperature": nullable(number(above=0))}, {"top_p": nullable(number())})
STRATEGY = tagged("type", {"greedy": mapping, "top_p": TOP_P, "top_k": record({"top_k": number(whole_from=1)})})
PARAMETER = {"name": text, "parameter_type": text, "description": text}
PARAMETERS = many(record(PARAMETER, {"required": flag, "default": anything}))
SCHEMA = record({"type": one_of("object")}, {"properties": values(either(mapping, flag)), "required": many(text)})
MASK = "**********"


def secret(value: Any) -> int:
    return RIGHT if isinstance(value, str) and value.isascii() and value.isprintable() and value != MASK else WRONG


def header_value(value: Any) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return UNSURE if is_number else secret(value)


def headers(value: Any) -> int:
    if not isinstance(value, dict) or not all(
        re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}", name) for name in value
    ):
        return WRONG
    return min([RIGHT, *map(header_value, value.values())])


def url(value: Any) -> int:
    return text(value) if isinstance(value, str) and 0 < len(value) <= 2_048 else WRONG


REMOTE = record(
    {"url": url, "method": one_of("GET", "POST", "PUT", "DELETE")},
    {"params": nullable(mapping), "headers": nullable(headers), "body": nullable(mapping)},
)
OF_TOOLS: Mapping[str, Shape] = {
    "input_shields": nullable(many(text)),
    "output_shields": nullable(many(text)),
    "remote_execution": nullable(REMOTE),
}
PARAM = record({"param_type": text}, {"description": nullable(text), "required": nullable(flag), "default": anything})
DEFINED_TOOL = tagged(
    "type",
    {
        "brave_search": record(
            {}, {"api_key": nullable(secret), "engine": nullable(one_of("brave", "bing", "tavily")), **OF_TOOLS}
        ),
        "wolfram_alpha": record({}, {"api_key": nullable(secret), **OF_TOOLS}),
        "photogen": record({}, OF_TOOLS),
        "code_interpreter": record({}, {"enable_inline_code_execution": nullable(flag), **OF_TOOLS}),
        "function_call": record(
            {"function_name": lambda value: some(value)},
            {"description": nullable(text), "parameters": nullable(values(PARAM)), **OF_TOOLS},
        ),
    },
)
OVERRIDES: Mapping[str, Shape] = {
    "sampling_params": record(
        {},
        {
            "strategy": STRATEGY,
            "max_tokens": number(whole_from=0),
            "repetition_penalty": number(),
            "stop": nullable(many(text)),
        },
    ),
    "input_shields": NONE_YET,
    "output_shields": NONE_YET,
    "toolgroups": nullable(many(either(text, record({"name": text, "args": mapping})))),
    "client_tools": nullable(
        many(
            record(
                {"name": text},
                {
                    "description": nullable(text),
                    "parameters": nullable(PARAMETERS),
                    "metadata": nullable(mapping),
                    "input_schema": nullable(SCHEMA),
                    "output_schema": nullable(mapping),
                    "toolgroup_id": nullable(never),
                },
            )
        )
    ),
    "tool_choice": nullable(one_of("auto", "required", "none")),
    "tool_prompt_format": FORMAT,
    "tool_config": record(
        {},
        {
            "tool_choice": text,
            "tool_prompt_format": FORMAT,
            "system_message_behavior": one_of("append", "replace"),
        },
    ),
    "max_infer_iters": nullable(number(whole_from=1, whole_to=MOST_INFER_ITERS)),
}
RESPONSE_FORMATS = {"json_schema": record({"json_schema": mapping}), "grammar": record({"bnf": mapping})}
CONFIG = {
    "name": nullable(text),
    "enable_session_persistence": flag,
    "response_format": nullable(tagged("type", RESPONSE_FORMATS)),
    **OVERRIDES,
    "input_shields": nullable(many(text)),
    "output_shields": nullable(many(text)),
    "tools": nullable(many(DEFINED_TOOL)),
}
AGENT = record({"agent_config": record({"model": text, "instructions": text}, CONFIG)})
SESSION = record({"session_name": text}, {"vector_db_id": nullable(lambda _: WRONG)})
USER_MESSAGE = tagged("role", {"user": record({"content": CONTENT}, {"context": nullable(CONTENT)})})
TURN = record(
    {"messages": many(USER_MESSAGE, least=1)},
    {"stream": flag, "documents": NONE_YET, "instructions": nullable(text), **OVERRIDES},
)
RESPONSE = record({"call_id": text, "tool_name": text, "content": CONTENT}, {"metadata": nullable(mapping)})
RESUME = record({"tool_responses": many(RESPONSE, least=1)}, {"stream": flag})
WANTED = either(many(text), record({}, {"turn_ids": nullable(many(text))}))


GROUPS = {"builtin::clock", "builtin::clock/current_time"}


def is_format(response_format: Mapping[str, Any]) -> bool:
    """Tell whether it is no grammar, or one as it is written."""
    if response_format.get("type") != "grammar":
        return True
    grammar = response_format["bnf"].get("grammar")
    return isinstance(grammar, str) and bool(grammar.strip()) and len(response_format["bnf"]) == 1


def agreement(config: Mapping[str, Any], *, names_count: bool = True) -> int:
    """Grade what fields that are right each for itself ask for together, of a server that has no more than it has.

    Toolgroups may have any name where names don't count yet, and then nobody knows which tools could be chosen.
    """
    deprecated = {name: config[name] for name in ("tool_choice", "tool_prompt_format") if config.get(name) is not None}
    offer = deprecated if config.get("tool_config") is None else config["tool_config"]
    choice = "auto" if offer.get("tool_choice") is None else offer["tool_choice"]
    own = [tool["name"] for tool in config.get("client_tools") or ()]
    own += [tool.get("function_name", tool["type"]) for tool in config.get("tools") or () if "type" in tool]
    groups = {group if isinstance(group, str) else group["name"] for group in config.get("toolgroups") or ()}
    offered = {*own, *(["current_time"] if groups else [])}
    is_served = (
        deprecated.get("tool_choice") in (None, choice)
        and deprecated.get("tool_prompt_format") in (None, offer.get("tool_prompt_format"))
        and is_format(config.get("response_format") or {})
        and (groups <= GROUPS or not names_count)
        and "" not in own
        and len(own) == len(set(own))
        and (choice in {"auto", "none", *offered} or (choice == "required" and bool(offered)) or not groups <= GROUPS)
    )
    return RIGHT if is_served else WRONG


def agent_grade(body: Any, _: Sequence[str]) -> int:
    return min(AGENT(body), agreement(body["agent_config"], names_count=False)) if AGENT(body) else WRONG


CALL = record(
    {"call_id": text, "tool_name": text, "arguments": either(text, mapping)}, {"arguments_json": nullable(text)}
)
SAID = tagged(
    "role",
    {
        "system": record({"content": CONTENT}),
        "user": record({"content": CONTENT}, {"context": nullable(CONTENT)}),
        "tool": record({"content": CONTENT, "call_id": text}),
        "assistant": record(
            {"content": CONTENT, "stop_reason": one_of("end_of_turn", "end_of_message", "out_of_tokens")},
            {"tool_calls": nullable(many(CALL))},
        ),
    },
)
CHAT = record(
    {"model_id": text, "messages": many(SAID, least=1)},
    {
        "tools": nullable(
            many(record({"tool_name": some}, {"description": nullable(text), "parameters": nullable(values(PARAM))}))
        ),
        "response_format": nullable(tagged("type", RESPONSE_FORMATS)),
        "stream": flag,
        "logprobs": nullable(never),
        **{name: OVERRIDES[name] for name in ("sampling_params", "tool_choice", "tool_prompt_format", "tool_config")},
    },
)
TEXT_PART = of_kind("text", {"text": text})
IMAGE_PART = of_kind("image_url", {"image_url": record({"url": text}, {"detail": one_of("auto", "low", "high")})})
TEXTS = either(text, many(TEXT_PART, least=1))
OPENAI_CALL = of_kind("function", {"id": text, "function": record({"name": some, "arguments": text})})
OPENAI_SAID = tagged(
    "role",
    {
        **dict.fromkeys(("system", "developer"), record({"role": text, "content": TEXTS}, {"name": text})),
        "user": record(
            {"role": text, "content": either(text, many(either(TEXT_PART, IMAGE_PART), least=1))}, {"name": text}
        ),
        "tool": record({"role": text, "content": TEXTS, "tool_call_id": text}, {"name": text}),
        "assistant": record(
            {"role": text},
            {
                "content": TEXTS,
                "refusal": text,
                "tool_calls": many(OPENAI_CALL),
                "name": text,
                **dict.fromkeys(("audio", "function_call"), never),
            },
        ),
    },
)
OPENAI_TOOL = of_kind(
    "function",
    {"function": record({"name": some}, {"description": text, "parameters": SCHEMA, "strict": flag})},
)
SCHEMA_FORMAT = typed(
    "json_schema",
    {
        "json_schema": exact({"name": text}, {"description": text, "schema": mapping, "strict": flag}),
    },
)


def off(value: Any) -> int:
    """Grade a flag that may not be set."""
    return WRONG if value is True or value == "true" else flag(value)


def nothing(value: Any) -> int:
    """Grade what may be there as long as it asks for nothing."""
    return RIGHT if value in (0, {}) and not isinstance(value, bool) else WRONG


def metadata(value: Any) -> int:
    if not isinstance(value, dict) or len(value) > 16:
        return WRONG
    are_short = all(0 < len(name) <= 64 for name in value) and all(len(str(text)) <= 512 for text in value.values())
    return min([RIGHT, *map(text, value), *map(text, value.values())]) if are_short else WRONG


def one(value: Any) -> int:
    return RIGHT if value == 1 and isinstance(value, int) and value is not True else WRONG


TAKEN_NOWHERE = ("audio", "function_call", "functions", "top_logprobs", "web_search_options")
HINTS = ("prompt_cache_key", "reasoning_effort", "safety_identifier", "service_tier", "user", "verbosity")
OPENAI_CHAT = record(
    {"model": text, "messages": many(OPENAI_SAID, least=1)},
    {
        "stream": flag,
        "stream_options": exact({}, {"include_usage": flag, "include_obfuscation": off}),
        "temperature": within(0, 2),
        "top_p": within(5e-324, 1),
        "max_tokens": number(whole_from=1),
        "max_completion_tokens": number(whole_from=1),
        "stop": either(text, many(text)),
        "tools": many(OPENAI_TOOL),
        "tool_choice": either(
            one_of("none", "auto", "required"),
            typed("function", {"function": exact({"name": text})}),
        ),
        "response_format": either(exact({"type": one_of("text", "json_object")}), SCHEMA_FORMAT),
        "n": one,
        "modalities": lambda value: RIGHT if value in ([], ["text"]) else WRONG,
        "logprobs": off,
        "store": flag,
        "metadata": metadata,
        **dict.fromkeys(TAKEN_NOWHERE, never),
        **dict.fromkeys(HINTS, text),
        "prediction": mapping,
        "parallel_tool_calls": flag,
        # by servers of OpenAI's API, which the offline model is none of
        **dict.fromkeys(("frequency_penalty", "presence_penalty"), nothing),
        "logit_bias": lambda value: min(mapping(value), nothing(value)),
        "seed": never,
    },
)
DIMENSIONS = 384
LENGTH = nullable(lambda value: UNSURE if str(value) in ("384", "384.0") else WRONG)
EMBED = record(
    {"model_id": text, "contents": many(either(text, tagged("type", {"text": record({"text": text})})), least=1)},
    {
        "text_truncation": nullable(one_of("none", "start", "end")),
        "output_dimension": LENGTH,
        "task_type": nullable(never),
    },
)
OPENAI_EMBED = record(
    {"model": text, "input": either(text, many(text, least=1))},
    {"encoding_format": one_of("float", "base64"), "dimensions": LENGTH, "user": text},
)


COMPLETION = record(
    {"model_id": text, "content": CONTENT},
    {
        "sampling_params": OVERRIDES["sampling_params"],
        "response_format": nullable(tagged("type", RESPONSE_FORMATS)),
        "stream": flag,
        "logprobs": nullable(never),
    },
)
OPENAI_COMPLETION = record(
    {"model": text, "prompt": either(text, many(text, least=1))},
    {
        "stream": flag,
        "stream_options": exact({}, {"include_usage": flag, "include_obfuscation": off}),
        "max_tokens": number(whole_from=1),
        "temperature": within(0, 2),
        "top_p": within(5e-324, 1),
        "stop": either(text, many(text)),
        "echo": flag,
        "n": one,
        "best_of": one,
        "logprobs": lambda value: RIGHT if value is False else WRONG,
        # by servers of OpenAI's API, which the offline model is none of
        **dict.fromkeys(("frequency_penalty", "presence_penalty"), nothing),
        "logit_bias": lambda value: min(mapping(value), nothing(value)),
        "guided_choice": lambda value: RIGHT if value == [] else WRONG,
        "suffix": lambda value: RIGHT if value == "" else WRONG,
        "user": text,
        **dict.fromkeys(("seed", "prompt_logprobs", "messages", "tools", "tool_choice"), never),
    },
)


def completion_grade(body: Any, _: Sequence[str]) -> int:
    return COMPLETION(body) if COMPLETION(body) and is_format(body.get("response_format") or {}) else WRONG


def openai_completion_grade(body: Any, _: Sequence[str]) -> int:
    if not OPENAI_COMPLETION(body):
        return WRONG
    is_agreed = body.get("stream_options") is None or body.get("stream") in (True, "true")
    return OPENAI_COMPLETION(body) if is_agreed else WRONG


def chat_grade(body: Any, _: Sequence[str]) -> int:
    if not CHAT(body):
        return WRONG
    tools = {"client_tools": [{"name": tool["tool_name"]} for tool in body.get("tools") or ()]}
    return min(CHAT(body), agreement(body | tools))


def openai_chat_grade(body: Any, _: Sequence[str]) -> int:
    if not OPENAI_CHAT(body):
        return WRONG
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    choice = body.get("tool_choice") or "auto"
    limits = [body[name] for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None]
    is_served = (
        len(names) == len(set(names))
        and (choice in ("auto", "none") or (choice == "required" and bool(names)) or named_tool(choice) in names)
        and (body.get("stream_options") is None or body.get("stream") in (True, "true"))
    )
    if len({str(limit).removesuffix(".0") for limit in limits}) > 1:
        return WRONG
    return OPENAI_CHAT(body) if is_served else WRONG


def named_tool(choice: Any) -> Any:
    return choice["function"]["name"] if isinstance(choice, dict) else None


ENTRY_ID = "registered/one"


def identifier(value: Any) -> int:
    is_right = (
        isinstance(value, str)
        and len(value) <= 256
        and value.isprintable()
        and " " not in value
        and not {"", ".", ".."} & set(value.split("/"))
    )
    return RIGHT if is_right else WRONG


def toolgroup_id(value: Any) -> int:
    return RIGHT if identifier(value) and "/" not in value else WRONG


def uri(value: Any) -> int:
    if not isinstance(value, str) or not re.match(r"https?://[^/\s]", value):
        return WRONG
    is_plain = re.fullmatch(r"[!-~]+", value) and re.match(r"https?://[a-z0-9.]+(/|$)", value)
    return RIGHT if is_plain else UNSURE


def resource(value: Any) -> int:
    return text(value) if isinstance(value, str) and 0 < len(value) <= 2_048 else WRONG


MODEL = record(
    {"model_id": identifier},
    {
        "provider_id": nullable(one_of("default")),
        "metadata": nullable(mapping),
        "provider_model_id": nullable(resource),
        "model_type": nullable(one_of("llm", "embedding")),
    },
)
TOOLGROUP = record(
    {
        "toolgroup_id": toolgroup_id,
        "provider_id": one_of("model-context-protocol"),
        "mcp_endpoint": record({"uri": uri}),
    },
    {"args": nullable(mapping)},
)
SHIELD = record(
    {"shield_id": identifier},
    {
        "provider_id": nullable(one_of("llama-guard")),
        "provider_shield_id": nullable(text),
        "params": nullable(exactly({"categories": many(one_of("S1", "S2"), least=1), "on_failure": one_of("allow")})),
    },
)
ANY_MESSAGE = tagged(
    "role",
    {
        "user": record({"content": CONTENT}, {"context": nullable(CONTENT)}),
        "tool": record({"content": CONTENT, "call_id": text}),
        "system": record({"content": CONTENT}),
    },
)
RUN_SHIELD = record({"shield_id": text, "messages": many(ANY_MESSAGE, least=1)}, {"params": nullable(exactly({}))})


def tool_called(value: Any) -> int:
    return min(some(value), RIGHT if value == "current_time" else UNSURE) if text(value) else WRONG


INVOKE_TOOL = record({"tool_name": tool_called, "kwargs": mapping}, {})


def turn_grade(body: Any, _: Sequence[str]) -> int:
    if not TURN(body):
        return WRONG
    changes = {name: body[name] for name in OVERRIDES if body.get(name) is not None}
    return min(TURN(body), agreement(TOOLS | changes))


def resume_grade(body: Any, pending: Sequence[str]) -> int:
    if not RESUME(body):
        return WRONG
    return RESUME(body) if sorted(pending) == sorted(r["call_id"] for r in body["tool_responses"]) else WRONG


TOOLS = {
    "client_tools": [
        {
            "name": "get_weather",
            "description": "Get the weather of a city.",
            "parameters": [
                {"name": "city", "parameter_type": "string", "description": "Which.", "required": True, "default": None}
            ],
            "metadata": {"unit": "°C"},
        },
        {"name": "add", "description": None, "parameters": None, "metadata": None},
        {
            "name": "wait",
            "input_schema": {"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]},
            "output_schema": {"type": "object"},
            "toolgroup_id": None,
        },
    ]
}
FULL_OVERRIDES = TOOLS | {
    "sampling_params": {
        "strategy": {"type": "top_p", "temperature": 0.7, "top_p": 0.9},
        "max_tokens": 50,
        "repetition_penalty": 1.1,
        "stop": ["END"],
    },
    "input_shields": [],
    "output_shields": None,
    "toolgroups": ["builtin::clock/current_time", {"name": "builtin::clock", "args": {"timezone": "UTC"}}],
    "tool_choice": "required",
    "tool_prompt_format": "json",
    "tool_config": {"tool_choice": "required", "tool_prompt_format": "json", "system_message_behavior": "append"},
    "max_infer_iters": 5,
}
PLAIN = {"model": "offline", "instructions": "", "client_tools": [{"name": "add"}]}
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"type": "object"}}
AGENTS = (
    PLAIN | {"response_format": SCHEMA_FORMAT},
    PLAIN | {"response_format": {"type": "grammar", "bnf": {"grammar": "root ::= x"}}},
    PLAIN | {"sampling_params": {"strategy": {"type": "top_k", "top_k": 40}}, "tool_config": {"tool_choice": "add"}},
    PLAIN | {"sampling_params": {"strategy": {"type": "greedy"}}, "tool_choice": "required"},
)
ELSEWHERE = {
    "url": "https://example.com/{city}",
    "method": "POST",
    "params": {"a": "b"},
    "headers": {"x-key": "k", "x-count": 1},
    "body": {"c": [1]},
}
DEFINED = [
    {"type": "brave_search", "engine": "bing", "api_key": "key", "input_shields": [], "output_shields": ["s"]},
    {"type": "wolfram_alpha", "api_key": ""},
    {"type": "photogen", "remote_execution": None},
    {"type": "code_interpreter", "enable_inline_code_execution": False},
    {
        "type": "function_call",
        "function_name": "look",
        "description": "Look.",
        "parameters": {"city": {"param_type": "string", "description": "Where.", "required": True, "default": "Oslo"}},
        "remote_execution": ELSEWHERE,
    },
]
AGENTS += (PLAIN | {"tools": DEFINED},)
FULL_AGENT = FULL_OVERRIDES | {
    "model": "offline",
    "instructions": "Be brief.",
    "name": "tester",
    "enable_session_persistence": True,
}
MESSAGES = [
    {"role": "user", "content": {"type": "text", "text": "hello"}, "context": "in a low voice"},
    {"role": "user", "content": [{"type": "image", "image": {"url": {"uri": "http://a/b.png"}, "data": None}}]},
    {"role": "user", "content": "What is add(a=1, b=2)?", "context": None},
]
FULL_TURN = FULL_OVERRIDES | {"messages": MESSAGES, "stream": True, "documents": [], "instructions": "Be polite."}
CHATS = (
    {
        "model_id": "offline",
        "messages": [
            {"role": "system", "content": "Be brief."},
            *MESSAGES,
            {
                "role": "assistant",
                "content": "",
                "stop_reason": "end_of_turn",
                "tool_calls": [{"call_id": "a", "tool_name": "add", "arguments": {"a": 1}, "arguments_json": "{}"}],
            },
            {"role": "tool", "call_id": "a", "content": "3"},
        ],
        "sampling_params": FULL_OVERRIDES["sampling_params"],
        "tools": [
            {
                "tool_name": "add",
                "description": "Add.",
                "parameters": {"a": {"param_type": "int", "description": "One.", "required": True, "default": 1}},
            },
            {"tool_name": "wait", "description": None, "parameters": None},
        ],
        "tool_choice": "required",
        "tool_prompt_format": "json",
        "tool_config": {"tool_choice": "required", "tool_prompt_format": "json", "system_message_behavior": "append"},
        "response_format": None,
        "stream": True,
        "logprobs": None,
    },
    {"model_id": "offline", "messages": MESSAGES[2:], "response_format": {"type": "json_schema", "json_schema": {}}},
)
OPENAI_CHATS = (
    {
        "model": "offline",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be polite."}], "name": None},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is add(a=1)?"},
                    {"type": "image_url", "image_url": {"url": "http://a/b.png", "detail": "auto"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "3"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 50,
        "stop": ["END"],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Add.",
                    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    "strict": False,
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "sum", "schema": {"type": "object"}}},
        "n": 1,
        "modalities": ["text"],
        "logprobs": False,
        "store": False,
        "metadata": {"topic": "sums"},
        "seed": None,
        "user": None,
    },
    {"model": "offline", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 5, "stop": "END"},
)
COMPLETIONS = (
    {
        "model_id": "offline",
        "content": [{"type": "text", "text": "Once upon"}, {"type": "image", "image": {"data": "AAAA"}}],
        "sampling_params": FULL_OVERRIDES["sampling_params"],
        "response_format": {"type": "json_schema", "json_schema": {}},
        "stream": True,
        "logprobs": None,
    },
    {"model_id": "offline", "content": "Once upon"},
)
OPENAI_COMPLETIONS = (
    {
        "model": "offline",
        "prompt": ["Once upon", "a time"],
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False},
        "max_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "echo": True,
        "n": 1,
        "best_of": 1,
        "logprobs": False,
        "seed": None,
    },
    {"model": "offline", "prompt": "Once upon", "stop": "END"},
)
EMBEDS = (
    {
        "model_id": "offline",
        "contents": ["one", {"type": "text", "text": "two"}],
        "text_truncation": "none",
        "output_dimension": 384,
        "task_type": None,
    },
)
OPENAI_EMBEDS = (
    {"model": "offline", "input": ["one", "two"], "encoding_format": "float", "dimensions": 384, "user": None},
    {"model": "offline", "input": "one", "encoding_format": "base64"},
)
RESPONSES = [
    {"call_id": "@call0@", "tool_name": "add", "content": "3", "metadata": {"is_exact": True}},
    {"call_id": "@call1@", "tool_name": "get_weather", "content": [{"type": "text", "text": "sun"}], "metadata": None},
]


@dataclass(frozen=True)
class Bodies:
    """What a route takes: valid bodies to begin with, and how to grade any other. None where bodies are not read.

    Attributes:
        by_query: the grade of a request whose query decides it, whatever its body; None where it does not.
        names: what the body names, where paths don't: in it, `@agent_id@` stands for the true id, and so on.
        query: what comes before the query of a case.
    """

    valid: tuple[Any, ...]
    grade: Callable[[Any, Sequence[str]], int] | None = None
    by_query: Callable[[Mapping[str, list[str]]], int | None] = lambda _: None
    names: tuple[str, ...] = ()
    query: str = ""


def list_grade(query: Mapping[str, list[str]]) -> int:
    """Return the grade of what is asked of a list: numbers have to be numbers, a cursor one that was given.

    Nothing may be asked for twice; `name` is one of agents only, but no request here asks for it.
    """
    numbers = [text for name in ("start_index", "limit") for text in query.get(name, ())]
    are_right = all(text in ("", "null") or re.fullmatch(r"[0-9]{1,9}", text) for text in numbers)
    are_single = all(len(query.get(name, ())) < 2 for name in ("start_index", "limit", "cursor", "name"))
    return RIGHT if are_right and are_single and not any(query.get("cursor", ())) else WRONG


COMPLETION_ID = r"chatcmpl-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def completions_grade(query: Mapping[str, list[str]], after: str = COMPLETION_ID) -> int:
    """Return the grade of what is wanted of a list of OpenAI's: one value each, a place that there can be."""
    filters = [name for name in query if name == "model" or re.fullmatch(r"metadata\[[^]]+\]", name)]
    names = [name for name in query if name in ("after", "limit", "order")] + (
        filters if after == COMPLETION_ID else []
    )
    if any(len(query[name]) > 1 for name in names):
        return WRONG
    given = {name: query[name][0] for name in names}
    limit = given.get("limit") or "1"
    is_right = (
        re.fullmatch(rf"({after})?", given.get("after", ""))
        and re.fullmatch(r"[0-9]{1,9}", limit)
        and int(limit) > 0
        and given.get("order", "") in ("", "asc", "desc")
    )
    return RIGHT if is_right else WRONG


def after_grade(query: Mapping[str, list[str]]) -> int:
    (given,) = query.get("after", [""]) if len(query.get("after", ())) < 2 else ["several"]
    return RIGHT if re.fullmatch(r"[0-9]{0,15}", given) else WRONG


def usage_grade(query: Mapping[str, list[str]]) -> int:
    """Return the grade of what is asked of usage: days have to be such, in their order, and not too many."""
    if any(len(query.get(name, ())) > 1 for name in ("agent_id", "session_id", "from", "to")):
        return WRONG
    if any(query.get("session_id", ())) and not any(query.get("agent_id", ())):
        return WRONG
    try:
        days = {name: date.fromisoformat(query[name][0]) for name in ("from", "to") if any(query.get(name, ()))}
    except ValueError:
        return WRONG
    if any(query[name][0] != day.isoformat() for name, day in days.items()):
        return WRONG
    if "to" not in days or "from" not in days:
        return RIGHT
    return RIGHT if 0 <= (days["to"] - days["from"]).days < 31 else WRONG


IDS_2024 = ("agent_id", "session_id", "turn_id", "step_id")


def named_ids(number: int) -> dict[str, str]:
    return {name: f"@{name}@" for name in IDS_2024[:number]}


STRATEGY_2024 = either(one_of("greedy", "top_p", "top_k"), STRATEGY)
SAMPLING_2024 = record(
    {},
    {
        "strategy": STRATEGY_2024,
        "temperature": nullable(number()),
        "top_p": nullable(number()),
        "top_k": nullable(number(whole_from=0)),
        "max_tokens": number(whole_from=0),
        "repetition_penalty": number(),
        "stop": nullable(many(text)),
    },
)


def sampling_2024(value: Any) -> int:
    """Grade sampling parameters whose strategy may be told by its name, its numbers beside it."""
    grade = SAMPLING_2024(value)
    if grade and value.get("strategy") == "top_k" and value.get("top_k") in (None, 0, "0", 0.0):
        return WRONG
    temperature = value.get("temperature") if grade else None
    is_cold = isinstance(temperature, int | float) and temperature < 0
    return WRONG if is_cold and value.get("strategy") == "top_p" else grade


CONFIG_2024 = CONFIG | {"sampling_params": sampling_2024}
AGENT_2024 = record({"agent_config": record({"model": text, "instructions": text}, CONFIG_2024)})
NAMED = {name: text for name in IDS_2024}
TURN_2024 = record(
    {"agent_id": text, "session_id": text, "messages": many(USER_MESSAGE, least=1)},
    {"stream": flag, "attachments": NONE_YET},
)


def agent_2024_grade(body: Any, _: Sequence[str]) -> int:
    return min(AGENT_2024(body), agreement(body["agent_config"], names_count=False)) if AGENT_2024(body) else WRONG


def about_2024(*required: str, **optional: Shape) -> Callable[[Any, Sequence[str]], int]:
    shape = record({name: text for name in required}, optional)
    return lambda body, _: shape(body)


DELETED = 204
DELETES_2024 = {
    "/agents/delete": "/v1/agents/{agent_id}",
    "/agents/session/delete": "/v1/agents/{agent_id}/session/{session_id}",
}
REGISTRIES = ("/v1/models", "/v1/toolgroups", "/v1/shields")
OPENAI_MODELS = "/v1/openai/v1/models"
STORED = "/v1/openai/v1/chat/completions"
RUN = ("POST", "/v1/safety/run-shield")  # of a shield that is registered for it
UNREAD = Bodies(({"any": ["thing", 1]},))
SESSION_PATH = "/v1/agents/{agent_id}/session/{session_id}"
TURN_PATH = SESSION_PATH + "/turn/{turn_id}"
BODIES = {
    ("POST", "/v1/agents"): Bodies(tuple({"agent_config": agent} for agent in (FULL_AGENT, *AGENTS)), agent_grade),
    ("GET", "/v1/agents"): Bodies(UNREAD.valid, by_query=lambda query: list_grade(query)),
    ("GET", "/v1/agents/{agent_id}"): UNREAD,
    ("DELETE", "/v1/agents/{agent_id}"): UNREAD,
    ("DELETE", SESSION_PATH): UNREAD,
    ("GET", "/v1/agents/{agent_id}/sessions"): Bodies(UNREAD.valid, by_query=lambda query: list_grade(query)),
    ("POST", "/v1/agents/{agent_id}/session"): Bodies(
        ({"session_name": "first", "vector_db_id": None},), lambda body, _: SESSION(body)
    ),
    ("GET", SESSION_PATH): Bodies(
        ({"turn_ids": ["a", "b"]}, ["a"], {}),
        lambda body, _: WANTED(body),
    ),
    ("POST", SESSION_PATH + "/turn"): Bodies((FULL_TURN, AGENTS[0] | {"messages": MESSAGES[-1:]}), turn_grade),
    ("POST", TURN_PATH + "/resume"): Bodies(({"tool_responses": RESPONSES, "stream": False},), resume_grade),
    ("POST", TURN_PATH + "/cancel"): UNREAD,
    ("GET", TURN_PATH): UNREAD,
    ("GET", TURN_PATH + "/events"): Bodies(UNREAD.valid, by_query=lambda query: after_grade(query)),
    ("GET", TURN_PATH + "/step/{step_id}"): UNREAD,
    ("GET", SESSION_PATH + "/context"): UNREAD,
    ("GET", "/v1/usage"): Bodies(UNREAD.valid, by_query=lambda query: usage_grade(query)),
    ("GET", "/v1/health"): UNREAD,
    ("GET", "/v1/version"): UNREAD,
    ("GET", "/v1/openapi.json"): UNREAD,
    ("GET", "/v1/docs"): UNREAD,
    ("GET", "/"): UNREAD,
    ("GET", "/v1/models"): UNREAD,
    ("GET", "/v1/models/{model_id}"): UNREAD,
    ("DELETE", "/v1/models/{model_id}"): UNREAD,
    ("GET", "/v1/openai/v1/models"): UNREAD,
    ("GET", "/v1/openai/v1/models/{model_id}"): UNREAD,
    ("DELETE", "/v1/openai/v1/models/{model_id}"): UNREAD,
    ("POST", "/v1/models"): Bodies(
        (
            {"model_id": ENTRY_ID, "metadata": {"a": [1, None]}, "provider_id": "default", "model_type": "llm"},
            {"model_id": "b", "provider_model_id": "b"},
        ),
        lambda body, _: MODEL(body),
    ),
    ("GET", "/v1/providers"): UNREAD,
    ("GET", "/v1/providers/{provider_id}"): UNREAD,
    ("GET", "/v1/toolgroups"): UNREAD,
    ("GET", "/v1/toolgroups/{toolgroup_id}"): UNREAD,
    ("DELETE", "/v1/toolgroups/{toolgroup_id}"): UNREAD,
    ("POST", "/v1/toolgroups"): Bodies(
        (
            {
                "toolgroup_id": "mcp::a",
                "provider_id": "model-context-protocol",
                "mcp_endpoint": {"uri": "https://10.0.0.1/mcp"},
                "args": {"a": None},
            },
        ),
        lambda body, _: TOOLGROUP(body),
    ),
    ("GET", "/v1/shields"): UNREAD,
    ("GET", "/v1/shields/{identifier}"): UNREAD,
    ("DELETE", "/v1/shields/{identifier}"): UNREAD,
    ("POST", "/v1/shields"): Bodies(
        (
            {
                "shield_id": ENTRY_ID,
                "provider_shield_id": "guard",
                "provider_id": "llama-guard",
                "params": {"categories": ["S1", "S2"], "on_failure": "allow"},
            },
        ),
        lambda body, _: SHIELD(body),
    ),
    RUN: Bodies(
        (
            {
                "shield_id": ENTRY_ID,
                "messages": [
                    {"role": "system", "content": "Be kind."},
                    {"role": "user", "content": "hello", "context": [{"type": "text", "text": "x"}]},
                    {"role": "tool", "call_id": "c", "content": {"type": "image", "image": {"data": "AAAA"}}},
                ],
                "params": {},
            },
        ),
        lambda body, _: RUN_SHIELD(body),
    ),
    ("POST", "/v1/inference/chat-completion"): Bodies(CHATS, chat_grade),
    ("POST", "/v1/openai/v1/chat/completions"): Bodies(OPENAI_CHATS, openai_chat_grade),
    ("GET", STORED): Bodies(UNREAD.valid, by_query=lambda query: completions_grade(query)),
    ("GET", STORED + "/{completion_id}"): UNREAD,
    ("DELETE", STORED + "/{completion_id}"): UNREAD,
    ("POST", STORED + "/{completion_id}"): Bodies(
        ({"metadata": {"topic": "sums"}}, {"metadata": None}),
        lambda body, _: exact({"metadata": nullable(metadata)})(body),
    ),
    ("GET", STORED + "/{completion_id}/messages"): Bodies(
        UNREAD.valid, by_query=lambda query: completions_grade(query, COMPLETION_ID + "-[0-9]+")
    ),
    ("POST", "/v1/inference/completion"): Bodies(COMPLETIONS, completion_grade),
    ("POST", "/v1/openai/v1/completions"): Bodies(OPENAI_COMPLETIONS, openai_completion_grade),
    ("POST", "/v1/inference/embeddings"): Bodies(EMBEDS, lambda body, _: EMBED(body)),
    ("POST", "/v1/openai/v1/embeddings"): Bodies(OPENAI_EMBEDS, lambda body, _: OPENAI_EMBED(body)),
    ("POST", "/agents/create"): Bodies(
        (
            {"agent_config": AGENTS[-1] | {"sampling_params": {"strategy": "top_p", "temperature": 0.7, "top_p": 0.9}}},
            {"agent_config": PLAIN | {"sampling_params": {"strategy": "top_k", "top_k": 5, "max_tokens": 9}}},
        ),
        agent_2024_grade,
    ),
    ("POST", "/agents/delete"): Bodies((named_ids(1),), about_2024("agent_id"), names=IDS_2024[:1]),
    ("POST", "/agents/session/create"): Bodies(
        ({**named_ids(1), "session_name": "first"},), about_2024("agent_id", "session_name"), names=IDS_2024[:1]
    ),
    ("POST", "/agents/session/get"): Bodies(
        (named_ids(2), {**named_ids(2), "turn_ids": ["a"]}),
        about_2024("agent_id", "session_id", turn_ids=nullable(many(text))),
        names=IDS_2024[:2],
    ),
    ("POST", "/agents/session/delete"): Bodies((named_ids(2),), about_2024(*IDS_2024[:2]), names=IDS_2024[:2]),
    ("POST", "/agents/turn/create"): Bodies(
        ({**named_ids(2), "messages": MESSAGES, "attachments": [], "stream": True},),
        lambda body, _: TURN_2024(body),
        names=IDS_2024[:2],
    ),
    ("POST", "/agents/turn/get"): Bodies(
        (named_ids(3),), about_2024("agent_id", "turn_id", session_id=nullable(text)), names=IDS_2024[:3]
    ),
    ("POST", "/agents/step/get"): Bodies(
        (named_ids(4),), about_2024("agent_id", "turn_id", "step_id", session_id=nullable(text)), names=IDS_2024
    ),
    ("GET", "/agents/turn/get"): Bodies(
        UNREAD.valid,
        by_query=lambda query: RIGHT if len(query.get("session_id", ())) < 2 else WRONG,
        names=IDS_2024[:3],
        query="agent_id={agent_id}&turn_id={turn_id}",
    ),
    ("GET", "/agents/step/get"): Bodies(
        UNREAD.valid,
        by_query=lambda query: RIGHT if len(query.get("session_id", ())) < 2 else WRONG,
        names=IDS_2024,
        query="agent_id={agent_id}&turn_id={turn_id}&step_id={step_id}",
    ),
    ("GET", "/v1/tools/{tool_name}"): UNREAD,
    ("POST", "/v1/tool-runtime/invoke"): Bodies(
        ({"tool_name": "current_time", "kwargs": {"timezone": "UTC"}},), lambda body, _: INVOKE_TOOL(body)
    ),
    ("GET", SESSION_PATH + "/attachments/{attachment_id}"): UNREAD,
    ("GET", "/v1/tool-runtime/list-tools"): Bodies(
        UNREAD.valid, by_query=lambda query: RIGHT if GROUPS.issuperset(query.get("tool_group_id", ())) else WRONG
    ),
    ("GET", "/v1/tools"): Bodies(
        UNREAD.valid, by_query=lambda query: RIGHT if GROUPS.issuperset(query.get("toolgroup_id", ())) else WRONG
    ),
}

JUNK: list[Any] = [None, True, False, 0, -1, 1, 3.0, 0.5, 2**63, -(10**30), 10**400, 1e308, float("nan"), float("inf")]
JUNK += ["", "x", "10", "yes", "²", "٣", "\x00", "\ud800", "\udfff\ud800", "😀", "a" * 5_000, "add", "grammar"]
JUNK += [[], {}, [[]], [None], [{}], ["x"], {"": None}, {"type": "text"}, {"\ud800": 1}, {"role": "tool"}]
LITERALS = {"@deep@": "[" * 10_000 + "]" * 10_000, "@deeper@": '{"a":' * 10_000 + "0" + "}" * 10_000}
LITERALS |= {"@digits@": "9" * 5_000, "@endless@": "1e999", "@octal@": "010", "@word@": "undefined"}
# one of each kind, for every run; the night takes them all
SUBSTITUTES: list[Any] = [None, True, -1, 0.5, 10**400, "@endless@", "", "x", "a" * 5_000, "\ud800", [None], {}]
PIECES = [b"\x00", b"\xff", b"\xc0\xae", b"\xed\xa0\x80", b",", b"}", b'"', b"\\", b"NaN", b"//", b"\xef\xbb\xbf", b" "]
WAYS_TO_SPOIL = ["cut", "twice", "utf-16", "key twice", "quoted", "listed"]
PARTS = r"""
. .. ../ %2e%2e%2f ..%2f..%2fetc%2fpasswd %00 %ZZ % %c0%ae %ff %ED%A0%80 %F0%9F%98%80 | a|b : # %23 %25 %2F %5C %0A %20
~ ctx:~ turn: null -1 * + ' \ @%00 %20@ @%0A @/ /@ @@
"""
ODD_IDS = ["", "a" * 5_000, "%61" * 5_000, *PARTS.split()]
QUERIES = [b"stream=true", b"&&==", b"%zz=%ff", b"turn_ids=", b"turn_ids=%00&turn_ids=%ff", b"'\"|\\", b"a" * 5_000]
QUERIES += [b"after=", b"after=3", b"after=-1", b"after=1e3", b"after=x&after=99999999", b"after=%D9%A3"]
QUERIES += [b"toolgroup_id=%00", b"toolgroup_id=builtin::clock", b"toolgroup_id=builtin%3A%3Aclock&toolgroup_id=a%2Fb"]
QUERIES += [b"from=2026-11-22&to=2026-11-22", b"from=2026-11-01&to=2026-12-02", b"from=2026-11-22&to=2026-11-21"]
QUERIES += [b"to=2026-02-29", b"to=20261122", b"to=0001-01-01", b"from=&to=", b"session_id=x", b"from=%D9%A3"]
QUERIES += [b"limit=5&order=asc", b"limit=0", b"limit=101", b"order=up", b"metadata%5Btopic%5D=sums", b"model=offline"]
QUERIES += [b"metadata[a]=1&metadata[a]=2", b"metadata[]=1", b"metadata=1", b"order=&limit=&after="]
COUNTS = [b"", b"0", b"1", b"-1", b"1.5", b"true", b"garbage", b"9" * 400, b"\xb2", "٣".encode()]
KEYS = [b"", b"k", b"a|b:c#d%", b"k" * 5_000, b"\x80\xff\xfe", "😀".encode()]
TYPES = [b"text/plain", b"application/x-www-form-urlencoded", b"application/json; charset=utf-16", b"\xff"]
HEADERS = {b"x-stainless-retry-count": COUNTS, b"idempotency-key": KEYS, b"content-type": TYPES}


SOMETIMES = st.sampled_from([False, False, False, True])
ANYWHERE = st.integers(0, 9_999)
VALUES = st.sampled_from([*JUNK, *LITERALS]) | st.text() | st.integers() | st.floats()
WAYS_TO_CHANGE = st.sampled_from(["replace", "replace", "remove", "wrap", "add"])
CHANGES = st.lists(st.tuples(ANYWHERE, WAYS_TO_CHANGE, VALUES), max_size=2)
SPOILINGS = st.tuples(st.sampled_from([*WAYS_TO_SPOIL, *PIECES]), ANYWHERE)
IDS = st.sampled_from(ODD_IDS) | st.text().map(quote)
QUERY = st.sampled_from([b""] * 20 + QUERIES)
HEADER = st.sampled_from([(name, value) for name, values in HEADERS.items() for value in values])
SOME_HEADERS = st.lists(HEADER, min_size=1, max_size=2).map(tuple)
EITHER_WAY = st.booleans()


@dataclass(frozen=True)
class Case:
    """A request, before it is known what is there. `odd_id` is (parameter, text), where `@` stands for the true id."""

    body: bytes
    odd_id: tuple[str, str] | None
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    cut_at: int


@st.composite
def cases(draw: st.DrawFn, route: Route) -> Case:
    names = re.findall(r"{(\w+)}", route.path)
    valid = BODIES[route.method, route.path].valid
    body = written(changed(valid[draw(ANYWHERE) % len(valid)], draw(CHANGES)), in_ascii=draw(EITHER_WAY))
    if draw(SOMETIMES):
        body = spoilt(body, *draw(SPOILINGS))
    return Case(
        body=body,
        odd_id=(names[draw(ANYWHERE) % len(names)], draw(IDS)) if names and draw(SOMETIMES) else None,
        query=draw(QUERY),
        headers=draw(SOME_HEADERS) if draw(SOMETIMES) else (),
        cut_at=draw(ANYWHERE) % (len(body) + 1),
    )


def changed(valid: Any, changes: Sequence[tuple[int, str, Any]]) -> Any:
    """Return the body with a change here and there, at any depth."""
    holder = {"body": copy.deepcopy(valid)}
    for where, way, value in changes:
        places = list(places_in(holder))
        within, key = places[where % len(places)]
        if way == "remove" and within is not holder:
            del within[key]
        elif way == "add" and isinstance(within[key], dict):
            within[key]["unknown"] = copy.deepcopy(value)
        else:
            within[key] = [within[key]] if way == "wrap" else copy.deepcopy(value)
    return holder["body"]


def written(body: Any, *, in_ascii: bool) -> bytes:
    text = json.dumps(body, ensure_ascii=in_ascii)
    for marker, literal in LITERALS.items():
        text = text.replace(f'"{marker}"', literal)
    return text.encode("utf-8", "surrogatepass")


def places_in(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where each value within the holder is, at any depth."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from places_in(holder[key])


def spoilt(raw: bytes, how: str | bytes, where: int) -> bytes:
    """Return the text as a careless or hostile client might send it."""
    at = where % (len(raw) + 1)
    match how:
        case "cut":
            return raw[:at]
        case "twice":
            return raw + raw
        case "utf-16":
            return raw.decode("utf-8", "replace").encode("utf-16")
        case "key twice":
            return re.sub(rb'^{("[^"]*")', rb"{\1: 5, \1", raw)
        case "quoted":
            return json.dumps(raw.decode("utf-8", "replace")).encode()
        case "listed":
            return b"[" + raw + b"]"
        case _:
            return raw[:at] + bytes(how) + raw[at:]


class World:
    """One server with an agent, a session and a turn of it, for the cases of one route."""

    def __init__(self, server: Served, route: Route) -> None:
        self._server = server
        self._route = route
        self._bodies = BODIES[route.method, route.path]
        self._ids: dict[str, str] = {}
        self._ids |= {"model_id": ENTRY_ID, "toolgroup_id": "mcp::a", "identifier": ENTRY_ID}
        self._ids |= {"tool_name": "current_time", "provider_id": "default"}
        self._pending: list[str] = []
        self._register()
        self._make_agent()
        self._begin_again()

    def check(self, case: Case) -> None:
        """Send the request; see that the answer is true, and that nothing happened unless it says so."""
        request = self._request(case)
        before = self._server.marks()
        answer = self._server.client.send(request)
        after = self._server.marks()
        assert answer.status in self._true_statuses(request), answer
        if answer.status == 200:
            check_success(answer)
        elif answer.status == DELETED:
            assert answer.body == b""
        else:
            assert answer.refusal()
        if answer.status == 200 and self._route.path in DELETES_2024:
            assert self._server.client.get(self._at(DELETES_2024[self._route.path])).status == 404
            self._make_agent()
            self._begin_again()
            return
        if answer.status == 200 and request.method != "GET" and self._route.path.startswith(STORED):
            self._check_stored(request, answer, has_changed=before != after)
            return
        if answer.status == 200 and request.method == "DELETE" and self._route.path.startswith(OPENAI_MODELS):
            self._check_registered(request)
            return
        if (
            answer.status not in (200, DELETED)
            or request.method == "GET"
            or not self._route.stores
            or self._runs_shield
        ):
            assert before == after
            return
        if self._route.path.startswith(REGISTRIES):
            self._check_registered(request)
            return
        if answer.status == DELETED:
            assert self._server.client.get(self._at(self._route.path)).status == 404
            self._make_agent()
            self._begin_again()
            return
        assert self._server.client.get(self._made(answer)).status == 200
        if "/turn" in self._route.path:
            self._begin_again()

    def _check_stored(self, request: Raw, answer: Answered, *, has_changed: bool) -> None:
        """See that a chat completion is stored, changed or gone, as was wanted."""
        client = self._server.client
        if self._route.path == STORED:
            is_stored = understood(b"".join(request.body)).get("store") in (True, "true")
            assert is_stored == has_changed
            (completion_id,) = set(re.findall(rb'"id":"(chatcmpl-[^"]+)"', answer.body))
            assert client.get(f"{STORED}/{completion_id.decode()}").status == (200 if is_stored else 404)
        elif request.method == "DELETE":
            assert client.get(self._at(self._route.path)).status == 404
            self._store()
        else:
            assert client.get(self._at(self._route.path)).body == answer.body

    def _store(self) -> None:
        body = {"model": "offline", "messages": [{"role": "user", "content": "hi"}], "store": True}
        self._ids["completion_id"] = self._server.client.post(STORED, body).json()["id"]

    def _check_registered(self, request: Raw) -> None:
        """See that what was registered is there, or what was removed is gone; and have things as they were."""
        client = self._server.client
        if request.method == "DELETE":
            assert client.get(self._at(self._route.path)).status == 404
            self._register()
            return
        body = understood(b"".join(request.body))
        (entry_id,) = (value for name, value in body.items() if name in ("model_id", "toolgroup_id", "shield_id"))
        target = f"{self._route.path}/{quote(entry_id, safe='/')}".encode()
        found = client.send(Raw("GET", target))
        if found.status == 404 and any(name == b"idempotency-key" and value for name, value in request.headers):
            return  # a repetition of a request that was done before what it made was removed here
        assert found.json()["identifier"] == entry_id
        assert client.send(Raw("DELETE", target)).status == 200

    def _register(self) -> None:
        """Register what the paths name, where that is what they are about."""
        for path in REGISTRIES:
            is_named = self._runs_shield and path == "/v1/shields"
            if self._route.path.removeprefix("/v1/openai").startswith(path + "/") or is_named:
                assert self._server.client.post(path, BODIES["POST", path].valid[0]).status == 200

    def _make_agent(self) -> None:
        made = self._server.client.post("/v1/agents", {"agent_config": FULL_AGENT}).json()
        self._ids["agent_id"] = made["agent_id"]

    def _at(self, path: str) -> str:
        return path.format_map(self._ids)

    def _begin_again(self) -> None:
        """Have a new session with a turn: an ended one to read, one that waits for its client to resume."""
        client = self._server.client
        session = client.post(self._at("/v1/agents/{agent_id}/session"), {"session_name": "s"}).json()
        self._ids["session_id"] = session["session_id"]
        if "{completion_id}" in self._route.path:
            self._store()
        if "{attachment_id}" in self._route.path:
            ref = SessionRef(tenant="local", agent_id=self._ids["agent_id"], session_id=self._ids["session_id"])
            self._ids["attachment_id"] = attach(self._server, ref, "a file")
        if "{turn_id}" in self._route.path or "turn_id" in self._bodies.names:
            words = "add(a=1) get_weather(city=Oslo)" if self._route.method == "POST" else "hello"
            messages = [{"role": "user", "content": words}]
            turn = client.post(self._at(SESSION_PATH + "/turn"), {"messages": messages}).json()
            self._ids |= {"turn_id": turn["turn_id"], "step_id": turn["steps"][0]["step_id"]}
            self._pending = [call["call_id"] for call in turn["output_message"]["tool_calls"]]

    def _made(self, answer: Answered) -> str:
        """Return where that which the answer tells of can be read."""
        found = re.search(r'"(agent_id|session_id|turn_id)":"([^"]*)"', answer.body.decode())
        assert found is not None
        kind, identifier = found.groups()
        paths = {"agent_id": "/v1/agents/{agent_id}", "session_id": SESSION_PATH, "turn_id": TURN_PATH}
        return paths[kind].format_map(self._ids | {kind: identifier})

    def _request(self, case: Case) -> Raw:
        ids = dict(self._ids)
        if case.odd_id:
            name, odd = case.odd_id
            ids[name] = odd.replace("@@", quoted_all(ids[name])).replace("@", ids[name])
        query = b"&".join(filter(None, (self._bodies.query.format_map(ids).encode(), case.query)))
        target = self._route.path.format_map(ids).encode() + (b"?" + query if query else b"")
        body = case.body
        for name in self._bodies.names:
            body = body.replace(b"@%s@" % name.encode(), ids[name].encode())
        for index, call_id in enumerate(self._pending):
            body = body.replace(b"@call%d@" % index, call_id.encode())
        return Raw(self._route.method, target, (body[: case.cut_at], body[case.cut_at :]), case.headers)

    @property
    def _deletes(self) -> bool:
        return self._route.method == "DELETE" and not self._route.path.startswith((*REGISTRIES, OPENAI_MODELS, STORED))

    @property
    def _runs_tool(self) -> bool:
        return self._route.path == "/v1/tool-runtime/invoke"

    @property
    def _runs_shield(self) -> bool:
        return (self._route.method, self._route.path) == RUN

    def _true_statuses(self, request: Raw) -> set[int]:
        path, _, query = request.target.partition(b"?")
        grade = self._grade(b"".join(request.body), query)
        if unquote(path.decode()) == self._at(self._route.path):
            done = DELETED if self._deletes else 200
            true = {WRONG: {400}, UNSURE: {done, 400}, RIGHT: {done}}[grade]
            if self._bodies.names and not self._is_named(request):
                true = {404} if grade == RIGHT else {400, 404}
            if self._runs_shield and grade and understood(b"".join(request.body))["shield_id"] != ENTRY_ID:
                true = true - {done} | {404}
            if self._runs_tool and grade and understood(b"".join(request.body))["tool_name"] != "current_time":
                true = {400, 404}
        else:
            true = {404, 405} if grade == RIGHT else {400, 404, 405}
        named = {name for name, value in request.headers if value}
        if b"content-type" in named:
            true |= {415}
        return true | {409} if b"idempotency-key" in named and request.method == "POST" else true

    def _is_named(self, request: Raw) -> bool:
        """Tell whether the request names what is there, as far as it names anything, in its query or its body."""
        named: dict[str, Any] = {}
        if request.method == "GET" or self._route.query:
            query = request.target.partition(b"?")[2].decode(errors="replace")
            named = {name: given[0] for name, given in parse_qs(query, keep_blank_values=True).items()}
        if request.method == "POST":
            with suppress(ValueError):
                body = understood(b"".join(request.body))
                named |= body if isinstance(body, dict) else {}
        return all(named.get(name) in (None, self._ids[name]) for name in self._bodies.names)

    def _grade(self, body: bytes, query: bytes) -> int:
        by_query = self._bodies.by_query(parse_qs(query.decode(), keep_blank_values=True))
        if by_query is not None:
            return by_query
        if self._bodies.grade is None or (self._route.method == "GET" and not body.strip(b" \t\r\n")):
            return RIGHT
        try:
            return self._bodies.grade(understood(body), self._pending)
        except ValueError:
            return WRONG


def understood(body: bytes) -> Any:
    """Return the JSON a body holds. Raises ValueError for all that is none, or can't be kept as JSON in UTF-8."""
    try:
        value = strict_json(body.decode())
    except RecursionError as exc:
        raise ValueError("nested too deep") from exc
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # 1e999 is read as infinite
    return value


def quoted_all(identifier: str) -> str:
    return "".join(f"%{byte:02x}" for byte in identifier.encode())


@lru_cache(maxsize=1)
def is_object_or_null(body: bytes) -> bool:
    """Tell what the body is, at once where it is that of the answer before: the document, thousands of times."""
    return isinstance(strict_json(body.decode()), dict | None)


def check_success(answer: Answered) -> None:
    """See that the body is JSON, a page, the attachment, or a stream of JSON that ends as a turn ends."""
    if answer.headers["content-type"] == "application/json":
        assert is_object_or_null(answer.body)
        return
    if answer.headers["content-type"] == "text/plain":
        assert answer.body == b"a file"
        return
    if answer.headers["content-type"] == "text/html; charset=utf-8":
        assert answer.body.startswith(b"<!doctype html>")
        return
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    told = [event.rpartition("data: ")[2] for event in answer.body.decode().split("\n\n") if event]
    if told and told[-1] == "[DONE]":
        assert strict_json(told[-2])["object"] in ("chat.completion.chunk", "text_completion")
        return
    if not told:
        return  # to who has heard all
    events = [strict_json(event) for event in told]
    if "delta" in events[-1]:
        assert events[-1]["stop_reason"]
        return
    last = events[-1]["event"]
    assert last.get("payload", last)["event_type"] in ("turn_complete", "turn_awaiting_input", "complete")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """Serve one route's cases alone: what those of another made would be in every list."""
    with served(tmp_path) as serving:
        serving.server._jobs.close()  # what cleans up after deletions would change the store between two looks
        yield serving


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


WITH_BODIES = [route for route in ROUTES if BODIES.get((route.method, route.path), UNREAD).grade]


@pytest.mark.slow
@pytest.mark.parametrize("route", WITH_BODIES, ids=named)
def test_every_value_of_a_valid_body_is_looked_at(server: Served, route: Route) -> None:
    check_substitutes(World(server, route), route, SUBSTITUTES)


@pytest.mark.nightly
@pytest.mark.parametrize("route", WITH_BODIES, ids=named)
def test_every_value_of_a_valid_body_is_looked_at_with_all_that_may_stand_there(server: Served, route: Route) -> None:
    check_substitutes(World(server, route), route, [*JUNK, *LITERALS])


def check_substitutes(world: World, route: Route, substitutes: Sequence[Any]) -> None:
    changes = [("remove", None), ("wrap", None), *(("replace", value) for value in substitutes)]
    for valid in BODIES[route.method, route.path].valid:
        for where, _ in enumerate(places_in({"body": valid})):
            for way, value in changes:
                body = written(changed(valid, [(where, way, value)]), in_ascii=where % 2 == 0)
                world.check(Case(body, odd_id=None, query=b"", headers=(), cut_at=0))


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_whatever_is_sent_is_answered_truly(server: Served, route: Route) -> None:
    check_cases(World(server, route), route, CASES)


@pytest.mark.nightly
@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_whatever_else_is_sent_is_answered_truly(server: Served, route: Route, fresh_seed: int) -> None:
    check_cases(World(server, route), route, CASES_AT_NIGHT, fresh_seed)


def check_cases(world: World, route: Route, count: int, seed: int | None = None) -> None:
    made = 0

    @generated(count, seed)
    @given(cases(route))
    def check(case: Case) -> None:
        nonlocal made
        made += 1
        world.check(case)

    check()
    assert made >= count
