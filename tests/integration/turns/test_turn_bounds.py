"""A turn ends by itself, however often its model calls tools and however long it talks.

Covers: services/turns/running, engine/turn
"""

from __future__ import annotations

import pytest

from tests.fakes.models.scripted import Reply, Scripted, call, calls
from tests.support.engine.either_store import Make
from tests.support.engine.harness import AWAIT_S, Server, answer, client_tool, outline
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.turns.turns import TurnStatus
from turnstone.http.errors import error_reply, failure_reply

FOREVER = [calls(call("roll", f"c{number}")) for number in range(20)]


def test_an_agent_that_requests_more_inferences_than_the_server_runs_is_refused(make: Make) -> None:
    server = make(max_infer_iters=12)
    server.agent(max_infer_iters=12)
    with pytest.raises(InvalidRequest, match=r"max_infer_iters: .* at most 12 .* not 13") as refused:
        server.agent(max_infer_iters=13)
    assert refused.value.location == ("agent_config", "max_infer_iters")
    assert error_reply(refused.value).status == 400


def test_a_turn_that_requests_more_inferences_is_refused_and_stores_nothing(make: Make) -> None:
    server = make("ok", max_infer_iters=12)
    ref = server.session()
    with pytest.raises(InvalidRequest, match="max_infer_iters"):
        server.start(ref, max_infer_iters=10**12)
    assert outline(server.drain(server.start(ref, max_infer_iters=12))).endswith("complete")


def test_an_agent_that_was_stored_under_a_higher_bound_runs_with_that_of_today(make: Make) -> None:
    agent_id = make(max_infer_iters=10_000).agent(toolgroups=["dice"], max_infer_iters=5_000)
    server = make(*FOREVER, max_infer_iters=10)
    assert outline(server.drain(server.start(server.session(agent_id)))).endswith("complete")
    assert len(server.inference.requests) == 10


def test_calls_that_are_stored_with_their_inference_end_at_the_limit_too(make: Make) -> None:
    server = make(*(calls(call("send_message", f"c{number}", message="hi")) for number in range(20)))
    ref = server.session(toolgroups=["letta::core"], max_infer_iters=3)
    ended = outline(server.drain(server.start(ref)))
    assert (ended.endswith("complete"), len(server.inference.requests)) == (True, 3)


def after(seconds: float, reply: Reply, servers: list[Server]) -> Scripted:
    """Return a model that answers after so much time, by the clock of the last server."""

    def answer_late(_: InferenceRequest) -> Reply:
        servers[-1].clock.advance(seconds)  # type: ignore[attr-defined] # those of tests can be put forward
        return reply

    return answer_late


def test_a_turn_that_ran_for_as_long_as_it_may_fails_and_keeps_its_steps(make: Make) -> None:
    servers: list[Server] = []
    servers.append(make(*(after(20, reply, servers) for reply in FOREVER), max_turn_seconds=50))
    (server,) = servers
    broadcast = server.start(server.session(toolgroups=["dice"]))
    assert outline(server.drain(broadcast)).endswith("failed:limit_reached")
    state = server.state(broadcast.ref)
    assert state.failure is not None
    assert state.status is TurnStatus.FAILED
    assert "TURNSTONE_MAX_TURN_SECONDS" in state.failure.message
    assert failure_reply(state.failure).status == 429
    assert [step.step_type for step in state.turn.steps] == ["inference", "tool_execution"] * 2 + ["inference"]
    server.assert_whole(broadcast.ref)


def test_the_wait_for_its_client_is_no_part_of_the_time_that_a_turn_may_run(make: Make) -> None:
    server = make(calls(call("look", "c1")), "seen", max_turn_seconds=50)
    turn = server.paused(server.session(client_tools=[client_tool()]))
    server.clock.advance(AWAIT_S - 1)  # type: ignore[attr-defined] # as above
    assert outline(server.drain(server.resume(turn, answer("c1")))).endswith("complete")


def test_a_resumed_turn_has_run_for_as_long_as_before_its_pause(make: Make) -> None:
    servers: list[Server] = []
    pauses = calls(call("look", "c1"))
    servers.append(make(after(40, pauses, servers), after(6, pauses, servers), "never said", max_turn_seconds=45))
    (server,) = servers
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)
    assert outline(server.drain(server.resume(turn, answer("c1")))).endswith("awaiting")
    assert outline(server.drain(server.resume(turn, answer("c1")))).endswith("failed:limit_reached")


def test_a_turn_without_bounds_runs_on(make: Make) -> None:
    servers: list[Server] = []
    replies = (*FOREVER, "at last")
    settings = {"max_turn_seconds": "none", "max_turn_tokens": "none", "max_infer_iters": 21}
    servers.append(make(*(after(1_000, reply, servers) for reply in replies), **settings))
    (server,) = servers
    ref = server.session(toolgroups=["dice"], max_infer_iters=21)
    assert outline(server.drain(server.start(ref))).endswith("complete")
