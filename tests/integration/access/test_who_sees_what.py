"""A caller sees another's resources only if the access rules allow it, and nothing of another tenant.

Covers: services/access/access, services/access/visible_list, domain/access/access
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.harness import Harness, answer, attempt, client_tool, serving
from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import NotFound
from turnstone.domain.lists import ListQuery
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.turns import NewTurn

Serve = Callable[..., Harness]
ANN = Caller(tenant="t", principal="ann", teams=("red",), projects=("moon",))
MATE = Caller(tenant="t", principal="mate", teams=("red", "blue"), projects=("moon",))
STRANGER = Caller(tenant="t", principal="stranger", teams=("red",), projects=("mars",))
FOREIGNER = Caller(tenant="u", principal="ann", teams=("red",), projects=("moon",))
SAYING = NewTurn(messages=(UserMessage(content="look"),))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


class World:
    """An agent, a session and a waiting turn of Ann's."""

    def __init__(self, server: Harness, owner: Caller = ANN) -> None:
        self.server = server
        core = server.core
        config = AgentConfig(model="scripted", instructions="", client_tools=(client_tool(),))
        self.agent_id = core.agents.create(owner, config, attempt())
        self.session_id = core.sessions.create(owner, self.agent_id, "hers", attempt())
        self.ref = self._ref(owner)
        broadcast = core.turns.start(owner, self.ref, SAYING, attempt())
        server.drain(broadcast)
        self.turn_id = broadcast.ref.turn_id

    def acts(self, caller: Caller) -> dict[str, Callable[[], Any]]:
        """Return every request about Ann's resources, under the caller's own tenant as the edge does."""
        core, ref = self.server.core, self._ref(caller)
        turn = TurnRef(**ref.model_dump(), turn_id=self.turn_id)
        return {
            "get agent": lambda: core.agents.wire(caller, self.agent_id),
            "create session": lambda: core.sessions.create(caller, self.agent_id, "mine", attempt()),
            "list sessions": lambda: core.sessions.list(caller, self.agent_id, ListQuery()),
            "get session": lambda: core.sessions.read(caller, ref, None),
            "get turn": lambda: core.reader.read(caller, turn).turn,
            "get step": lambda: core.reader.read(caller, turn).step("unknown"),
            "create turn": lambda: core.turns.start(caller, ref, SAYING, attempt()),
            "resume turn": lambda: core.turns.resume(caller, turn, [answer("c1")], attempt()),
        }

    def _ref(self, caller: Caller) -> SessionRef:
        return SessionRef(tenant=caller.tenant, agent_id=self.agent_id, session_id=self.session_id)


CLIENT_CALL = call("look", "c1")


@pytest.mark.parametrize("caller", [STRANGER, FOREIGNER], ids=["a stranger", "a foreigner"])
def test_to_a_caller_without_access_everything_is_missing_and_nothing_changes(serve: Serve, caller: Caller) -> None:
    server = serve([CLIENT_CALL])
    world = World(server)
    before = server.dump()
    for name, act in world.acts(caller).items():
        with pytest.raises(NotFound) as hidden:
            act()
        if name != "get step":
            assert world.turn_id not in str(hidden.value)
    listing, agents = server.core.agents.list(caller, ListQuery())
    assert (list(agents), listing.has_more) == ([], False)
    assert server.dump() == before


def test_hidden_and_missing_are_refused_in_the_same_words(serve: Serve) -> None:
    world = World(serve([CLIENT_CALL]))
    for name in world.acts(STRANGER):
        with pytest.raises(NotFound) as hidden:
            world.acts(STRANGER)[name]()
        with pytest.raises(NotFound) as missing:
            world.acts(FOREIGNER)[name]()
        assert str(hidden.value) == str(missing.value)


def test_a_caller_with_a_common_group_in_every_category_may_read_and_continue(serve: Serve) -> None:
    world = World(serve([CLIENT_CALL, "seen", "more"]))
    core = world.server.core
    acts = world.acts(MATE)
    for name in ("get agent", "get session", "get turn", "create session", "list sessions"):
        acts[name]()
    world.server.drain(acts["resume turn"]())
    world.server.drain(acts["create turn"]())
    _, agents = core.agents.list(MATE, ListQuery())
    assert len(list(agents)) == 1


def test_a_session_of_a_mate_bears_the_mates_groups(serve: Serve) -> None:
    """Mate is of team blue, too, which does not hide the session from Ann: one match in a category is enough."""
    server = serve([CLIENT_CALL])
    world = World(server)
    server.clock.advance(1)
    session_id = world.acts(MATE)["create session"]()
    entries = list(server.core.sessions.list(ANN, world.agent_id, ListQuery()))
    assert [entry.fields["session_id"] for entry in entries] == [world.session_id, session_id]
    assert entries[1].stamp.owner == "mate"


def test_owner_only_hides_resources_without_groups(serve: Serve) -> None:
    plain, other = Caller(tenant="t", principal="plain"), Caller(tenant="t", principal="other")
    open_world = World(serve([CLIENT_CALL]), owner=plain)
    open_world.acts(other)["get session"]()
    closed_world = World(serve([CLIENT_CALL], owner_only=True), owner=plain)
    closed_world.acts(plain)["get session"]()
    with pytest.raises(NotFound):
        closed_world.acts(other)["get session"]()
