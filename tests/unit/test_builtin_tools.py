"""The tools that come with the server."""

from datetime import UTC, datetime

import pytest

from turnstone.adapters.tools.builtin import BuiltinTools
from turnstone.domain.agents import ToolGroupWithArgs
from turnstone.domain.errors import ToolFailed, Unsupported
from turnstone.domain.tools import ToolCall
from turnstone.ports import ToolInvocation


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


TOOLS = BuiltinTools(StoppedClock())


def run(arguments: dict, tool_name: str = "current_time") -> str:
    call = ToolCall(call_id="c", tool_name=tool_name, arguments=arguments)
    return str(TOOLS.invoke(ToolInvocation(call, arguments, "key", "session")).content)


@pytest.mark.parametrize("name", ["builtin::clock", "builtin::clock/current_time"])
def test_a_group_and_a_tool_of_it_offer_the_tool(name: str):
    (tool,) = TOOLS.offered((name,))
    assert (tool.definition.name, tool.fixed_arguments) == ("current_time", {})


def test_a_tool_named_twice_is_offered_once_with_the_arguments_of_both():
    named = (
        ToolGroupWithArgs(name="builtin::clock", args={"timezone": "Asia/Tokyo", "a": 1}),
        "builtin::clock/current_time",
        ToolGroupWithArgs(name="builtin::clock", args={"timezone": "Europe/Berlin"}),
    )
    (tool,) = TOOLS.offered(named)
    assert tool.fixed_arguments == {"timezone": "Europe/Berlin", "a": 1}


def test_no_group_offers_nothing():
    assert TOOLS.offered(()) == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("builtin::nothing", "'builtin::nothing'.*builtin::clock"),
        ("builtin::clock/alarm", "'builtin::clock'.*'alarm'.*current_time"),
    ],
)
def test_an_unknown_group_or_tool_is_named_with_what_there_is(name: str, said: str):
    with pytest.raises(Unsupported, match=said) as caught:
        TOOLS.offered(("builtin::clock", name))
    assert caught.value.location == ("toolgroups",)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "2026-01-02T03:04:05+00:00"),
        ({"timezone": None}, "2026-01-02T03:04:05+00:00"),
        ({"timezone": "Asia/Tokyo", "session_id": "s"}, "2026-01-02T12:04:05+09:00"),
    ],
)
def test_the_time_is_told_in_the_zone_asked_for(arguments: dict, expected: str):
    assert run(arguments) == expected


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "America", "a\x00b", 5, ["UTC"]])
def test_an_unknown_zone_fails_with_an_example_of_a_known_one(zone: object):
    with pytest.raises(ToolFailed, match="Europe/Berlin"):
        run({"timezone": zone})


def test_an_unknown_tool_fails():
    with pytest.raises(ToolFailed, match="'alarm'"):
        run({}, "alarm")
