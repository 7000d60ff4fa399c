"""Valid bodies of every route, each with its grade by `body_shapes`, and the answers that a route may give."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from tests.support.server import file_bodies, memory_bodies
from tests.support.server.bodies import letta as letta_bodies
from tests.support.server.bodies import responses as response_bodies
from tests.support.server.bodies import vector_stores as vector_store_bodies
from tests.support.server.bodies import webhooks as webhook_bodies
from tests.support.server.body_shapes import (
    CONFIG,
    EMBED,
    ENTRY_ID,
    GROUPS,
    INVOKE_TOOL,
    MODEL,
    OPENAI_EMBED,
    RIGHT,
    RUN_SHIELD,
    SESSION,
    SHIELD,
    STRATEGY,
    TOOLGROUP,
    TOOLS,
    TURN_QUERY,
    USER_MESSAGE,
    WRONG,
    Shape,
    agent_grade,
    agreement,
    chat_grade,
    completion_grade,
    document,
    either,
    exact,
    flag,
    many,
    metadata,
    nullable,
    number,
    one_of,
    openai_chat_grade,
    openai_completion_grade,
    record,
    resume_grade,
    text,
    turn_grade,
)

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
    {
        "type": "memory",
        "memory_bank_configs": [
            {"type": "vector", "bank_id": "a"},
            {"type": "keyvalue", "bank_id": "b", "keys": ["k"]},
            {"type": "graph", "bank_id": "c", "entities": ["e"]},
        ],
        "query_generator_config": {"type": "default", "sep": " "},
        "max_tokens_in_context": 1_000,
        "max_chunks": 5,
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
DOCUMENT = {"content": "The office is closed on Mondays.", "mime_type": "text/plain"}
FULL_TURN = FULL_OVERRIDES | {
    "messages": MESSAGES,
    "stream": True,
    "documents": [DOCUMENT],
    "instructions": "Be polite.",
}
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
        "task_type": "query",
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
    """The bodies of a route: valid ones to begin with, and a grade of any other. None where bodies are not read.

    Attributes:
        by_query: the grade of a request whose query decides it, whatever its body; None where it does not.
        names: the ids in the body, where paths have none: in it, `@agent_id@` stands for the true id, and so on.
        query: the text before the query of a case.
    """

    valid: tuple[Any, ...]
    grade: Callable[[Any, Sequence[str]], int] | None = None
    by_query: Callable[[Mapping[str, list[str]]], int | None] = lambda _: None
    names: tuple[str, ...] = ()
    query: str = ""


def list_grade(query: Mapping[str, list[str]]) -> int:
    """Return the grade of a list's query: numbers have to be numbers, a cursor one that was issued.

    No parameter may come twice; `name` is one of agents only, but no request here has it.
    """
    numbers = [text for name in ("start_index", "limit") for text in query.get(name, ())]
    are_right = all(text in ("", "null") or re.fullmatch(r"[0-9]{1,9}", text) for text in numbers)
    are_single = all(len(query.get(name, ())) < 2 for name in ("start_index", "limit", "cursor", "name"))
    return RIGHT if are_right and are_single and not any(query.get("cursor", ())) else WRONG


COMPLETION_ID = r"chatcmpl-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def completions_grade(query: Mapping[str, list[str]], after: str = COMPLETION_ID) -> int:
    """Return the grade of the query of one of OpenAI's lists: one value each, a possible position."""
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
    """Return the grade of the query of usage: days have to be such, in their order, and not too many."""
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
    """Grade sampling parameters whose strategy may be a name, with its numbers next to it."""
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
    {"stream": flag, "attachments": nullable(many(document))},
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
    "/memory-banks/unregister": "/v1/memory-banks/{memory_bank_id}",
}
REGISTRIES = ("/v1/models", "/v1/toolgroups", "/v1/shields", "/v1/vector-dbs", "/v1/memory-banks")
BANK_PATH = "/v1/memory-banks/{memory_bank_id}"
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
        lambda body, _: TURN_QUERY(body),
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
    **dict.fromkeys(memory_bodies.READ, UNREAD),
    **{
        route: Bodies(
            (valid,),
            lambda body, _, grade=grade: grade(body),
            names=(memory_bodies.NAMED[route[1]],) if route[1] in memory_bodies.NAMED else (),
        )
        for route, (valid, grade) in memory_bodies.GRADES.items()
    },
    ("GET", BANK_PATH + "/documents"): Bodies(UNREAD.valid, by_query=memory_bodies.documents_grade),
    ("GET", "/memory-banks/get"): Bodies(
        UNREAD.valid,
        by_query=lambda query: RIGHT if len(query.get("memory_bank_id", ())) < 2 else WRONG,
        names=("memory_bank_id",),
        query="memory_bank_id={memory_bank_id}",
    ),
    **dict.fromkeys(file_bodies.READ, UNREAD),
    **{route: Bodies((valid,), grade) for route, (valid, grade) in file_bodies.GRADES.items()},
    ("GET", file_bodies.FILES): Bodies(UNREAD.valid, by_query=lambda query: file_bodies.list_grade(query)),
    **dict.fromkeys(vector_store_bodies.READ, UNREAD),
    **dict.fromkeys(vector_store_bodies.LISTS, Bodies(UNREAD.valid, by_query=vector_store_bodies.list_grade)),
    **{
        route: Bodies(tuple(valid), lambda body, _, grade=grade: grade(body), names=names)
        for route, (valid, grade, names) in vector_store_bodies.GRADES.items()
    },
    **dict.fromkeys(letta_bodies.READ, UNREAD),
    **dict.fromkeys(letta_bodies.OF_AGENT, Bodies(UNREAD.valid, query="agent_id={agent_id}")),
    **dict.fromkeys(letta_bodies.LISTS, Bodies(UNREAD.valid, by_query=letta_bodies.list_grade)),
    **{
        route: Bodies(tuple(valid), lambda body, _, grade=grade: grade(body))
        for route, (valid, grade) in letta_bodies.GRADES.items()
    },
    **dict.fromkeys(webhook_bodies.READ, UNREAD),
    ("GET", webhook_bodies.DELIVERIES): Bodies(UNREAD.valid, by_query=webhook_bodies.list_grade),
    **{
        route: Bodies(tuple(valid), lambda body, _, grade=grade: grade(body))
        for route, (valid, grade) in webhook_bodies.GRADES.items()
    },
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
    ("POST", response_bodies.RESPONSES): Bodies(
        response_bodies.VALID, lambda body, _: response_bodies.create_grade(body)
    ),
    ("GET", response_bodies.RESPONSES): Bodies(UNREAD.valid, by_query=response_bodies.responses_grade),
    ("DELETE", response_bodies.RESPONSE): UNREAD,
    ("POST", response_bodies.CANCEL): UNREAD,
    ("GET", response_bodies.RESPONSE): Bodies(UNREAD.valid, by_query=response_bodies.read_grade),
    ("GET", response_bodies.INPUT_ITEMS): Bodies(UNREAD.valid, by_query=response_bodies.items_grade),
    ("POST", response_bodies.CONVERSATIONS): Bodies(
        response_bodies.NEW_CONVERSATIONS, lambda body, _: response_bodies.conversation_grade(body)
    ),
    ("GET", response_bodies.CONVERSATION): UNREAD,
    ("DELETE", response_bodies.CONVERSATION): UNREAD,
    ("POST", response_bodies.CONVERSATION): Bodies(
        ({"metadata": {"topic": "sums"}}, {"metadata": None}),
        lambda body, _: exact({"metadata": nullable(metadata)})(body),
    ),
    ("POST", response_bodies.ITEMS): Bodies(
        response_bodies.ADDED_ITEMS,
        lambda body, _: response_bodies.added_grade(body),
        by_query=lambda query: None if response_bodies.include_grade(query) else WRONG,
    ),
    ("GET", response_bodies.ITEMS): Bodies(UNREAD.valid, by_query=response_bodies.conversation_items_grade),
    ("GET", response_bodies.ITEM): Bodies(UNREAD.valid, by_query=response_bodies.include_grade),
    ("DELETE", response_bodies.ITEM): UNREAD,
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
