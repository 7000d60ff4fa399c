"""Memory in turns over either store: the banks that agents and sessions name, queries, attachments and access.

Covers: services/memory/turns/turn_memory, services/memory/turns/query_making, services/memory/turns/lending,
services/memory/turns/session_banks, store/memory/bank_reads, domain/memory/lent_banks, domain/sessions/lending,
services/turns/opening, services/turns/running, services/cleanup/cleaning
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply, call
from tests.support.engine.either_store import Make, made_over_dynamodb, made_over_sqlite
from tests.support.engine.harness import (
    LEASE_S,
    Server,
    attempt,
    drained_events,
    outline,
    saves_step,
    turn_in,
)
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import MemoryUnusable, NotFound, StoreUnavailable
from turnstone.domain.memory.banks import NewBank
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.lent_banks import RAG, bank_of_session
from turnstone.domain.memory.questions import BankQuery, BankQuestion
from turnstone.domain.memory.texts.chunking import count_tokens
from turnstone.domain.messages.messages import UserMessage, message_text
from turnstone.domain.models.requests import Embedded, EmbeddingRequest
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.events import StepCompleted, TurnFailed
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import MemoryRetrievalStep, NewTurn, Turn, TurnStatus
from turnstone.ports.records import Range
from turnstone.services.memory.folding import AT_ONCE_FROM

TERNS = "Terns breed on the gravel of the northern shore."
KNOTS = "Knots winter on mudflats, far from where they breed."
BANKS = {"type": "memory", "memory_bank_configs": [{"type": "vector", "bank_id": "shore"}]}
QUESTION = "Where do terns breed?"


@pytest.fixture(params=["sqlite", "dynamodb"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make processes over one store: over both stores in each run."""
    if request.param == "sqlite":
        yield from made_over_sqlite(tmp_path)
    else:
        yield from made_over_dynamodb(request.getfixturevalue("bench_for_make"))


def filled(server: Server, *texts: str, bank: str = "shore", by: Caller = LOCAL_CALLER) -> None:
    server.core.banks.register(by, NewBank(bank, "vector", "scripted"), NO_PROVIDER_DATA, attempt())
    given = [GivenChunk(text, {}, f"d{number}") for number, text in enumerate(texts)]
    if given:
        server.core.inserting.insert_chunks(by, bank, given, NO_PROVIDER_DATA, attempt())


def memory(*banks: str, **more: Any) -> dict[str, Any]:
    return {"type": "memory", "memory_bank_configs": [{"type": "vector", "bank_id": bank} for bank in banks], **more}


def start(server: Server, ref: SessionRef, text: str = QUESTION, by: Caller = LOCAL_CALLER, **settings: Any) -> Any:
    new = NewTurn(messages=(UserMessage(content=text),), **settings)
    return server.drain(server.turns.start(by, ref, new, attempt()))


def attached(*texts: str) -> tuple[TurnDocument, ...]:
    return tuple(TurnDocument(content=text) for text in texts)


def step_of(turn: Turn) -> MemoryRetrievalStep:
    (step,) = [step for step in turn.steps if isinstance(step, MemoryRetrievalStep)]
    return step


def question_of(server: Server, number: int = -1) -> str:
    """Return the last user message of a request to the model, with its context."""
    messages = [message for message in server.inference.requests[number].messages if isinstance(message, UserMessage)]
    return message_text(messages[-1])


def test_a_turn_finds_what_its_agents_banks_have(both: Make) -> None:
    server = both("On the shore.", "Yes.")
    filled(server, TERNS, KNOTS)
    filled(server, "The sea is cold.", bank="sea")
    ref = server.session(tools=[memory("shore", "sea", max_chunks=1)])
    events = start(server, ref)
    assert outline(events) == "start S:memory C:memory S:infer P C:infer complete"
    step = step_of(turn_in(events))
    assert step.vector_db_ids == "shore,sea"
    assert TERNS in str(step.inserted_context)
    assert KNOTS not in str(step.inserted_context)
    assert question_of(server) == f"{QUESTION}\n{step.inserted_context}"
    start(server, ref, "Sure?")
    assert TERNS not in " ".join(message_text(m) for m in server.inference.requests[-1].messages[:-1])
    server.assert_whole(ref)


@pytest.mark.parametrize("limit", [40, 41, 60])
def test_a_context_has_no_more_tokens_than_its_agent_allows(make: Make, limit: int) -> None:
    server = make("ok")
    filled(server, *(f"terns breed in bay number {number}" for number in range(30)))
    ref = server.session(tools=[memory("shore", max_tokens_in_context=limit, max_chunks=10_000)])
    context = str(step_of(turn_in(start(server, ref, "terns breed"))).inserted_context)
    of_chunk = count_tokens(context.rsplit("\n\n", 1)[1])
    assert limit - of_chunk < count_tokens(context) <= limit


def test_a_bank_that_is_missing_is_refused_before_the_first_event(both: Make) -> None:
    server = both()
    ref = server.session(tools=[memory("shore")])
    with pytest.raises(MemoryUnusable, match="there is no memory bank 'shore'") as refused:
        start(server, ref)
    assert refused.value.location == ("tools", 0, "memory_bank_configs", 0, "bank_id")
    assert server.states(ref) == []


def test_a_bank_of_another_kind_than_its_agent_states_is_refused(make: Make) -> None:
    server = make()
    filled(server)
    config = {"type": "memory", "memory_bank_configs": [{"type": "keyword", "bank_id": "shore"}]}
    with pytest.raises(MemoryUnusable, match="of the type 'vector', not 'keyword'"):
        start(server, server.session(tools=[config]))


def test_a_bank_that_is_deleted_and_read_before_fails_the_turn(both: Make) -> None:
    server = both("ok")
    filled(server, TERNS)
    ref = server.session(tools=[memory("shore")])
    start(server, ref)
    server.core.banks.delete(LOCAL_CALLER, "shore", "vector")
    events = start(server, ref)
    assert isinstance(events[-1], TurnFailed)
    assert (events[-1].failure.kind, "'shore'" in events[-1].failure.message) == ("memory_unusable", True)
    assert server.states(ref)[-1].status is TurnStatus.FAILED
    server.assert_whole(ref)


def test_a_bank_made_again_under_its_name_is_found_with_its_new_content(both: Make) -> None:
    server = both("a", "b", "c")
    ref = server.session(tools=[memory("shore")])
    for text in (TERNS, KNOTS):
        filled(server, text)
        assert text in question_of(server) if start(server, ref, "breed") else False
        server.core.banks.delete(LOCAL_CALLER, "shore", "vector")


@pytest.mark.parametrize("others", [0, AT_ONCE_FROM])
def test_a_retrieval_costs_two_round_trips_once_its_bank_was_read(both: Make, others: int) -> None:
    """One that reads the bank, and one that stores the step: from the log and from segments with pages of texts."""
    server = both("a", "b", "c", "d")
    filled(server, TERNS, KNOTS, *(f"A stint was seen on day {number}." for number in range(others)))
    calls = []
    for tools in ([], [memory("shore")]):
        ref = server.session(tools=tools)
        start(server, ref)
        before = len(server.store.calls)
        start(server, ref)
        calls.append([call.verb for call in server.store.calls[before:] if call.verb != "range"])
    plain, with_memory = calls
    tidied = ["write"] if len(with_memory) == len(plain) + 3 else []  # after the end: steps that the turn now has
    assert with_memory == [*plain[:2], "gather", "write", *plain[2:], *tidied]


# ---- access


ANN = Caller(tenant="local", principal="ann", teams=("birds",))
BOB = Caller(tenant="local", principal="bob", teams=("boats",))


def agent_of(server: Server, caller: Caller, **config: Any) -> str:
    return server.core.agents.create(caller, AgentConfig(model="scripted", instructions="", **config), attempt())


def session_of(server: Server, caller: Caller, agent_id: str, vector_db_id: str | None = None) -> SessionRef:
    session_id = server.core.sessions.create(caller, agent_id, "s", attempt(), vector_db_id)
    return SessionRef(tenant=caller.tenant, agent_id=agent_id, session_id=session_id)


def test_an_agent_lends_its_banks_to_each_of_its_users(make: Make) -> None:
    server = make("ok")
    filled(server, TERNS, by=LOCAL_CALLER)
    agent_id = agent_of(server, LOCAL_CALLER, tools=[memory("shore")])
    assert TERNS in str(step_of(turn_in(start(server, session_of(server, BOB, agent_id), by=BOB))).inserted_context)


def test_an_agent_lends_no_bank_that_its_creator_may_not_see_whichever_came_first(make: Make) -> None:
    """Registered later under a name that the agent had first, a bank is not lent either."""
    server = make()
    early = agent_of(server, BOB, tools=[memory("birds")])
    filled(server, TERNS, bank="birds", by=ANN)
    with pytest.raises(NotFound):
        server.core.banks.visible(BOB, "birds")
    for agent_id in (early, agent_of(server, BOB, tools=[memory("birds")])):
        with pytest.raises(MemoryUnusable, match="there is no memory bank 'birds'"):
            start(server, session_of(server, BOB, agent_id), by=BOB)


def test_a_bank_that_another_user_registers_under_a_name_is_lent_though_the_earlier_one_was_hidden(make: Make) -> None:
    server, other = make("ok"), make()
    filled(server, TERNS, bank="birds", by=ANN)
    agent_id = agent_of(server, BOB, tools=[memory("birds")])
    ref = session_of(server, BOB, agent_id)
    with pytest.raises(MemoryUnusable):
        start(server, ref, by=BOB)
    other.core.banks.delete(ANN, "birds", "vector")
    filled(other, KNOTS, bank="birds", by=BOB)
    assert KNOTS in str(step_of(turn_in(start(server, ref, by=BOB))).inserted_context)


def test_a_bank_of_another_tenant_is_not_found(make: Make) -> None:
    server = make()
    filled(server, TERNS, by=Caller(tenant="other", principal="local"))
    with pytest.raises(MemoryUnusable, match="there is no memory bank 'shore'"):
        start(server, server.session(tools=[memory("shore")]))


def test_a_session_reads_the_bank_that_its_creator_names_and_may_see(both: Make) -> None:
    server = both("ok")
    filled(server, TERNS)
    agent_id = agent_of(server, LOCAL_CALLER)
    events = start(server, session_of(server, LOCAL_CALLER, agent_id, "shore"))
    assert step_of(turn_in(events)).vector_db_ids == "shore"
    filled(server, KNOTS, bank="birds", by=ANN)
    for name in ("birds", "nowhere"):
        with pytest.raises(MemoryUnusable, match=f"memory bank '{name}'") as refused:
            session_of(server, BOB, agent_id, name)
        assert refused.value.location == ("vector_db_id",)


# ---- queries


def test_a_model_writes_the_query_from_the_conversation(both: Make) -> None:
    server = both("Hm.", ScriptedReply(texts=("terns", " breed")), "ok")
    filled(server, TERNS, KNOTS)
    ref = server.session()
    start(server, ref, "Tell of terns.")
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}Query:"
    generator = {"type": "llm", "model": "writer", "template": template}
    config = {"tools": [memory("shore", max_chunks=1, query_generator_config=generator)]}
    kept = AgentConfig.model_validate({"model": "scripted", "instructions": "", **config})
    turn = turn_in(start(server, ref, "Where do they breed?", config=kept))
    assert TERNS in str(step_of(turn).inserted_context)
    written = server.inference.requests[1]
    assert (written.model, message_text(written.messages[0])) == (
        "writer",
        "user: Tell of terns.\nassistant: Hm.\nuser: Where do they breed?\nQuery:",
    )
    assert server.states(ref)[-1].spent["writer"].inferences == 1
    server.assert_whole(ref)


def test_a_template_that_makes_too_much_of_the_messages_ends_the_turn(make: Make) -> None:
    server = make()
    filled(server)
    loops = "{% for a in messages %}" + "{{ a }}" * 2_000 + "{% endfor %}"
    generator = {"type": "llm", "model": "writer", "template": loops}
    ref = server.session(tools=[memory("shore", query_generator_config=generator)])
    events = start(server, ref, "x" * 100)
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].failure.kind == "memory_unusable"


def test_a_registered_tool_makes_the_query(make: Make) -> None:
    server = make("ok")
    filled(server, "Bay 4 has terns.", "Bay 5 has knots.")
    generator = {"type": "custom", "tool": "dice/roll"}
    ref = server.session(tools=[memory("shore", max_chunks=1, query_generator_config=generator)])
    assert "Bay 4" in str(step_of(turn_in(start(server, ref, "?"))).inserted_context), "the dice show 4"


# ---- attachments


def test_attachments_are_found_in_their_turn_and_in_later_ones(both: Make) -> None:
    server = both("a", "b")
    ref = server.session()
    events = start(server, ref, attachments=attached(TERNS, KNOTS))
    own = bank_of_session(ref.session_id)
    assert step_of(turn_in(events)).vector_db_ids == own
    assert TERNS in question_of(server)
    bank = server.core.banks.visible(LOCAL_CALLER, own).bank
    assert (bank.lives_with, bank.stamp) == (ref, server.header(ref).stamp)
    start(server, ref, "Where do knots winter?")
    assert KNOTS in question_of(server)
    assert server.states(ref)[0].attachments == attached(TERNS, KNOTS)
    server.assert_whole(ref)


def test_attachments_are_stored_once_whichever_process_continues_the_turn(both: Make) -> None:
    server, other = both("a"), both("a")
    ref = server.session()
    server.store.before(saves_step, server.store.die)
    broadcast = server.turns.start(
        LOCAL_CALLER, ref, NewTurn(messages=(UserMessage(content=QUESTION),), attachments=attached(TERNS)), attempt()
    )
    server.drain(broadcast)
    server.clock.advance(LEASE_S)  # type: ignore[attr-defined] # in tests it is a fake
    run = other.core.recovery.reconcile(broadcast.ref).run
    assert run is not None
    events = other.drain(run)
    assert sum(isinstance(event, StepCompleted) and event.step_type == "memory_retrieval" for event in events) == 1
    own = bank_of_session(ref.session_id)
    hits = other.core.recalling.query(LOCAL_CALLER, own, BankQuery(BankQuestion("terns", None)), NO_PROVIDER_DATA)
    assert [hit.chunk.text for hit in hits] == [TERNS]


def test_the_bank_of_a_session_is_removed_with_it(both: Make) -> None:
    server = both("a", "b")
    for delete in (
        lambda ref: server.core.deleting.delete_session(LOCAL_CALLER, ref),
        lambda ref: server.core.deleting.delete_agent(LOCAL_CALLER, ref.agent_id),
    ):
        ref = server.session()
        start(server, ref, attachments=attached(TERNS))
        own = server.core.banks.visible(LOCAL_CALLER, bank_of_session(ref.session_id))
        delete(ref)
        done_jobs(server)
        with pytest.raises(NotFound):
            server.core.banks.visible(LOCAL_CALLER, own.bank.bank_id)
        assert server.records.range(Range(f"local|bank:{own.content_id}")).records == ()


def test_a_bank_is_made_for_no_session_that_was_deleted(both: Make) -> None:
    server, other = both("a"), both()
    ref = server.session()
    creates = lambda call: any(op.key.pk == "local|banks" for op in call.operations)  # noqa: E731
    server.store.before(creates, lambda: other.core.deleting.delete_session(LOCAL_CALLER, ref))
    start(server, ref, attachments=attached(TERNS))
    assert list(server.core.banks.list(LOCAL_CALLER, "keyword")) == []
    assert server.records.range(Range("local|banks")).records == ()


def done_jobs(server: Server) -> None:
    """Do all jobs, each when it is due."""
    for _ in range(20):
        server.clock.advance(180)  # type: ignore[attr-defined] # in tests it is a fake
        jobs = server.core.cleaning.due()
        if not jobs:
            return
        for job in jobs:
            server.core.cleaning.run_for(job, timedelta(hours=1))
    pytest.fail("the jobs have no end")


def test_a_store_that_fails_leaves_the_turn_to_another_process(make: Make) -> None:
    server, other = make("a"), make("a")
    filled(server, TERNS)
    ref = server.session(tools=[memory("shore")])

    def fail() -> None:
        raise StoreUnavailable("no answer")

    server.store.before(lambda call: call.verb == "gather" and "id:shore" in call.keys and "log:" in call.keys, fail)
    server.core.turn_memory_services.lending.refuse_unusable("local", [])
    events = start(server, ref)
    assert outline(events).endswith("failed:store_unavailable")
    server.clock.advance(LEASE_S)  # type: ignore[attr-defined] # in tests it is a fake
    run = other.core.recovery.reconcile(ref.turn(server.states(ref)[0].order)).run
    assert run is not None
    assert TERNS in str(step_of(turn_in(other.drain(run))).inserted_context)


@pytest.mark.parametrize("by", ["a tool of type memory", "the search of the model"])
def test_a_cancelled_turn_ends_while_the_embedding_model_is_silent(
    make: Make, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    is_tool = by == "the search of the model"
    server = make(*([call("knowledge_search", "s", query=QUESTION)] if is_tool else []), "unused")
    filled(server, TERNS)
    rag = {"name": RAG, "args": {"vector_db_ids": ["shore"]}}
    ref = server.session(**({"toolgroups": [rag]} if is_tool else {"tools": [memory("shore")]}))
    embedding, may_answer = Event(), Event()
    embeddings: Any = server.core.foundation.ports.embeddings
    embed = embeddings.embed

    def slow(request: EmbeddingRequest) -> Embedded:
        embedding.set()
        assert may_answer.wait(20)
        made: Embedded = embed(request)
        return made

    monkeypatch.setattr(embeddings, "embed", slow)
    broadcast = server.start(ref)
    assert embedding.wait(20)
    state = server.core.cancelling.cancel(LOCAL_CALLER, broadcast.ref, attempt())
    try:
        events = drained_events(broadcast)
    finally:
        may_answer.set()
    assert isinstance(events[-1], TurnFailed)
    assert (state.status, server.state(broadcast.ref).status) == (TurnStatus.CANCELLED, TurnStatus.CANCELLED)
    server.settle()
    assert broadcast.events == list(events)
