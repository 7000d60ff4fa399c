"""What turns spent is counted once, wherever it is asked for, by whom it may be; and limits stop who spent too much.

Covers: services/usage/usage, services/usage/limits, store/usage/usage
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply, call, calls
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Server, answer, attempt, client_tool, completes_turn, outline
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import DayLimitReached, InvalidRequest, NotFound
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.inference import Question, TextsToEmbed
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.refs import SessionRef
from turnstone.domain.registry.registry import Model
from turnstone.domain.turns.turns import NewTurn, TurnStatus
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.usage.usage_report import UsageQuery, UsageReport
from turnstone.http.errors import error_reply, failure_reply
from turnstone.ports.records import Put, Range
from turnstone.store.layout.keys import USAGE_SHARDS, usage_key, usage_partitions
from turnstone.store.layout.ranges import all_records
from turnstone.store.usage.usage import KEPT

DAY_S = 86_400
TENANT = LOCAL_CALLER.tenant
ANN = Caller(tenant=TENANT, principal="ann", teams=("red",))
MATE = Caller(tenant=TENANT, principal="mate")
ADMIN = Caller(tenant=TENANT, principal="boss", roles=("admin",))
FOREIGNER = Caller(tenant="other", principal="local", roles=("admin",))


def says(text: str, prompt: int, completion: int) -> ScriptedReply:
    usage = TokenUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
    return ScriptedReply((text,), usage=usage)


def usage(server: Server, caller: Caller = LOCAL_CALLER, **wanted: Any) -> UsageReport:
    return server.core.usage.report(caller, UsageQuery(**wanted))


def names(ref: SessionRef) -> dict[str, str]:
    return {"agent_id": ref.agent_id, "session_id": ref.session_id}


def tokens(report: UsageReport) -> tuple[int, int, int]:
    return report.total.inferences, report.total.prompt_tokens, report.total.completion_tokens


def advance(server: Server, seconds: float) -> None:
    server.clock.advance(seconds)  # type: ignore[attr-defined] # those of tests can be put forward


def test_what_turns_spent_is_told_of_their_session_their_agent_and_the_tenant(make: Make) -> None:
    server = make(says("a", 100, 10), says("b", 200, 20), says("c", 400, 40))
    agent_id = server.agent()
    first, second = server.session(agent_id), server.session(agent_id)
    other = server.session()
    for ref in (first, first, other):
        server.whole_turn(ref)
        server.assert_whole(ref)
    assert tokens(usage(server, **names(first))) == (2, 300, 30)
    assert tokens(usage(server, **names(second))) == (0, 0, 0)
    of_agent = usage(server, agent_id=agent_id)
    assert (tokens(of_agent), [one.session_id for one in of_agent.by_session]) == ((2, 300, 30), [first.session_id])
    whole = usage(server)
    assert tokens(whole) == (3, 700, 70)
    assert {one.agent_id: one.total_tokens for one in whole.by_agent} == {agent_id: 330, other.agent_id: 440}
    assert (whole.by_session, [one.model_id for one in whole.by_model]) == ((), ["scripted"])


def test_every_inference_of_a_turn_counts_when_it_has_ended_whoever_ran_its_tools(make: Make) -> None:
    server = make(calls(call("roll", "c1")), calls(call("look", "c2")), "done")
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    turn = server.paused(ref)
    assert tokens(usage(server, **names(ref))) == (0, 0, 0)
    server.drain(server.resume(turn, answer("c2")))
    assert tokens(usage(server, **names(ref))) == (3, 30, 15)
    server.assert_whole(ref)


def test_a_turn_that_a_new_one_takes_the_place_of_counts_too(make: Make) -> None:
    server = make(calls(call("look", "c1")), "done")
    ref = server.session(client_tools=[client_tool()])
    server.paused(ref)
    server.whole_turn(ref, "another")
    assert tokens(usage(server, **names(ref))) == (2, 20, 10)
    server.assert_whole(ref)


def test_a_turn_whose_process_died_counts_once_by_what_is_stored_of_it(make: Make) -> None:
    dying, worker = make(calls(call("roll", "c1")), "lost"), make("found")
    ref = dying.session(toolgroups=["dice"])
    dying.store.before(completes_turn, dying.store.die)
    broadcast = dying.start(ref)
    dying.drain(broadcast)
    advance(worker, LEASE_S)
    worker.core.recovery.reconcile(broadcast.ref)
    worker.settle()
    assert worker.state(broadcast.ref).status is TurnStatus.COMPLETED
    assert tokens(usage(worker, **names(ref))) == (2, 20, 10)
    worker.assert_whole(ref)


def test_each_day_has_its_own_and_a_range_of_days_tells_them_in_order(make: Make) -> None:
    server = make("a", "b")
    ref = server.session()
    server.whole_turn(ref)
    advance(server, DAY_S)
    server.whole_turn(ref)
    server.assert_whole(ref)
    today = server.clock.now().date()
    days = [today - timedelta(days=number) for number in (2, 1, 0)]
    told = usage(server, first_day=days[0])
    assert [(one.day, one.inferences) for one in told.by_day] == [(days[0], 0), (days[1], 1), (days[2], 1)]
    assert told.by_day == usage(server, **names(ref), first_day=days[0]).by_day
    assert usage(server, **names(ref)).total.inferences == 1


def test_what_was_deleted_stays_counted_for_those_who_could_see_it(make: Make) -> None:
    server = make("a", "b")
    agent_id = server.agent()
    first, second = server.session(agent_id), server.session(agent_id)
    for ref in (first, second):
        server.whole_turn(ref)
    server.core.deleting.delete_session(LOCAL_CALLER, first)
    assert tokens(usage(server, **names(first))) == (1, 10, 5)
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    assert tokens(usage(server)) == tokens(usage(server, agent_id=agent_id)) == (2, 20, 10)


def test_it_costs_what_the_registry_says_and_what_nobody_says_while_that_is_gone(make: Make) -> None:
    server = make(says("a", 1_000_000, 100_000))
    told = {"prices": {"input": 2.0, "output": 10.0}, "context_tokens": 5_000}
    model = Model(identifier="priced", provider_resource_id="p", provider_id="default", metadata=told)
    server.core.models.register(LOCAL_CALLER, model, attempt())
    ref = server.session(model="priced")
    server.whole_turn(ref)
    assert [one.cost_usd for one in usage(server, **names(ref)).by_model] == [3.0]
    assert server.core.contexts.read(LOCAL_CALLER, ref).window_tokens == 5_000
    server.core.models.unregister(LOCAL_CALLER, "priced")
    assert usage(server).total.cost_usd is None


def test_what_was_spent_is_forgotten_after_more_than_a_year(make: Make) -> None:
    server = make("a")
    server.whole_turn(server.session())
    day = server.clock.now().date()
    (record,) = (one for pk in usage_partitions(TENANT, day) for one in all_records(server.records, Range(pk)))
    kept_s = int(record.attributes["ttl"]) - server.clock.now().timestamp()
    assert KEPT.total_seconds() - DAY_S <= kept_s <= KEPT.total_seconds()


# ---- who may ask


def test_what_is_not_there_has_no_usage(make: Make) -> None:
    server = make()
    ref = server.session()
    for wanted in ({"agent_id": "unknown"}, {"agent_id": ref.agent_id, "session_id": "unknown"}):
        with pytest.raises(NotFound):
            usage(server, **wanted)
    with pytest.raises(InvalidRequest, match="agent_id"):
        usage(server, session_id=ref.session_id)


def test_who_sees_an_agent_is_told_what_it_spent_and_admins_are_told_all(make: Make) -> None:
    server = make("a", owner_only=True)
    ref = server.session()
    server.whole_turn(ref)
    questions: list[dict[str, str]] = [{}, {"agent_id": ref.agent_id}, names(ref)]
    for caller in (MATE, FOREIGNER):
        assert tokens(usage(server, caller)) == (0, 0, 0)
        for wanted in questions[1:]:
            with pytest.raises(NotFound):
                usage(server, caller, **wanted)
    for wanted in questions:
        assert tokens(usage(server, ADMIN, **wanted)) == tokens(usage(server, **wanted)) == (1, 10, 5)


def test_nobody_is_told_of_sessions_of_others_though_the_agent_is_everybodys(make: Make) -> None:
    server = make("a")
    ref = turn_of(server, ANN, server.agent())
    agent_id = ref.agent_id
    assert tokens(usage(server, ANN)) == (1, 10, 5)
    assert tokens(usage(server, MATE, agent_id=agent_id)) == (0, 0, 0)
    with pytest.raises(NotFound):
        usage(server, MATE, **names(ref))


def test_nobody_is_told_of_a_session_of_an_agent_that_is_not_theirs(make: Make) -> None:
    server = make("a")
    config = AgentConfig(model="scripted", instructions="")
    ref = turn_of(server, Caller(tenant=TENANT, principal="ann"), server.core.agents.create(ANN, config, attempt()))
    assert tokens(usage(server, ANN)) == (1, 10, 5)
    assert tokens(usage(server, MATE)) == (0, 0, 0)
    for wanted in ({"agent_id": ref.agent_id}, names(ref)):
        with pytest.raises(NotFound):
            usage(server, MATE, **wanted)


def turn_of(server: Server, caller: Caller, agent_id: str) -> SessionRef:
    """Have the caller take a turn in a session of their own; return which."""
    session_id = server.core.sessions.create(caller, agent_id, "hers", attempt())
    ref = SessionRef(tenant=TENANT, agent_id=agent_id, session_id=session_id)
    new = NewTurn(messages=(UserMessage(content="hello"),))
    server.drain(server.turns.start(caller, ref, new, attempt()))
    return ref


@pytest.mark.parametrize("stored", [10**310, 10**18])
def test_numbers_that_were_stored_before_they_were_bounded_are_no_error_and_use_nothing_up(
    make: Make, stored: int
) -> None:
    server = make("a", "b", max_day_tokens=1_000)
    ref = server.session()
    server.whole_turn(ref)
    record = server.records.get(usage_key(ref, server.clock.now().date()))
    assert record is not None
    absurd = record.body.replace(b'"prompt_tokens":10', b'"prompt_tokens":%d' % stored)
    assert absurd != record.body
    server.records.write([Put(record.key, absurd, record.attributes)])
    assert tokens(usage(server)) == (1, 0, 5)
    server.whole_turn(ref)
    assert tokens(usage(server)) == (2, 20, 10)


# ---- limits


def test_a_turn_that_spent_what_one_may_fails_before_it_asks_again_and_keeps_its_steps(make: Make) -> None:
    server = make(calls(call("roll", "c1")), "never said", max_turn_tokens=15)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref)
    assert outline(server.drain(broadcast)).endswith("failed:limit_reached")
    state = server.state(broadcast.ref)
    assert state.failure is not None
    assert (state.status, state.failure.kind) == (TurnStatus.FAILED, "limit_reached")
    assert "TURNSTONE_MAX_TURN_TOKENS" in state.failure.message
    assert failure_reply(state.failure).status == 429
    assert [step.step_type for step in state.turn.steps] == ["inference", "tool_execution"]
    assert len(server.inference.requests) == 1
    assert tokens(usage(server, **names(ref))) == (1, 10, 5)
    server.assert_whole(ref)


def test_a_resumed_turn_goes_on_with_what_it_had_spent(make: Make) -> None:
    server = make(calls(call("look", "c1")), max_turn_tokens=15)
    turn = server.paused(server.session(client_tools=[client_tool()]))
    assert outline(server.drain(server.resume(turn, answer("c1")))).endswith("failed:limit_reached")


def test_a_tenant_that_spent_the_days_tokens_begins_no_turn_until_midnight(make: Make) -> None:
    server = make("a", "b", "c", max_day_tokens=30)
    ref = server.session()
    for _ in range(2):
        server.whole_turn(ref)
        advance(server, 11)
    with pytest.raises(DayLimitReached, match=r"30 tokens of this day .*TURNSTONE_MAX_DAY_TOKENS") as refused:
        server.start(server.session())
    assert 0 < refused.value.retry_after_s <= DAY_S
    reply = error_reply(refused.value)
    assert reply.status == 429
    assert reply.headers == {"retry-after": str(refused.value.retry_after_s), "x-should-retry": "false"}
    advance(server, refused.value.retry_after_s)
    server.whole_turn(ref)


def test_a_waiting_turn_may_be_resumed_though_the_days_tokens_are_spent(make: Make) -> None:
    server = make(calls(call("look", "c1")), "a", "done", max_day_tokens=15)
    turn = server.paused(server.session(client_tools=[client_tool()]))
    server.whole_turn(server.session())
    advance(server, 11)
    with pytest.raises(DayLimitReached):
        server.start(server.session())
    assert outline(server.drain(server.resume(turn, answer("c1")))).endswith("complete")


def test_who_may_begin_no_turn_asks_no_model_directly_either(make: Make) -> None:
    server = make("a", "b", max_day_tokens=15)
    asked = Question((UserMessage(content="hi"),), AgentConfig(model="m", instructions=""))
    server.whole_turn(server.session())
    advance(server, 11)
    with pytest.raises(DayLimitReached):
        server.core.inferring.chat(LOCAL_CALLER, asked, NO_PROVIDER_DATA)
    with pytest.raises(DayLimitReached):
        server.core.inferring.embed(LOCAL_CALLER, TextsToEmbed("m", ("hi",)), NO_PROVIDER_DATA)
    assert len(server.inference.requests) == 1


def test_a_repeated_request_hears_its_turn_though_the_days_tokens_are_spent(make: Make) -> None:
    server = make("a", max_day_tokens=15)
    ref = server.session()
    server.whole_turn(ref, by=attempt("first", key="k"))
    advance(server, 11)
    assert outline(server.drain(server.start(ref, by=attempt("first", key="k")))).endswith("complete")


def test_a_days_tokens_are_looked_up_every_ten_seconds_and_never_without_a_limit(make: Make) -> None:
    for limit, expected in ((1_000, [1, 0, 1]), (None, [0, 0, 0])):
        server = make(*"abc", max_day_tokens=limit)
        ref, looks = server.session(), []
        for _ in range(3):
            before = len(server.store.calls)
            server.whole_turn(ref)
            looks.append(sum(len(one.keys) == USAGE_SHARDS for one in server.store.calls[before:]))
            advance(server, 6)
        assert looks == expected
