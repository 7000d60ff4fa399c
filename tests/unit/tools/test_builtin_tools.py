"""The clock, and the toolgroups of a server: those that come with it, and the refusals of those turned off.

Covers: adapters/tools/clock, adapters/tools/factory, adapters/tools/none
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fakes.tools.tool_calls import ASKER, invocation
from turnstone.adapters.tools.clock import ClockToolbox
from turnstone.adapters.tools.factory import EveryToolKind, ToolDependencies
from turnstone.domain.errors import InvalidRequest, ToolFailed, Unsupported
from turnstone.domain.registry.registry import BUILTIN, MCP, McpEndpoint, Toolgroup
from turnstone.domain.registry.tool_settings import ToolSettings


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


CLOCK = ClockToolbox(StoppedClock())


def refused(*arguments: Any) -> Any:
    raise AssertionError(f"unexpected call: {arguments}")


def kinds(**dependencies: Any) -> EveryToolKind:
    given: dict[str, Any] = {
        "settings": ToolSettings,
        "clock": StoppedClock(),
        "keys": refused,
        "fetcher": refused,
        "image_model": None,
        "mcp": refused,
        "code_interpreter": None,
        "close": refused,
    }
    return EveryToolKind(ToolDependencies(**{**given, **dependencies}))


def group(name: str, provider_id: str = BUILTIN, uri: str | None = None) -> Toolgroup:
    endpoint = McpEndpoint(uri=uri) if uri else None
    return Toolgroup(identifier=name, provider_resource_id=name, provider_id=provider_id, mcp_endpoint=endpoint)


def test_the_clock_offers_its_tool_to_every_caller() -> None:
    assert [tool.name for tool in CLOCK.tools(ASKER)] == ["current_time"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "2026-01-02T03:04:05+00:00"),
        ({"timezone": None}, "2026-01-02T03:04:05+00:00"),
        ({"timezone": "Asia/Tokyo", "session_id": "s"}, "2026-01-02T12:04:05+09:00"),
    ],
)
def test_the_time_is_in_the_requested_zone(arguments: dict[str, Any], expected: str) -> None:
    assert CLOCK.invoke(invocation("current_time", arguments)).content == expected


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "America", "a\x00b", 5, ["UTC"]])
def test_an_unknown_zone_fails_with_an_example_of_a_valid_one(zone: object) -> None:
    with pytest.raises(ToolFailed, match="Europe/Berlin"):
        CLOCK.invoke(invocation("current_time", {"timezone": zone}))


def test_a_server_without_settings_has_the_groups_that_need_no_more_than_a_key() -> None:
    assert kinds().builtin() == ("builtin::clock", "builtin::websearch", "builtin::wolfram_alpha")


def test_groups_that_were_turned_on_come_with_the_server() -> None:
    box = object()
    on = kinds(image_model=refused, code_interpreter=lambda: box)
    assert on.builtin()[3:] == ("builtin::photogen", "builtin::code_interpreter")
    assert on.build(group("builtin::code_interpreter")) is box
    assert [tool.name for tool in on.build(group("builtin::photogen")).tools(ASKER)] == ["photogen"]


def test_a_group_that_comes_with_the_server_is_made_once() -> None:
    every = kinds(fetcher=lambda url: None)
    for name in every.builtin():
        assert every.build(group(name)) is every.build(group(name))
    assert every.remote() is every.remote()
    assert every.remote().tools(ASKER) == ()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (group("builtin::photogen"), r"'builtin::photogen' is off on this server.*\[tools.photogen\].*provider"),
        (group("builtin::code_interpreter"), r"'builtin::code_interpreter' is off.*\[tools.code_interpreter\]"),
        (group("builtin::nothing"), "'builtin::nothing'.*builtin::clock, builtin::websearch, builtin::wolfram_alpha"),
        (group("mine", "tavily-search"), f"'mine'.*'tavily-search'.*{BUILTIN}, {MCP}"),
    ],
)
def test_a_group_that_does_not_run_here_is_refused_with_a_remedy(named: Toolgroup, message: str) -> None:
    with pytest.raises(Unsupported, match=message) as caught:
        kinds().build(named)
    assert caught.value.location == ("toolgroups",)


def test_a_group_of_an_mcp_server_is_made_of_its_definition_and_needs_an_endpoint() -> None:
    made = kinds(mcp=lambda toolgroup: toolgroup.mcp_endpoint)
    assert made.build(group("mcp::mine", MCP, "https://mcp.test/mcp")) == McpEndpoint(uri="https://mcp.test/mcp")
    with pytest.raises(InvalidRequest, match=r"'mcp::mine'.*mcp_endpoint") as caught:
        made.build(group("mcp::mine", MCP))
    assert caught.value.location == ("toolgroups",)


def test_a_kind_is_loaded_when_one_of_its_groups_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = [name for name in sys.modules if name.startswith("turnstone.adapters.tools.")]
    for name in loaded:
        if name.rpartition(".")[2] not in ("factory", "clock"):
            monkeypatch.delitem(sys.modules, name)
    kinds().build(group("builtin::clock"))
    assert {name for name in sys.modules if name.startswith("turnstone.adapters.tools.")} == {
        "turnstone.adapters.tools.factory",
        "turnstone.adapters.tools.clock",
    }
