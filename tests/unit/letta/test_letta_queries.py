"""Parameters of the lists and tools of Letta: refused values, and the locations in their errors.

Covers: dialects/letta, services/agents/archival_toolbox
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_core import from_json

from turnstone.dialects.letta.errors import LETTA_ENVELOPE
from turnstone.dialects.letta.lists import agents_query, refuse_initial_messages
from turnstone.dialects.letta.message_requests import messages_query
from turnstone.domain.errors import InvalidRequest, ToolFailed
from turnstone.domain.errors.codes import ErrorCode
from turnstone.services.agents.archival_toolbox import page_in


@pytest.mark.parametrize("page", [-1, 100, 0.5, float("inf"), float("nan"), True, "1"])
def test_a_page_that_is_none_fails_its_call(page: object) -> None:
    invocation: Any = SimpleNamespace(arguments={"page": page})
    with pytest.raises(ToolFailed, match="page: must be a whole number from 0 to 99"):
        page_in(invocation)


@pytest.mark.parametrize(("page", "expected"), [(None, 0), (0, 0), (2.0, 2), (99, 99)])
def test_a_page_is_a_whole_number(page: object, expected: int) -> None:
    invocation: Any = SimpleNamespace(arguments={"page": page})
    assert page_in(invocation) == expected


@pytest.mark.parametrize(
    ("parse", "name", "text"),
    [
        (agents_query, "limit", "0"),
        (agents_query, "match_all_tags", "maybe"),
        (messages_query, "limit", "many"),
        (messages_query, "assistant_message_tool_name", "x" * 257),
        (messages_query, "assistant_message_tool_kwarg", "x" * 257),
        (refuse_initial_messages, "add_default_initial_messages", "true"),
    ],
)
def test_a_refused_parameter_is_located_in_the_query(parse: Any, name: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse({name: [text]})
    assert refused.value.location == ("query", name)


def test_a_location_begins_with_the_part_of_the_request() -> None:
    problems = [{"loc": loc, "msg": "no", "type": "value_error"} for loc in (("query", "limit"), ("name",))]
    answer = from_json(LETTA_ENVELOPE.invalid(problems, ErrorCode.INVALID_REQUEST))
    assert [problem["loc"] for problem in answer["detail"]] == [["query", "limit"], ["body", "name"]]
