"""Letta's agents near the end of the context window, over both stores: an alert, a summary, and what follows.

Covers: services/turns/summarizing, domain/turns/loop_policies, domain/sessions/context_budget, dialects/letta/messages
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.models.scripted import Reply, ScriptedReply, call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Server, attempt, completes_turn, contents
from tests.support.engine.windows import with_window
from turnstone.dialects.letta.message_requests import MessagesQuery
from turnstone.dialects.letta.messages import NO_ANSWER_TOOL
from turnstone.dialects.letta.overview.context import context_messages, overview_of, recall_of
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.letta.agents import main_session
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.loop_policies import NEARLY_FULL
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.usage.usage import TokenUsage
from turnstone.engine.measuring import prompt_tokens_of
from turnstone.engine.summary import TASK
from turnstone.services.streams.broadcast import TurnBroadcast

WINDOW = 6_000
QUESTION = "q" * 400
SUMMED_UP = "They like tea."
ALERT = str(NEARLY_FULL.content)


class Model:
    """Answers each message and writes summaries, and counts tokens as this server estimates them."""

    def __init__(self) -> None:
        self.prompts: list[int] = []
        self.to_sum_up: list[str] = []

    def __call__(self, request: InferenceRequest) -> Reply:
        count = prompt_tokens_of(request)
        used = TokenUsage(prompt_tokens=count, completion_tokens=100, total_tokens=count + 100)
        if request.messages[0].content == TASK:
            self.to_sum_up.append(str(request.messages[1].content))
            return ScriptedReply((SUMMED_UP,), usage=used)
        self.prompts.append(count)
        answer = call("send_message", f"s{len(self.prompts)}", inner_thoughts="Hm.", message="a" * 400)
        return ScriptedReply(calls=(answer,), usage=used)


def served(make: Make, model: Model, window: int = WINDOW) -> Server:
    server = with_window(make(*[model] * 80), window)
    for part in ("messages", "contexts", "runs"):
        vars(server.core.letta_services).pop(part, None)
    object.__setattr__(server.core.letta_contexts, "contexts", server.core.contexts)
    return server


def created(server: Server, **fields: Any) -> str:
    body = {"llm_config": {"model": "scripted"}, "memory_blocks": [], "system": "Be brief.", **fields}
    return server.core.letta_agents.create(
        LOCAL_CALLER, CreateLettaAgent.model_validate(body).to_new("Sam"), attempt()
    ).agent_id


def main_of(agent_id: str) -> SessionRef:
    return SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent_id, session_id=main_session(agent_id, 0))


def begin(server: Server, agent_id: str, number: int) -> TurnBroadcast:
    """Send a message, and return its turn once its run is over."""
    question = f"{number:03}{QUESTION}"
    turn = server.core.letta_messages.send(LOCAL_CALLER, agent_id, [UserMessage(content=question)], attempt())
    server.drain(turn)
    return turn


def send(server: Server, agent_id: str, number: int) -> TurnState:
    return server.state(begin(server, agent_id, number).ref)


def sent_texts(server: Server) -> list[str]:
    """Return the texts of the last request for an answer."""
    return [texts for texts in (contents(each.messages) for each in server.inference.requests) if texts[0] != TASK][-1]


def questions(server: Server) -> list[int]:
    return [int(text[:3]) for text in sent_texts(server) if text.endswith("q")]


def until_summed_up(server: Server, agent_id: str, model: Model, most: int = 60) -> int:
    """Send messages until one turn is summed up; return their number."""
    for number in range(most):
        send(server, agent_id, number)
        if model.to_sum_up:
            return number + 1
    raise AssertionError("no summary")


def listed(server: Server, agent_id: str, **query: Any) -> list[dict[str, Any]]:
    agent, turns = server.core.letta_messages.read(LOCAL_CALLER, agent_id, None)
    notes = MessagesQuery(None, query.get("limit", 1_000), NO_ANSWER_TOOL).notes(agent, turns)
    return [note.model_dump() for note in notes]


def test_the_model_gets_an_alert_over_three_quarters_of_its_window_and_then_a_summary(make: Make) -> None:
    server = served(make, model := Model())
    agent_id = created(server)
    times = until_summed_up(server, agent_id, model)
    states = server.states(main_of(agent_id))
    alerted = [index for index, state in enumerate(states) if any(trace.has_alert for trace in state.traces)]
    assert alerted == [alerted[0]], "one alert"
    assert model.prompts[alerted[0]] + 100 > 0.75 * WINDOW >= model.prompts[alerted[0] - 1] + 100
    assert alerted[0] < times - 1, "the alert comes before the summary"
    assert sent_texts(server).count(ALERT) == 1
    assert max(model.prompts) <= WINDOW
    rows = listed(server, agent_id)
    (alert,) = [row for row in rows if row.get("message") == ALERT]
    assert (alert["message_type"], rows.index(alert) + 1) == (
        "user_message",
        next(index for index, row in enumerate(rows) if str(row.get("message")).startswith(f"{alerted[0] + 1:03}q")),
    )
    send(server, agent_id, times)
    texts = sent_texts(server)
    assert texts[1] == f"[Summary of the earlier conversation]\n{SUMMED_UP}"
    first = questions(server)[0]
    assert 0 < first < times
    assert questions(server) == list(range(first, times + 1))
    assert [f"{number:03}q" in model.to_sum_up[0] for number in range(times)] == [n < first for n in range(times)]
    server.assert_whole(main_of(agent_id))


def test_the_alert_comes_again_once_a_summary_replaced_it(make: Make) -> None:
    server = served(make, model := Model())
    agent_id = created(server)
    for number in range(45):
        send(server, agent_id, number)
        assert sent_texts(server).count(ALERT) <= 1
    alerted = [any(trace.has_alert for trace in state.traces) for state in server.states(main_of(agent_id))]
    assert len(model.to_sum_up) > 1
    assert alerted.count(True) in (len(model.to_sum_up), len(model.to_sum_up) + 1)


def test_memory_blocks_count_in_what_the_window_holds(make: Make) -> None:
    server = served(make, model := Model())
    agent_id = created(server, memory_blocks=[{"label": "human", "value": "h" * 4_900}])
    times = until_summed_up(server, agent_id, model)
    assert questions(server) == list(range(times)), "nothing was dropped before the summary"


def test_the_overview_has_the_summary_and_all_messages(make: Make) -> None:
    server = served(make, model := Model())
    agent_id = created(server)
    until_summed_up(server, agent_id, model)
    agent, context, turns = server.core.letta_contexts.read(LOCAL_CALLER, agent_id)
    found = list(turns)
    overview = overview_of(agent, context, iter(found), 0, LOCAL_CALLER.tenant)
    assert (overview.summary_memory, overview.num_recall_memory) == (SUMMED_UP, recall_of(found).size)
    assert (context.budget_tokens, context.window_tokens) == (WINDOW - WINDOW // 8, WINDOW)
    in_context = context_messages(agent, context, iter(found), LOCAL_CALLER.tenant).root
    assert len(in_context) < overview.num_recall_memory


def test_a_process_that_dies_after_the_summary_leaves_the_turn_to_another(make: Make) -> None:
    server = served(make, model := Model())
    agent_id = created(server)

    server.store.before(lambda call: completes_turn(call) and bool(model.to_sum_up), server.store.die)
    times = 0
    while not model.to_sum_up:
        turn = begin(server, agent_id, times)
        times += 1
    other = served(make, model)
    ref = main_of(agent_id)
    server.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    other.core.recovery.reconcile(turn.ref)
    other.settle()
    assert len(model.to_sum_up) == 2
    states = other.states(ref)
    assert (len(states), states[-1].summary and states[-1].summary.text) == (times, SUMMED_UP)
    assert sum(state.summary is not None for state in states) == 1
    send(other, agent_id, times)
    assert sent_texts(other)[1].endswith(SUMMED_UP)
    other.assert_whole(ref)


@pytest.mark.parametrize("summaries", [True, False])
def test_turns_of_another_api_are_summed_up_by_the_setting(make: Make, summaries: bool) -> None:
    def model(request: InferenceRequest) -> Reply:
        return SUMMED_UP if request.messages[0].content == TASK else "a" * 400

    server = make(*[model] * 60, context_tokens=1_500, summaries=summaries)
    ref = server.session()
    for number in range(12):
        server.whole_turn(ref, f"{number:03}{QUESTION}")
    assert any(state.summary for state in server.states(ref)) is summaries
    assert json.dumps(contents(server.inference.requests[-1].messages)).count(ALERT) == 0
