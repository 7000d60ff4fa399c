"""Arguments of tools that are for the loop: offered first and last, required, and taken off before a tool runs.

Covers: domain/turns/loop_arguments, domain/turns/loop_policies
"""

from __future__ import annotations

from typing import Any

import pytest

from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolDef, ToolParameter
from turnstone.domain.turns.loop_arguments import with_loop_arguments
from turnstone.domain.turns.loop_policies import AGENTS, LETTA

ROLL = ToolDef(name="roll", parameters=(ToolParameter(name="sides", parameter_type="integer", description="d"),))
SEND = ToolDef(name="send_message", input_schema={"type": "object", "properties": {"message": {"type": "string"}}})


def offered(tool: ToolDef, **changes: Any) -> dict[str, Any]:
    (changed,) = with_loop_arguments((tool,), LETTA.model_copy(update=changes))
    return input_schema_of(changed)


def test_thoughts_come_first_and_the_heartbeat_last_and_both_are_required() -> None:
    schema = offered(ROLL)
    assert list(schema["properties"]) == schema["required"] == ["inner_thoughts", "sides", "request_heartbeat"]
    assert schema["properties"]["request_heartbeat"]["type"] == "boolean"


def test_the_tool_of_the_answer_takes_no_heartbeat_and_keeps_optional_arguments() -> None:
    schema = offered(SEND)
    assert list(schema["properties"]) == ["inner_thoughts", "message"]
    assert schema["required"] == ["inner_thoughts"]


def test_without_loop_arguments_only_the_heartbeat_is_offered() -> None:
    assert list(offered(ROLL, loop_arguments=())["properties"]) == ["sides", "request_heartbeat"]


def test_an_argument_of_a_tool_gives_way_to_that_of_the_loop() -> None:
    own = ToolDef(
        name="x",
        input_schema={"type": "object", "properties": {"request_heartbeat": {"type": "string"}}, "required": []},
    )
    schema = offered(own)
    assert list(schema["properties"]) == ["inner_thoughts", "request_heartbeat"]
    assert schema["properties"]["request_heartbeat"]["type"] == "boolean"


@pytest.mark.parametrize("tool", [ROLL, SEND])
def test_other_loops_offer_tools_as_they_are(tool: ToolDef) -> None:
    assert with_loop_arguments((tool,), AGENTS) == (tool,)


def test_the_tool_receives_no_argument_of_the_loop() -> None:
    sent = {"inner_thoughts": "x", "sides": 6, "request_heartbeat": True}
    assert LETTA.for_tool(sent) == {"sides": 6}
