"""Problems of a body are reported once, and in the terms of JSON.

Covers: dialects/llama_stack/requests, dialects/llama_stack/turns/requests, dialects/openai/chat/chat_requests,
  http/request
"""

import re
import time
from typing import Any

import pytest

from turnstone.dialects.llama_stack.requests import CreateAgent
from turnstone.dialects.llama_stack.turns.requests import CreateTurn, ResumeTurn
from turnstone.dialects.openai.chat.chat_requests import CreateChatCompletion
from turnstone.domain.agents.agents import MAX_TOOLS
from turnstone.domain.errors.validation_messages import MAX_PROBLEMS
from turnstone.domain.values.frozen import Frozen, Many
from turnstone.http.request import InvalidBody, checked

Problems = list[tuple[tuple[str | int, ...], str, str]]


def problems_of(body: Any, model: type[Frozen]) -> Problems:
    """Return the problems of the body: location, type, and message of each."""
    with pytest.raises(InvalidBody) as refused:
        checked(body, model)
    for problem in refused.value.problems:
        assert not re.search("tuple|dictionary|instance|None|Value error|tag", str(problem["msg"]), re.I)
        assert not [part for part in problem["loc"] if re.search(r"[\[(]", str(part))]  # type: ignore[attr-defined]
    return [(p["loc"], p["type"], p["msg"]) for p in refused.value.problems]  # type: ignore[misc]


def agent(**fields: Any) -> dict[str, Any]:
    return {"agent_config": {"model": "m", "instructions": "", **fields}}


LIST, OBJECT, STRING = "Input should be a list", "Input should be an object", "Input should be a valid string"
CASES: dict[str, tuple[Any, type[Frozen], Problems]] = {
    "a body that is a list": ([], CreateAgent, [((), "model_type", OBJECT)]),
    "an object for a list": (
        agent(client_tools={}),
        CreateAgent,
        [(("agent_config", "client_tools"), "tuple_type", LIST)],
    ),
    "a list for an object": (
        agent(client_tools=[{"name": "look", "metadata": []}]),
        CreateAgent,
        [(("agent_config", "client_tools", 0, "metadata"), "dict_type", OBJECT)],
    ),
    "a number for one of several objects": (
        agent(response_format=5),
        CreateAgent,
        [(("agent_config", "response_format"), "model_attributes_type", OBJECT)],
    ),
    "too many": (
        agent(toolgroups=["builtin::clock"] * (MAX_TOOLS + 1)),
        CreateAgent,
        [
            (
                ("agent_config", "toolgroups"),
                "too_long",
                f"List should have at most {MAX_TOOLS} items, not {MAX_TOOLS + 1}",
            )
        ],
    ),
    "a list in place of a text, with one wrong member": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
        CreateTurn,
        [(("messages", 0, "content", 0, "text"), "string_type", STRING)],
    ),
    "a branch of the name of a field beside its missing field": (
        agent(sampling_params={"strategy": {"type": "top_p", "top_p": 0.5}}),
        CreateAgent,
        [(("agent_config", "sampling_params", "strategy", "temperature"), "missing", "Field required")],
    ),
    "a field that has the name of its object's kind": (
        {"messages": [{"role": "user", "user": 1, "content": [{"type": "text", "text": 5}]}]},
        CreateTurn,
        [(("messages", 0, "content", 0, "text"), "string_type", STRING)],
    ),
    "a kind that there is not": (
        {"messages": [{"role": "nobody", "content": ""}]},
        CreateTurn,
        [(("messages", 0, "role"), "union_tag_invalid", "Input should be 'user' or 'tool'")],
    ),
    "no kind": (
        {"messages": [{"content": ""}]},
        CreateTurn,
        [(("messages", 0, "role"), "union_tag_not_found", "Field required")],
    ),
    "an object in place of a text, with one wrong field": (
        agent(toolgroups=[{"name": 5, "args": {}}]),
        CreateAgent,
        [(("agent_config", "toolgroups", 0, "name"), "string_type", STRING)],
    ),
    "a rule about several fields": (
        {"model": "m", "messages": [{"role": "user", "content": ""}], "top_logprobs": 2},
        CreateChatCompletion,
        [(("top_logprobs",), "value_error", "has no effect unless logprobs is true; leave it out")],
    ),
    "a further field of a part of a message": (
        {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "", "Text": ""}]}]},
        CreateChatCompletion,
        [(("messages", 0, "content", 0, "Text"), "value_error", "must be written text")],
    ),
    "none where one is needed": (
        {"messages": []},
        CreateTurn,
        [(("messages",), "too_short", "List should have at least 1 item, not 0")],
    ),
    "the one that is needed is wrong": (
        {"messages": [5]},
        CreateTurn,
        [(("messages", 0), "model_attributes_type", OBJECT)],
    ),
    "a field of the one that is needed is wrong": (
        {"tool_responses": [{"call_id": "c", "tool_name": "t", "content": "x", "metadata": []}]},
        ResumeTurn,
        [(("tool_responses", 0, "metadata"), "dict_type", OBJECT)],
    ),
}


@pytest.mark.parametrize(("body", "model", "expected"), CASES.values(), ids=CASES)
def test_a_problem_is_reported_once_and_in_the_terms_of_json(
    body: Any, model: type[Frozen], expected: Problems
) -> None:
    assert problems_of(body, model) == expected


def test_another_list_that_is_too_short_is_reported_beside_a_wrong_member() -> None:
    body = {"messages": [], "toolgroups": [5]}
    assert (("messages",), "too_short") in [problem[:2] for problem in problems_of(body, CreateTurn)]


def test_only_the_first_problems_are_reported() -> None:
    class Names(Frozen):
        names: tuple[str, ...]

    class ListQuery(Frozen):
        names: Many[Names]

    assert len(problems_of({"names": [{"names": [1] * 50}]}, ListQuery)) == MAX_PROBLEMS


class Nested(Frozen):
    a: "Nested | int"


def test_names_repeated_in_nested_objects_are_located_in_linear_time() -> None:
    depth = 24
    body: Any = "wrong"
    for _ in range(depth):
        body = {"a": body}
    began_s = time.process_time()
    locations = [location for location, _, _ in problems_of(body, Nested)]
    assert max(locations, key=len) == ("a",) * depth
    assert time.process_time() - began_s < 1
