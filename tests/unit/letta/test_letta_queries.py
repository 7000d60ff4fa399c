"""Parameters of the lists and tools of Letta: refused values, and the locations in their errors.

Covers: dialects/letta, services/agents/archival_toolbox
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_core import from_json

from turnstone.dialects.letta.errors import LETTA_ENVELOPE
from turnstone.dialects.letta.lists import agents_query, blocks_query, part_of, refuse_initial_messages
from turnstone.dialects.letta.message_requests import messages_query
from turnstone.dialects.letta.passages import passages_query
from turnstone.dialects.letta.sources import source_files_query, sources_query
from turnstone.dialects.letta.tools import tools_query
from turnstone.dialects.letta.turns.runs import run_rows_query, runs_limit
from turnstone.domain.errors import InvalidRequest, NotFound, ToolFailed
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
        (messages_query, "after", "message-0"),
        (runs_limit, "after", "run-0"),
        (run_rows_query, "order", "asc"),
        (agents_query, "before", "agent-0"),
        (blocks_query, "order", "desc"),
        (tools_query, "order_by", "created_at"),
        (sources_query, "before", "source-0"),
        (source_files_query, "order", "desc"),
        (passages_query, "search", "sky"),
        (passages_query, "ascending", "false"),
        (refuse_initial_messages, "add_default_initial_messages", "true"),
    ],
)
def test_a_refused_parameter_is_located_in_the_query(parse: Any, name: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse({name: [text]})
    assert refused.value.location == ("query", name)


@pytest.mark.parametrize("name", ["cursor", "after"])
def test_a_list_continues_after_an_item_by_either_name(name: str) -> None:
    number = "01a206b0-1787-7f64-92ea-263739085331"
    assert agents_query({name: [f"agent-{number}"], "order": ["asc"]}).after == number
    assert blocks_query({name: [f"block-{number}"]}).after == number
    assert tools_query({name: [f"tool-{number}"]}).after == number
    assert sources_query({name: [f"source-{number}"]}).after == f"source-{number}"
    assert source_files_query({name: ["file-a"]}).after == "file-a"
    assert agents_query({"after": ["agent-a"], "cursor": [f"agent-{number}"]}).after == number


def test_a_part_of_items_begins_after_one_of_them() -> None:
    items = [SimpleNamespace(id=each) for each in "abc"]
    parts: list[tuple[dict[str, list[str]], str]] = [
        ({}, "abc"),
        ({"limit": ["2"]}, "ab"),
        ({"after": ["a"]}, "bc"),
        ({"after": ["a"], "limit": ["1"]}, "b"),
        ({"after": ["c"]}, ""),
    ]
    for query, expected in parts:
        assert "".join(each.id for each in part_of("block", items, query)) == expected
    assert part_of("block", [], {}) == ()
    with pytest.raises(NotFound):
        part_of("block", items, {"after": ["d"]})
    with pytest.raises(InvalidRequest, match="limit"):
        part_of("block", items, {"limit": ["0"]})


def test_a_location_begins_with_the_part_of_the_request() -> None:
    problems = [{"loc": loc, "msg": "no", "type": "value_error"} for loc in (("query", "limit"), ("name",))]
    answer = from_json(LETTA_ENVELOPE.invalid(problems, ErrorCode.INVALID_REQUEST))
    assert [problem["loc"] for problem in answer["detail"]] == [["query", "limit"], ["body", "name"]]
