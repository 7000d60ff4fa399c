"""Usage of turns is counted once, wherever an authorized caller reads it, and limits stop callers beyond their budget.

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


def answer_of(text: str, prompt: int, completion: int) -> ScriptedReply:
    usage = TokenUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
    return ScriptedReply((text,), usage=usage)


def usage(server: Server, caller: Caller = LOCAL_CALLER, **query: Any) -> UsageReport:
    return server.core.usage.report(caller, UsageQuery(**query))


def names(ref: SessionRef) -> dict[str, str]:
    return {"agent_id": ref.agent_id, "session_id": ref.session_id}


def tokens(report: UsageReport) -> tuple[int, int, int]:
    return report.total.inferences, report.total.prompt_tokens, report.total.completion_tokens


def advance(server: Server, seconds: float) -> None:
    server.clock.advance(seconds)  # type: ignore[attr-defined] # those of tests can be put forward


def test_usage_is_reported_by_session_by_agent_and_by_tenant(make: Make) -> None:
    server = make(answer_of("a", 100, 10), answer_of("b", 200, 20), answer_of("c", 400, 40))
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


def test_every_inference_of_an_ended_turn_counts_with_server_and_client_tools(make: Make) -> None:
    server = make(calls(call("roll", "c1")), calls(call("look", "c2")), "done")
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    turn = server.paused(ref)
    assert tokens(usage(server, **names(ref))) == (0, 0, 0)
    server.drain(server.resume(turn, answer("c2")))
    assert tokens(usage(server, **names(ref))) == (3, 30, 15)
    server.assert_whole(ref)


def test_a_superseded_turn_counts_too(make: Make) -> None:
    server = make(calls(call("look", "c1")), "done")
    ref = server.session(client_tools=[client_tool()])
    server.paused(ref)
    server.whole_turn(ref, "another")
    assert tokens(usage(server, **names(ref))) == (2, 20, 10)
    server.assert_whole(ref)


def test_a_turn_whose_process_died_counts_once_by_its_stored_steps(make: Make) -> None:
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


def test_each_day_has_its_own_usage_and_a_range_lists_days_in_order(make: Make) -> None:
    server = make("a", "b")
    ref = server.session()
    server.whole_turn(ref)
    advance(server, DAY_S)
    server.whole_turn(ref)
    server.assert_whole(ref)
    today = server.clock.now().date()
    days = [today - timedelta(days=number) for number in (2, 1, 0)]
    report = usage(server, first_day=days[0])
    assert [(one.day, one.inferences) for one in report.by_day] == [(days[0], 0), (days[1], 1), (days[2], 1)]
    assert report.by_day == usage(server, **names(ref), first_day=days[0]).by_day
    assert usage(server, **names(ref)).total.inferences == 1


def test_the_usage_of_a_deleted_session_stays_counted_for_callers_with_access(make: Make) -> None:
    server = make("a", "b")
    agent_id = server.agent()
    first, second = server.session(agent_id), server.session(agent_id)
    for ref in (first, second):
        server.whole_turn(ref)
    server.core.deleting.delete_session(LOCAL_CALLER, first)
    assert tokens(usage(server, **names(first))) == (1, 10, 5)
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    assert tokens(usage(server)) == tokens(usage(server, agent_id=agent_id)) == (2, 20, 10)


def test_usage_costs_the_registered_price_and_none_after_its_removal(make: Make) -> None:
    server = make(answer_of("a", 1_000_000, 100_000))
    metadata = {"prices": {"input": 2.0, "output": 10.0}, "context_tokens": 5_000}
    model = Model(identifier="priced", provider_resource_id="p", provider_id="default", metadata=metadata)
    server.core.models.register(LOCAL_CALLER, model, attempt())
    ref = server.session(model="priced")
    server.whole_turn(ref)
    assert [one.cost_usd for one in usage(server, **names(ref)).by_model] == [3.0]
    assert server.core.contexts.read(LOCAL_CALLER, ref).window_tokens == 5_000
    server.core.models.unregister(LOCAL_CALLER, "priced")
    assert usage(server).total.cost_usd is None


def test_usage_expires_after_more_than_a_year(make: Make) -> None:
    server = make("a")
    server.whole_turn(server.session())
    day = server.clock.now().date()
    (record,) = (one for pk in usage_partitions(TENANT, day) for one in all_records(server.records, Range(pk)))
    kept_s = int(record.attributes["ttl"]) - server.clock.now().timestamp()
    assert KEPT.total_seconds() - DAY_S <= kept_s <= KEPT.total_seconds()


# ---- access to usage


def test_the_usage_of_a_missing_resource_is_not_found(make: Make) -> None:
    server = make()
    ref = server.session()
    for query in ({"agent_id": "unknown"}, {"agent_id": ref.agent_id, "session_id": "unknown"}):
        with pytest.raises(NotFound):
            usage(server, **query)
    with pytest.raises(InvalidRequest, match="agent_id"):
        usage(server, session_id=ref.session_id)


def test_a_caller_with_access_to_an_agent_reads_its_usage_and_admins_read_all(make: Make) -> None:
    server = make("a", owner_only=True)
    ref = server.session()
    server.whole_turn(ref)
    questions: list[dict[str, str]] = [{}, {"agent_id": ref.agent_id}, names(ref)]
    for caller in (MATE, FOREIGNER):
        assert tokens(usage(server, caller)) == (0, 0, 0)
        for query in questions[1:]:
            with pytest.raises(NotFound):
                usage(server, caller, **query)
    for query in questions:
        assert tokens(usage(server, ADMIN, **query)) == tokens(usage(server, **query)) == (1, 10, 5)


def test_the_usage_of_anothers_session_is_hidden_though_the_agent_is_shared(make: Make) -> None:
    server = make("a")
    ref = turn_of(server, ANN, server.agent())
    agent_id = ref.agent_id
    assert tokens(usage(server, ANN)) == (1, 10, 5)
    assert tokens(usage(server, MATE, agent_id=agent_id)) == (0, 0, 0)
    with pytest.raises(NotFound):
        usage(server, MATE, **names(ref))


def test_the_usage_of_a_session_of_anothers_agent_is_hidden(make: Make) -> None:
    server = make("a")
    config = AgentConfig(model="scripted", instructions="")
    ref = turn_of(server, Caller(tenant=TENANT, principal="ann"), server.core.agents.create(ANN, config, attempt()))
    assert tokens(usage(server, ANN)) == (1, 10, 5)
    assert tokens(usage(server, MATE)) == (0, 0, 0)
    for query in ({"agent_id": ref.agent_id}, names(ref)):
        with pytest.raises(NotFound):
            usage(server, MATE, **query)


def turn_of(server: Server, caller: Caller, agent_id: str) -> SessionRef:
    """Run a turn of the caller in a session of their own; return its reference."""
    session_id = server.core.sessions.create(caller, agent_id, "hers", attempt())
    ref = SessionRef(tenant=TENANT, agent_id=agent_id, session_id=session_id)
    new = NewTurn(messages=(UserMessage(content="hello"),))
    server.drain(server.turns.start(caller, ref, new, attempt()))
    return ref


@pytest.mark.parametrize("stored", [10**310, 10**18])
def test_stored_numbers_beyond_the_present_bounds_are_no_error_and_exhaust_no_limit(make: Make, stored: int) -> None:
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


def test_a_turn_at_its_token_limit_fails_before_its_next_inference_and_keeps_its_steps(make: Make) -> None:
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


def test_a_resumed_turn_continues_with_its_earlier_usage(make: Make) -> None:
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


def test_a_tenant_that_may_begin_no_turn_may_not_infer_directly_either(make: Make) -> None:
    server = make("a", "b", max_day_tokens=15)
    question = Question((UserMessage(content="hi"),), AgentConfig(model="m", instructions=""))
    server.whole_turn(server.session())
    advance(server, 11)
    with pytest.raises(DayLimitReached):
        server.core.inferring.chat(LOCAL_CALLER, question, NO_PROVIDER_DATA)
    with pytest.raises(DayLimitReached):
        server.core.inferring.embed(LOCAL_CALLER, TextsToEmbed("m", ("hi",)), NO_PROVIDER_DATA)
    assert len(server.inference.requests) == 1


def test_a_repeated_request_receives_its_turn_though_the_days_tokens_are_spent(make: Make) -> None:
    server = make("a", max_day_tokens=15)
    ref = server.session()
    server.whole_turn(ref, by=attempt("first", key="k"))
    advance(server, 11)
    assert outline(server.drain(server.start(ref, by=attempt("first", key="k")))).endswith("complete")


def test_a_days_tokens_are_read_every_ten_seconds_and_never_without_a_limit(make: Make) -> None:
    for limit, expected in ((1_000, [1, 0, 1]), (None, [0, 0, 0])):
        server = make(*"abc", max_day_tokens=limit)
        ref, lookups = server.session(), []
        for _ in range(3):
            before = len(server.store.calls)
            server.whole_turn(ref)
            lookups.append(sum(len(one.keys) == USAGE_SHARDS for one in server.store.calls[before:]))
            advance(server, 6)
        assert lookups == expected
