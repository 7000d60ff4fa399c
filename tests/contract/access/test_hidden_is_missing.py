"""Every answer about an object that the caller may not see is that about a missing one, whichever sent ids exist.

Covers: services/access/access, services/responses/answering, services/turns/reading, services/files/attachments,
functions
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest

from functions.local.routes import ROUTES
from tests.support.clients.forms import FormBody
from tests.support.server.asgi_client import Answered, Served, served
from tests.support.server.bodies.letta import LETTA_TOOL
from tests.support.server.tenant_world import PARAMETER, SESSION, Tenant, attach
from tests.support.server.valid_bodies import BODIES
from turnstone.domain.access.caller import Caller
from turnstone.domain.refs import SessionRef
from turnstone.http.route import Route

OF_BANKS = ("memory_bank_id", "bank_id", "document_id", "vector_db_id")
OF_STORES = ("vector_store_id", "file_id", "batch_id")
OF_RESPONSES = ("response_id", "conversation_id", "item_id")
IDS = (
    *(
        "agent_id",
        "session_id",
        "turn_id",
        "step_id",
        "attachment_id",
        "block_label",
        "block_id",
        "memory_id",
        "message_id",
        "run_id",
        "source_id",
        "source_name",
        "job_id",
        "tool_id",
    ),
    *(*OF_BANKS, *OF_STORES, *OF_RESPONSES),
)
UNKNOWN = Caller(tenant="other", principal="ann")
PAIRS: Mapping[str, tuple[Caller, Caller, dict[str, Any]]] = {
    "two teams": (
        Caller(tenant="acme", principal="ann", teams=("red",)),
        Caller(tenant="acme", principal="bob", teams=("blue",)),
        {},
    ),
    "owners only": (
        Caller(tenant="acme", principal="ann"),
        Caller(tenant="acme", principal="bob"),
        {"owner_only": True},
    ),
}
CLEO = Caller(tenant="acme", principal="cleo", teams=("red",))
MOON_ANN = Caller(tenant="acme", principal="ann", teams=("red",), projects=("moon",))
MARS_BOB = Caller(tenant="acme", principal="bob", teams=("red",), projects=("mars",))
AGENT = "/v1/agents/{agent_id}"
IN_BODY = re.compile(r"@(\w+)@")


@dataclass(frozen=True)
class Form:
    """One way to request a route.

    Attributes:
        target: the path and query with `{agent_id}` and so on.
        body: as JSON with `@agent_id@` and so on.
        is_file: whether the body is sent as a form with a file.
    """

    method: str
    target: str
    body: str
    is_file: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        found = {*PARAMETER.findall(self.target), *IN_BODY.findall(self.body)}
        return tuple(name for name in IDS if name in found)

    def send(self, caller: Tenant, ids: Mapping[str, str]) -> Answered:
        """Return the answer, with the names of the sent ids in place of them."""
        body = IN_BODY.sub(lambda name: ids.get(name[1], name[0]), self.body)
        sent = FormBody(json.loads(body)) if self.is_file else json.loads(body)
        answer = caller.send(self.method, self.target.format_map({**LETTA_TOOL, **ids}), sent)
        shown = answer.body
        for name in self.names:
            shown = shown.replace(ids[name].encode(), f"<{name}>".encode())
        return replace(answer, body=shown)


@dataclass(frozen=True)
class World:
    """A server with objects that are hidden from the stranger.

    Attributes:
        hidden: the ids of another's agent and of objects below it.
        is_agent_shared: the stranger sees the agent, and no session of the other caller.
    """

    hidden: Mapping[str, str]
    stranger: Tenant
    foreigner: Tenant
    is_agent_shared: bool = False


def forms_of(route: Route) -> Iterator[Form]:
    """Yield the forms of a route that name an agent, a bank or something below: under each path, without a session."""
    bodies = BODIES[route.method, route.path]
    queries = [""]
    if route.method == "GET" and "agent_id" in bodies.query:
        queries = [f"?{bodies.query}", f"?{bodies.query}&session_id={{session_id}}"]
    elif route.method in ("GET", "PATCH", "POST") and bodies.query:
        queries = [f"?{bodies.query}"]
    elif "turn_ids" in route.query:
        queries = ["", "?turn_ids={turn_id}"]
    elif route.path == "/v1/usage":
        queries = ["?agent_id={agent_id}", "?agent_id={agent_id}&session_id={session_id}"]
    shapes = [bodies.valid[0]]
    if route.method == "POST" and "turn_id" in bodies.names:
        shapes.append({name: value for name, value in bodies.valid[0].items() if name != "session_id"})
    for path, query, shape in product(route.paths, queries, shapes):
        form = Form(route.method, path + query, json.dumps(shape), route.file is not None)
        if form.names:
            yield form


APPROVAL = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{'0' * 32}7fff{'0' * 16}", "approve": True}
BIRDS = {"type": "mcp", "server_label": "birds", "server_url": "https://birds.example/mcp"}
CONTINUING = [
    Form("POST", "/v1/responses", json.dumps({"model": "offline", name: f"@{of}@", **more}))
    for name, of in (("previous_response_id", "response_id"), ("conversation", "conversation_id"))
    for more in ({"input": "hello"}, {"input": [APPROVAL], "tools": [BIRDS]})
]
FORMS = [*(form for route in ROUTES for form in forms_of(route)), *CONTINUING]
SESSIONLESS = [form for form in FORMS if "turn_id" in form.names and "session_id" not in form.names]


@pytest.fixture(scope="module", params=[*PAIRS, "an agent of both"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    is_shared = request.param not in PAIRS
    owner, stranger, settings = (MOON_ANN, MARS_BOB, {}) if is_shared else PAIRS[request.param]
    with served(tmp_path_factory.mktemp("hidden"), auth="api_keys", **settings) as serving:
        hidden = Tenant(serving, owner, "mark-owner")
        ids = (
            ids_below(serving, hidden, Tenant(serving, CLEO, "mark-shared").ids["agent_id"])
            if is_shared
            else hidden.ids
        )
        others = (Tenant(serving, stranger, "mark-stranger"), Tenant(serving, UNKNOWN, "mark-foreigner"))
        yield World(ids, *others, is_agent_shared=is_shared)


def ids_below(serving: Served, owner: Tenant, agent_id: str) -> dict[str, str]:
    """Return the ids of an agent and of a new session of the owner, with a turn, a step and an attachment."""
    ids = {"agent_id": agent_id}
    for path, name in ((AGENT + "/session", "session_id"), (SESSION + "/turn", "turn_id")):
        made = owner.send("POST", path.format_map(ids), owner.bodies[path]).json()
        ids[name] = made[name]
    ids["step_id"] = made["steps"][0]["step_id"]
    ref = SessionRef(tenant=owner.caller.tenant, agent_id=agent_id, session_id=ids["session_id"])
    return {**ids, "attachment_id": attach(serving, ref, "mark-owner-turn")}


def other(identifier: str) -> str:
    """Return an id of the same form that names nothing."""
    return identifier[:-4] + ("0000" if identifier[-4:] != "0000" else "1111")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.method} {form.target} {' '.join(form.names)}")
def test_a_stranger_receives_one_answer_whichever_ids_exist(world: World, form: Form) -> None:
    if world.is_agent_shared and not {"session_id", "turn_id"} & set(form.names):
        return  # it names only the agent, which the stranger sees
    choices = [((name, world.hidden[name]), (name, other(world.hidden[name]))) for name in form.names]
    sent = [dict(chosen) for chosen in product(*choices)]
    answers = {form.send(caller, ids).body for caller in (world.stranger, world.foreigner) for ids in sent}
    assert len(answers) == 1, answers
    of_stranger = [form.send(world.stranger, ids) for ids in sent]
    assert of_stranger == [form.send(world.foreigner, sent[-1])] * len(sent)
    assert of_stranger[0].status == 404


def test_every_route_below_an_agent_and_every_kind_of_id_is_in_the_cases() -> None:
    assert {name for form in FORMS for name in form.names} == set(IDS)
    named = {(form.method, form.target.partition("?")[0]) for form in FORMS}
    below = {
        (route.method, path) for route in ROUTES for path in route.paths if "agent_id" in path or "/agents/" in path
    }
    of_no_agent = {("POST", path) for path in ("/agents/create", "/alpha/agents/create", "/letta/v1/agents/import")}
    assert named >= below - of_no_agent
    assert {form.method for form in SESSIONLESS} == {"GET", "POST"}
