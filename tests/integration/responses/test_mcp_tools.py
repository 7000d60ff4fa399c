"""MCP servers that a response names, over both stores: lists, calls, approvals, and secrets that are kept nowhere.

Covers: services/responses/approving, services/responses/fitting, services/tools/tenant_tools,
  domain/tools/inline_toolgroups, dialects/openai/responses/output/mcp_items, dialects/openai/responses/input/mcp_items,
  store/sessions/turn_records
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, ScriptedReply, call, calls
from tests.support.engine.conversations import conversation
from tests.support.engine.either_store import DICE, Make
from tests.support.engine.harness import LEASE_S, Server, discards_steps, opens_turn, puts_turn, saves_step
from tests.support.engine.responses import live, read, replayed, responded, started
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import InvalidRequest, NotFound, ToolgroupUnavailable
from turnstone.domain.messages.messages import ToolResponseMessage
from turnstone.domain.responses.addresses import response_id, turn_of
from turnstone.domain.turns.turns import TurnStatus

STRANGER = Caller(tenant="other", principal="ann")
SECRET, TOKEN = "key-of-the-birds", "token-of-the-birds"
BIRDS: dict[str, Any] = {
    "type": "mcp",
    "server_label": "birds",
    "server_url": "https://birds.example/mcp?key=hidden",
    "headers": {"X-Key": SECRET},
    "authorization": TOKEN,
}
FREE = {**BIRDS, "require_approval": "never"}
COUNT = call("count", "c1", place="shore")


def made(make: Make, *script: Scripted) -> Server:
    server = make(*script)
    tools = {"count": lambda arguments: f"4 at the {arguments['place']}", "erase": lambda _: "gone"}
    server.tools.offer({**DICE, "inline::birds": tools})
    return server


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


def approval(request: dict[str, Any], *, approve: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "type": "mcp_approval_response",
        "approval_request_id": request["output"][-1]["id"],
        "approve": approve,
        **more,
    }


def test_a_tool_that_needs_no_approval_is_listed_once_and_called(make: Make) -> None:
    server = made(make, COUNT, "Four.", "Still four.")
    stream = live(started(server, tools=[FREE]))
    first = stream[-1]["response"]
    listed, called, _ = first["output"]
    assert (listed["type"], listed["server_label"]) == ("mcp_list_tools", "birds")
    assert [tool["name"] for tool in listed["tools"]] == ["count", "erase"]
    assert {key: called[key] for key in ("server_label", "name", "output", "error", "approval_request_id")} == {
        "server_label": "birds",
        "name": "count",
        "output": "4 at the shore",
        "error": None,
        "approval_request_id": None,
    }
    of_mcp = [event["type"].removeprefix("response.") for event in stream if "mcp" in event["type"]]
    assert of_mcp == [
        *("mcp_list_tools.in_progress", "mcp_list_tools.completed", "mcp_call.in_progress"),
        *("mcp_call_arguments.delta", "mcp_call_arguments.done", "mcp_call.completed"),
    ]
    assert replayed(server, first["id"]) == stream
    assert replayed(server, first["id"], after=4) == stream[5:]
    assert read(server, first["id"]) == first
    assert kinds(responded(server, previous_response_id=first["id"], tools=[FREE])) == ["message"]


def test_a_list_is_shown_again_where_the_tool_is_another(make: Make) -> None:
    server = made(make, *("ok",) * 4)
    first = responded(server, tools=[FREE])
    other = responded(server, previous_response_id=first["id"], tools=[{**FREE, "allowed_tools": ["erase"]}])
    assert [tool["name"] for tool in other["output"][0]["tools"]] == ["erase"]
    forked = responded(server, previous_response_id=first["id"], tools=[FREE])
    assert kinds(forked) == ["message"]
    assert kinds(responded(server, tools=[FREE])) == ["mcp_list_tools", "message"]


def test_an_approved_call_runs_exactly_as_requested_before_the_model(make: Make) -> None:
    server = made(make, ScriptedReply(("Let me look.",), calls=(COUNT,)), "Four.")
    stream = live(started(server, tools=[BIRDS]))
    requested = stream[-1]["response"]
    assert (requested["status"], kinds(requested)) == (
        "completed",
        ["mcp_list_tools", "message", "mcp_approval_request"],
    )
    request = requested["output"][-1]
    assert (request["server_label"], request["name"], request["arguments"]) == ("birds", "count", '{"place":"shore"}')
    assert replayed(server, requested["id"]) == stream
    assert server.tools.invocations == []
    stream = live(started(server, previous_response_id=requested["id"], tools=[BIRDS], input=[approval(requested)]))
    answer = stream[-1]["response"]
    assert kinds(answer) == ["mcp_call", "message"]
    called = answer["output"][0]
    assert (called["approval_request_id"], called["output"]) == (request["id"], "4 at the shore")
    (run,) = server.tools.invocations
    assert dict(run.arguments) == {"place": "shore"}
    assert read(server, answer["id"]) == answer
    assert replayed(server, answer["id"]) == stream
    messages = server.inference.requests[-1].messages
    assert isinstance(messages[-1], ToolResponseMessage)
    assert messages[-1].content == "4 at the shore"


def test_a_denied_call_is_answered_with_the_reason(make: Make) -> None:
    server = made(make, COUNT, "I see.")
    requested = responded(server, tools=[BIRDS])
    denied = approval(requested, approve=False, reason="too early")
    answer = responded(server, previous_response_id=requested["id"], tools=[BIRDS], input=[denied])
    assert kinds(answer) == ["message"]
    assert server.tools.invocations == []
    answer_of_call = server.inference.requests[-1].messages[-1]
    assert isinstance(answer_of_call, ToolResponseMessage)
    assert answer_of_call.call_id == "c1"
    assert answer_of_call.content == "The user denied this call, so it was not run. Reason: too early"


def test_only_open_requests_of_the_response_to_continue_can_be_approved(make: Make) -> None:
    server = made(make, COUNT, COUNT, "Four.", "Well.")
    requested, other = responded(server, tools=[BIRDS]), responded(server, tools=[BIRDS])
    decision = approval(requested)
    forged = {**decision, "approval_request_id": decision["approval_request_id"][:-1] + "x"}
    for given in (forged, approval(other)):
        with pytest.raises(InvalidRequest, match=r"no call of the response to continue waits") as refused:
            responded(server, previous_response_id=requested["id"], tools=[BIRDS], input=[given])
        assert refused.value.location == ("input", 0, "approval_request_id")
    with pytest.raises(InvalidRequest, match="decided twice"):
        responded(server, previous_response_id=requested["id"], tools=[BIRDS], input=[decision, decision])
    with pytest.raises(InvalidRequest, match="waits for the approval"):
        responded(server, tools=[BIRDS], input=[decision])
    with pytest.raises(InvalidRequest, match="send that server's tool again") as refused:
        responded(server, previous_response_id=requested["id"], input=[decision])
    assert refused.value.location == ("tools",)
    answer = responded(server, previous_response_id=requested["id"], tools=[BIRDS], input=[decision])
    with pytest.raises(InvalidRequest, match="waits for the approval"):
        responded(server, previous_response_id=answer["id"], tools=[BIRDS], input=[decision])
    assert len(server.tools.invocations) == 1


def test_an_approval_works_after_another_response_has_continued_the_chain(make: Make) -> None:
    server = made(make, COUNT, "Never mind.", "Four.")
    requested = responded(server, tools=[BIRDS])
    responded(server, previous_response_id=requested["id"], tools=[BIRDS], input="something else")
    assert server.tools.invocations == []
    answer = responded(server, previous_response_id=requested["id"], tools=[BIRDS], input=[approval(requested)])
    assert kinds(answer) == ["mcp_call", "message"]
    assert len(server.tools.invocations) == 1


def test_a_used_approval_runs_nothing_a_second_time(make: Make) -> None:
    server = made(make, COUNT, "Four.", "Four.")
    requested = responded(server, tools=[BIRDS])
    decision = approval(requested)
    responded(server, previous_response_id=requested["id"], tools=[BIRDS], input=[decision])
    with pytest.raises(InvalidRequest, match="is used already"):
        responded(server, previous_response_id=requested["id"], tools=[BIRDS], input=[decision])
    assert len(server.tools.invocations) == 1


def test_a_response_that_is_not_stored_approves_only_requests_that_it_brings_along(make: Make) -> None:
    server = made(make, COUNT, "Four.")
    requested = responded(server, tools=[BIRDS])
    named = {"previous_response_id": requested["id"], "tools": [BIRDS], "input": [approval(requested)], "store": False}
    with pytest.raises(InvalidRequest, match="noted with its response") as refused:
        responded(server, **named)
    assert refused.value.location == ("store",)
    assert server.tools.invocations == []
    brought = [requested["output"][-1], approval(requested)]
    stream = live(started(server, tools=[BIRDS], input=brought, store=False))
    assert kinds(stream[-1]["response"])[-2:] == ["mcp_call", "message"]


def test_of_two_forks_with_one_approval_at_the_same_time_one_is_refused(make: Make) -> None:
    server, other = made(make, COUNT, "Never mind.", "Four."), made(make, "Four.")
    requested = responded(server, tools=[BIRDS])
    responded(server, previous_response_id=requested["id"], tools=[BIRDS])
    forked: dict[str, Any] = {
        "previous_response_id": requested["id"],
        "tools": [BIRDS],
        "input": [approval(requested)],
    }
    server.store.before(opens_turn, lambda: responded(other, **forked))
    with pytest.raises(InvalidRequest, match="is used already") as refused:
        responded(server, **forked)
    assert refused.value.location == ("input", 0, "approval_request_id")
    assert (len(server.tools.invocations), len(other.tools.invocations)) == (0, 1)


def test_a_response_is_deleted_while_its_call_is_approved(make: Make) -> None:
    server, other = made(make, COUNT), made(make, "Four.")
    requested = responded(server, tools=[BIRDS])
    given = {"previous_response_id": requested["id"], "tools": [BIRDS], "input": [approval(requested)]}
    server.store.before(discards_steps, lambda: responded(other, **given))
    server.core.responses.delete(LOCAL_CALLER, requested["id"])
    with pytest.raises(NotFound):
        read(server, requested["id"])
    assert len(other.tools.invocations) == 1


def test_a_call_of_another_tenant_is_never_approved(make: Make) -> None:
    server = made(make, COUNT, COUNT, "Four.")
    requested, own = responded(server, tools=[BIRDS]), responded(server, tools=[BIRDS], caller=STRANGER)
    given: dict[str, Any] = {"tools": [BIRDS], "input": [approval(requested)], "caller": STRANGER}
    with pytest.raises(NotFound):
        responded(server, previous_response_id=requested["id"], **given)
    with pytest.raises(InvalidRequest, match="waits for the approval"):
        responded(server, previous_response_id=own["id"], **given)
    with pytest.raises(InvalidRequest, match="waits for the approval"):
        responded(server, **given)
    assert server.tools.invocations == []
    responded(server, previous_response_id=requested["id"], tools=[BIRDS], input=[approval(requested)])
    assert len(server.tools.invocations) == 1


def test_a_conversation_takes_approvals(make: Make) -> None:
    server = made(make, COUNT, "Four.", "Yes.")
    named: dict[str, Any] = {"conversation": conversation(server), "tools": [BIRDS]}
    requested = responded(server, **named)
    answer = responded(server, **named, input=[approval(requested)])
    assert kinds(answer) == ["mcp_call", "message"]
    with pytest.raises(InvalidRequest, match="waits for the approval"):
        responded(server, **named, input=[approval(requested)])


def test_a_client_with_its_own_history_sends_the_request_with_its_approval(make: Make) -> None:
    server = made(make, COUNT, "Four.", "Bye.")
    requested = responded(server, tools=[BIRDS])
    history = [{"role": "user", "content": "hello"}, *requested["output"], approval(requested)]
    answer = responded(server, tools=[BIRDS], input=history)
    assert kinds(answer) == ["mcp_call", "message"]
    assert dict(server.tools.invocations[0].arguments) == {"place": "shore"}
    responded(server, tools=[BIRDS], input=[*history, *answer["output"], {"role": "user", "content": "bye"}])
    assert len(server.tools.invocations) == 1
    roles = [message.role for message in server.inference.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_filters_choose_tools_and_approvals(make: Make) -> None:
    server = made(make, calls(call("count", "a", place="sea"), call("erase", "b")), "Done.", "Ok.", "Ok.", "Ok.")
    partly = {**BIRDS, "require_approval": {"never": {"tool_names": ["count"]}}}
    requested = responded(server, tools=[partly])
    assert kinds(requested) == ["mcp_list_tools", "mcp_call", "mcp_approval_request"]
    answer = responded(server, previous_response_id=requested["id"], tools=[partly], input=[approval(requested)])
    assert [item.get("name") for item in answer["output"]] == ["erase", None]
    for choice, names in (
        ({"type": "mcp", "server_label": "birds", "name": "erase"}, ["count", "erase"]),
        ({"type": "mcp", "server_label": "birds"}, ["count", "erase"]),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "mcp", "server_label": "birds", "name": "count"}],
            },
            ["count"],
        ),
    ):
        responded(server, tools=[FREE], tool_choice=choice)
        assert [tool.name for tool in server.inference.requests[-1].tools] == names
    assert [request.tool_choice for request in server.inference.requests[-3:]] == ["erase", "required", "auto"]


def test_the_servers_tools_get_the_headers_of_the_request_and_nothing_else_does(make: Make) -> None:
    server = made(make, COUNT, "Four.", "Still.")
    response = responded(server, tools=[FREE])
    (run,) = server.tools.invocations
    sent = {FREE["server_url"]: {"X-Key": SECRET, "Authorization": f"Bearer {TOKEN}"}}
    assert run.asker.provider_data.mapping("mcp_headers") == sent
    (shown,) = response["tools"]
    assert shown == {
        "type": "mcp",
        "server_label": "birds",
        "server_url": "https://birds.example/mcp",
        "require_approval": "never",
    }
    state = server.core.turn_store.load(turn_of("local", response["id"]))[1]
    assert state.own_toolgroups == ()
    with pytest.raises(NotFound):
        responded(server, previous_response_id=response["id"][:-3] + "abc", tools=[FREE])


def test_a_clients_function_may_not_hide_a_tool_of_a_server(make: Make) -> None:
    server = made(make)
    with pytest.raises(InvalidRequest, match="rename or leave out one"):
        responded(server, tools=[BIRDS, {"type": "function", "name": "count"}])


def test_an_approved_call_has_its_key_and_headers_after_a_kill_before_its_answer_is_stored(make: Make) -> None:
    dying = made(make, COUNT)
    requested = responded(dying, tools=[BIRDS])
    dying.store.before(lambda each: saves_step(each) and bool(dying.tools.invocations), dying.store.die)
    begun = started(dying, previous_response_id=requested["id"], tools=[BIRDS], input=[approval(requested)])
    dying.drain(begun.broadcast)
    heir = made(make, "Four.")
    heir.clock.advance(LEASE_S)  # type: ignore[attr-defined]
    heir.core.recovery.reconcile(begun.broadcast.ref)
    heir.settle()
    answer = read(heir, response_id(begun.broadcast.ref))
    assert (answer["status"], kinds(answer)) == ("completed", ["mcp_call", "message"])
    (first,), (again,) = dying.tools.invocations, heir.tools.invocations
    assert (again.idempotency_key, again.arguments) == (first.idempotency_key, first.arguments)
    assert again.asker.provider_data.mapping("mcp_headers")[BIRDS["server_url"]]["X-Key"] == SECRET


def test_a_stream_shows_that_a_server_lists_no_tools_and_fails(make: Make) -> None:
    server = made(make, COUNT, "Four.")
    requested = responded(server, tools=[BIRDS])
    server.tools.unlisted = ("inline::birds",)
    request = {"tools": [BIRDS], "input": [approval(requested)], "previous_response_id": requested["id"]}
    with pytest.raises(ToolgroupUnavailable):
        responded(server, **request)
    for is_stored in (True, False):
        given = {**request, "store": True} if is_stored else {"tools": [BIRDS], "store": False}
        stream = live(started(server, **given, stream=True))
        assert [event["type"].removeprefix("response.") for event in stream] == [
            *("created", "in_progress", "output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.failed"),
            *("output_item.done", "failed"),
        ]
        failed = stream[-1]["response"]
        (listed,) = failed["output"]
        why = "the tools of 'inline::birds' are not available now: its server can't be reached"
        assert (listed["server_label"], listed["tools"], listed["error"]) == ("birds", [], why)
        assert "the tools of one of its toolgroups are not available" in failed["error"]["message"]
        if is_stored:
            assert read(server, failed["id"]) == failed
            assert replayed(server, failed["id"]) == stream
    server.tools.unlisted = ()
    assert kinds(responded(server, **request)) == ["mcp_call", "message"]
    assert len(server.tools.invocations) == 1


def test_a_response_whose_server_listed_no_tools_fails_after_a_kill_too(make: Make) -> None:
    dying = made(make)
    dying.tools.unlisted = ("inline::birds",)
    dying.store.before(puts_turn(TurnStatus.FAILED), dying.store.die)
    begun = started(dying, tools=[BIRDS], stream=True).broadcast
    dying.drain(begun)
    heir = make()
    heir.clock.advance(LEASE_S)  # type: ignore[attr-defined]
    heir.core.recovery.reconcile(begun.ref)
    heir.settle()
    response = read(heir, response_id(begun.ref))
    assert (response["status"], kinds(response)) == ("failed", ["mcp_list_tools"])
    assert heir.inference.requests == []
