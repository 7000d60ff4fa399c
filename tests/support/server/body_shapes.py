"""The bodies that routes accept, as functions that grade a value: right, wrong, or either.

The rules are repeated here, apart from the models that parse bodies, so that a rule lost there fails a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Grades of a value by the contract: wrong; written in another form, so that either answer is true; right.
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


MOST_INFER_ITERS = 100  # the default of a setting


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
    """An object. Other fields are ignored; whether an optional one may be null is left open."""

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
    """An object without other fields; whether an optional one may be null is left open."""
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
DOCUMENT = record({"content": either(CONTENT, record({"uri": text})), "mime_type": text})
DOCUMENT_TYPE = re.compile("text/.*|application/(json|x-ndjson|xml|yaml)", re.DOTALL)
TOP_P = record({"temperature": nullable(number(above=0))}, {"top_p": nullable(number())})
STRATEGY = tagged("type", {"greedy": mapping, "top_p": TOP_P, "top_k": record({"top_k": number(whole_from=1)})})
PARAMETER = {"name": text, "parameter_type": text, "description": text}
PARAMETERS = many(record(PARAMETER, {"required": flag, "default": anything}))
SCHEMA = record({"type": one_of("object")}, {"properties": values(either(mapping, flag)), "required": many(text)})
MASK = "**********"


def document(value: Any) -> int:
    """Grade a turn's document: an image or long content may be accepted or not; a text must be one."""
    grade = DOCUMENT(value)
    if grade == WRONG:
        return WRONG
    content, media_type = value["content"], value["mime_type"].partition(";")[0].strip().lower()
    if media_type.startswith("image/"):
        return UNSURE
    if not DOCUMENT_TYPE.fullmatch(media_type):
        return WRONG
    if isinstance(content, str):
        return RIGHT if len(content) < 4_096 else UNSURE
    items = content if isinstance(content, list) else [content]
    has_image = any(item.get("type") == "image" for item in items)
    return WRONG if has_image else min(grade, UNSURE)


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
BANK_NAME = {"bank_id": lambda value: text(value) if isinstance(value, str) and 0 < len(value) <= 256 else WRONG}
MEMORY: Mapping[str, Shape] = {
    "input_shields": nullable(many(text)),
    "output_shields": nullable(many(text)),
    "memory_bank_configs": nullable(
        many(
            tagged(
                "type",
                {
                    "vector": record(BANK_NAME, {}),
                    "keyword": record(BANK_NAME, {}),
                    "keyvalue": record(BANK_NAME, {"keys": nullable(many(text))}),
                    "graph": record(BANK_NAME, {"entities": nullable(many(text))}),
                },
            )
        )
    ),
    "query_generator_config": nullable(
        tagged(
            "type",
            {
                "default": record({}, {"sep": nullable(text)}),
                "llm": record(
                    {"model": lambda value: some(value), "template": lambda value: min(text(value), UNSURE)}, {}
                ),
                "custom": record({"tool": lambda value: min(text(value), UNSURE)}, {}),
            },
        )
    ),
    "max_tokens_in_context": nullable(number(whole_from=1)),
    "max_chunks": nullable(number(whole_from=1)),
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
        "memory": record({}, MEMORY),
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
SESSION = record({"session_name": text}, {"vector_db_id": nullable(lambda value: min(text(value), UNSURE))})
USER_MESSAGE = tagged("role", {"user": record({"content": CONTENT}, {"context": nullable(CONTENT)})})
TURN = record(
    {"messages": many(USER_MESSAGE, least=1)},
    {"stream": flag, "documents": nullable(many(document)), "instructions": nullable(text), **OVERRIDES},
)
RESPONSE = record({"call_id": text, "tool_name": text, "content": CONTENT}, {"metadata": nullable(mapping)})
RESUME = record({"tool_responses": many(RESPONSE, least=1)}, {"stream": flag})
TURN_QUERY = either(many(text), record({}, {"turn_ids": nullable(many(text))}))


GROUPS = {"builtin::clock", "builtin::clock/current_time"}


def is_format(response_format: Mapping[str, Any]) -> bool:
    """Return whether it is no grammar, or one in its written form."""
    if response_format.get("type") != "grammar":
        return True
    grammar = response_format["bnf"].get("grammar")
    return isinstance(grammar, str) and bool(grammar.strip()) and len(response_format["bnf"]) == 1


def agreement(config: Mapping[str, Any], *, names_count: bool = True) -> int:
    """Grade the combination of fields that are each right, by the tools and models of the server.

    Toolgroups may have any name where names don't count yet, and then the tools to choose from are undefined.
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
MESSAGE = tagged(
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
    {"model_id": text, "messages": many(MESSAGE, least=1)},
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
OPENAI_MESSAGE = tagged(
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
    """Grade a field that may be present as long as it requests nothing."""
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
    {"model": text, "messages": many(OPENAI_MESSAGE, least=1)},
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
        "task_type": nullable(one_of("query", "document")),
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


def bank_id(value: Any) -> int:
    """Grade the id of a memory bank: clients write it into a path as it is."""
    return RIGHT if identifier(value) and not set("/?#%\\") & set(value) else WRONG


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
