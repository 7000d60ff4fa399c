"""Archival memory over both stores: insertion once for its key, search, pages, removal with the agent.

Covers: services/agents/archives, services/agents/archival_toolbox, domain/agents/archives,
bootstrap/services/turn_memory, store/memory/banks, services/cleanup/cleaning
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.archives import LONGEST_TEXT, PassageQuery
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.memory.lent_banks import archive_of
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.services.agents.archives import Archives

TENANT = LOCAL_CALLER.tenant
GROUPS = ["builtin::archival_memory"]


def insert(server: Server, agent_id: str, text: str, key: str | None = None) -> list[str]:
    server.clock.advance(1)  # type: ignore[attr-defined] # else their order is random
    made = server.core.archives.insert(TENANT, agent_id, text, key, NO_PROVIDER_DATA)
    return [passage.passage_id for passage in made]


def texts(server: Server, agent_id: str, limit: int = 100, **part: Any) -> list[str]:
    archives: Archives = server.core.archives
    return [each.text for each in archives.list(TENANT, agent_id, PassageQuery(limit, **part))]


def found(server: Server, agent_id: str, query: str, first: int = 0, last: int = 5) -> list[str]:
    archives: Archives = server.core.archives
    hits = archives.search(TENANT, agent_id, query, slice(first, last), NO_PROVIDER_DATA)
    return [each.text for each in hits]


def test_passages_are_listed_in_pages_and_counted(make: Make) -> None:
    server = make()
    agent_id, other = server.agent(), server.agent()
    assert texts(server, agent_id) == []
    ids = [insert(server, agent_id, f"Fact {number}.")[0] for number in range(5)]
    insert(server, other, "Not his.")
    assert texts(server, agent_id) == [f"Fact {number}." for number in range(5)]
    assert texts(server, agent_id, 2) == ["Fact 0.", "Fact 1."]
    assert texts(server, agent_id, 2, after=ids[1]) == ["Fact 2.", "Fact 3."]
    assert texts(server, agent_id, 2, before=ids[3]) == ["Fact 1.", "Fact 2."]
    assert (server.core.archives.count(TENANT, agent_id), server.core.archives.count(TENANT, other)) == (5, 1)
    for query in ({"after": "none"}, {"before": "none"}):
        with pytest.raises(NotFound):
            texts(server, agent_id, **query)


def test_a_long_text_is_several_passages_and_a_blank_or_endless_one_none(make: Make) -> None:
    server = make()
    agent_id = server.agent()
    assert len(insert(server, agent_id, "Terns dive for fish. " * 200)) > 2
    assert "".join(texts(server, agent_id)).replace(" ", "") == "Ternsdiveforfish." * 200
    for text in (" ", "x" * (LONGEST_TEXT + 1)):
        with pytest.raises(InvalidRequest, match="text"):
            insert(server, agent_id, text)


def test_a_repeated_insertion_changes_nothing(make: Make) -> None:
    server = make()
    agent_id = server.agent()
    assert insert(server, agent_id, "Once.", "key") == insert(server, agent_id, "Once.", "key")
    assert texts(server, agent_id) == ["Once."]
    assert insert(server, agent_id, "Once.") != insert(server, agent_id, "Once.")
    assert len(texts(server, agent_id)) == 3


def test_a_removed_passage_is_neither_found_nor_listed(make: Make) -> None:
    server = make()
    agent_id, other = server.agent(), server.agent()
    (passage_id,) = insert(server, agent_id, "Knots probe the mud.")
    insert(server, other, "Terns dive.")
    assert found(server, agent_id, "knots") == ["Knots probe the mud."]
    assert found(server, other, "knots mud") == []
    with pytest.raises(NotFound):
        server.core.archives.drop(TENANT, other, passage_id)
    server.core.archives.drop(TENANT, agent_id, passage_id)
    assert (found(server, agent_id, "knots"), texts(server, agent_id)) == ([], [])
    with pytest.raises(NotFound):
        server.core.archives.drop(TENANT, agent_id, passage_id)


def test_the_tools_keep_and_find_passages_of_their_agent(make: Make) -> None:
    keep = call("archival_memory_insert", "a", content="Knots probe the mud for clams.")
    wrong = call("archival_memory_search", "b", query="knots", page=-1)
    find, later = (call("archival_memory_search", f"c{page}", query="knots", page=page) for page in (0, 1))
    server = make(keep, wrong, find, later, "done")
    agent_id = server.agent(toolgroups=GROUPS)
    turn = server.start(server.session(agent_id), "hello")
    server.drain(turn)
    state = server.state(turn.ref)
    answers = [str(response.content) for step in state.turn.steps for response in getattr(step, "tool_responses", ())]
    assert answers[0] == "Kept in archival memory as 1 passage."
    assert "page: must be a whole number" in answers[1]
    assert "Knots probe the mud for clams." in answers[2]
    assert answers[3] == "No results on page 1."
    assert texts(server, agent_id) == ["Knots probe the mud for clams."]


def test_the_memory_is_removed_with_its_agent(make: Make) -> None:
    server = make()
    agent_id = server.agent()
    insert(server, agent_id, "Once.")
    assert server.core.banks.get(LOCAL_CALLER, archive_of(agent_id)).lives_with_agent == agent_id
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    with pytest.raises(NotFound):
        insert(server, agent_id, "Late.")
    for job in server.core.cleaning.due():
        server.core.cleaning.run(job, server.clock.now())
    with pytest.raises(NotFound):
        server.core.banks.get(LOCAL_CALLER, archive_of(agent_id))


def test_a_bank_of_another_owner_under_that_name_is_not_taken(make: Make) -> None:
    server = make()
    agent_id = server.agent()
    insert(server, agent_id, "Once.")
    server.core.banks.delete(LOCAL_CALLER, archive_of(agent_id))
    assert (texts(server, agent_id), server.core.archives.count(TENANT, agent_id)) == ([], 0)
    insert(server, agent_id, "Again.")
    assert texts(server, agent_id) == ["Again."]
