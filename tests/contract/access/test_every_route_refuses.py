"""Every route refuses requests without a key, and callers without access to its object.

Covers: functions, services/access/access
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from functions.local.routes import ROUTES
from functions.unserved.methods import ROUTES as EVERY_UNSERVED
from tests.support.server.asgi_client import Raw, Served, served
from tests.support.server.bodies.letta import OF_AGENT
from tests.support.server.memory_bodies import RAG_QUERY_PATH
from tests.support.server.tenant_world import PARAMETER, QUERY_2024, Tenant, is_registry
from tests.support.server.valid_bodies import BODIES, RUN
from turnstone.domain.access.caller import Caller
from turnstone.http.route import Route

ANN = Caller(tenant="acme", principal="ann", teams=("red",))
STRANGER = Caller(tenant="acme", principal="zoe", teams=("blue",))
FOREIGNER = Caller(tenant="other", principal="ann", teams=("red",))
REFUSED = {403, 404}
# The status for a stranger where a route has no object of another caller. All other routes have to refuse.
FOR_ALL: Mapping[tuple[str, str], int] = {
    ("GET", "/v1/agents"): 200,  # only what the stranger may see, see test_two_tenants.py
    ("POST", "/v1/agents"): 200,
    ("POST", "/agents/create"): 200,
    ("GET", "/v1/usage"): 200,  # likewise
    ("GET", "/v1/health"): 200,
    ("GET", "/letta/v1/health"): 200,
    ("GET", "/letta/v1/models"): 200,
    ("GET", "/letta/v1/tools"): 200,
    ("POST", "/letta/v1/tools/add-base-tools"): 200,
    ("GET", "/letta/v1/models/embedding"): 200,
    ("POST", "/letta/v1/tools"): 200,
    ("PUT", "/letta/v1/tools"): 200,
    ("POST", "/letta/v1/tools/run"): 200,
    ("GET", "/letta/v1/tools/name/{name}"): 200,
    ("GET", "/letta/v1/tags"): 200,  # only of what the stranger may see, here and below
    ("GET", "/letta/v1/blocks"): 200,
    ("POST", "/letta/v1/blocks"): 200,
    ("GET", "/letta/v1/agents"): 200,  # only what the stranger may see
    ("POST", "/letta/v1/agents"): 200,
    ("GET", "/letta/v1/sources"): 200,
    ("POST", "/letta/v1/sources"): 200,
    ("GET", "/letta/v1/jobs"): 200,
    ("GET", "/letta/v1/jobs/active"): 200,
    ("POST", "/letta/v1/agents/import"): 200,
    ("GET", "/letta/v1/runs"): 200,
    ("GET", "/letta/v1/runs/active"): 200,
    ("GET", "/v1/version"): 200,
    ("GET", "/v1/openapi.json"): 200,
    ("GET", "/v1/docs"): 200,
    ("GET", "/"): 200,
    ("GET", "/v1/models"): 200,  # the tenant's own, here and below
    ("POST", "/v1/models"): 200,
    ("GET", "/v1/openai/v1/models"): 200,
    ("GET", "/v1/toolgroups"): 200,
    ("POST", "/v1/toolgroups"): 200,
    ("GET", "/v1/shields"): 200,
    ("POST", "/v1/shields"): 200,
    ("GET", "/v1/vector-dbs"): 200,
    ("POST", "/v1/vector-dbs"): 200,
    ("GET", "/v1/memory-banks"): 200,  # only what the stranger may see, here and below
    ("POST", "/v1/memory-banks"): 200,
    ("GET", "/memory-banks/list"): 200,
    ("POST", "/memory-banks/register"): 200,
    ("POST", "/v1/openai/v1/conversations"): 200,
    ("GET", "/v1/providers"): 200,
    ("GET", "/v1/providers/{provider_id}"): 200,
    ("GET", "/v1/tools"): 200,
    ("GET", "/v1/tools/{tool_name}"): 200,
    ("GET", "/v1/tool-runtime/list-tools"): 200,
    ("POST", "/v1/tool-runtime/invoke"): 200,
    ("POST", "/v1/inference/chat-completion"): 200,
    ("POST", "/v1/inference/embeddings"): 200,
    ("POST", "/v1/openai/v1/chat/completions"): 200,
    ("POST", "/v1/openai/v1/embeddings"): 200,
    ("GET", "/v1/openai/v1/chat/completions"): 200,  # only what the stranger may see
    ("GET", "/v1/openai/v1/responses"): 200,  # likewise
    ("POST", "/v1/openai/v1/responses"): 200,
    ("GET", "/v1/openai/v1/files"): 200,  # likewise
    ("POST", "/v1/openai/v1/files"): 200,
    ("POST", "/v1/openai/v1/uploads"): 200,
    ("GET", "/v1/openai/v1/vector_stores"): 200,  # likewise
    ("GET", "/v1/webhooks"): 200,  # the tenant's own
    ("POST", "/v1/webhooks"): 200,
    ("POST", "/v1/inference/completion"): 200,
    ("POST", "/v1/openai/v1/completions"): 200,
}
# all of them are in one table and refused by one function
UNSERVED = EVERY_UNSERVED[::6]
BY_BODY = {route.path for route in ROUTES if BODIES[route.method, route.path].names} | {RAG_QUERY_PATH}
EVERY = (*ROUTES, *UNSERVED)
# the routes of one test, each under all of its paths; few tests, because the world is read before and after each
AT_ONCE = 12
GROUPS = [ROUTES[begin : begin + AT_ONCE] for begin in range(0, len(ROUTES), AT_ONCE)]
CASES = [pytest.param(some, id=f"from {some[0].method} {some[0].path}") for some in GROUPS]
CASES += [pytest.param(UNSERVED, id="unserved")]


def paths_of(routes: Sequence[Route]) -> list[tuple[Route, str]]:
    return [(route, path) for route in routes for path in route.paths]


@dataclass(frozen=True)
class World:
    served: Served
    ann: Tenant
    foreigner: Tenant
    stranger: Tenant


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with served(tmp_path_factory.mktemp("refusals"), auth="api_keys") as serving:
        marks = {"ann": ANN, "foreigner": FOREIGNER, "stranger": STRANGER}
        tenants = {mark: Tenant(serving, caller, f"mark-{mark}") for mark, caller in marks.items()}
        serving.end_jobs()  # a removal that is due minutes later would change the store between two reads
        yield World(serving, **tenants)


def body_of(route: Route) -> object:
    return BODIES[route.method, route.path].valid[0] if (route.method, route.path) in BODIES else {}


def target(tenant: Tenant, path: str) -> str:
    """Return the path with the tenant's ids, and with "anything" for ids that the tenant lacks."""
    return path.format_map({**dict.fromkeys(PARAMETER.findall(path), "anything"), **tenant.ids})


@pytest.mark.parametrize("routes", CASES)
def test_a_request_without_a_key_is_refused(world: World, routes: Sequence[Route]) -> None:
    closed = [route for route in routes if not route.is_open]
    for route, path in paths_of(closed):
        before = world.served.marks()
        answer = world.served.client.send(Raw(route.method, target(world.ann, path).encode(), (b"{}",)))
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert answer.refusal()
        assert world.served.marks() == before


def test_an_open_route_returns_the_same_to_every_caller(world: World) -> None:
    opened = {path for route, path in paths_of(EVERY) if route.is_open}
    pages = {"/", "/docs", "/v1/docs", "/openapi.json", "/v1/openapi.json"}
    assert opened == {*pages, "/v1/health", "/alpha/health", "/letta/v1/health"}
    headers: list[tuple[tuple[bytes, bytes], ...]] = [
        (),
        ((b"authorization", b"Bearer wrong"),),
        ((b"authorization", b"Bearer " + world.ann._token.encode()),),
        ((b"authorization", b"Basic \xff"), (b"authorization", b"Bearer a")),
    ]
    for path in opened:
        answers = [world.served.client.send(Raw("GET", path.encode(), (), sent)) for sent in headers]
        assert [answer.status for answer in answers] == [200] * len(headers)
        assert all(answer == answers[0] for answer in answers)
    health = world.served.client.send(Raw("GET", b"/v1/health"))
    assert health.body == b'{"status":"OK"}'


def expected(route: Route, *, is_of_the_tenant: bool) -> set[int]:
    if route in UNSERVED:
        return {501}
    if (route.method, route.path) in FOR_ALL:
        return {FOR_ALL[route.method, route.path]}
    if is_of_the_tenant and (is_registry(route) or (route.method, route.path) == RUN):
        return {200}  # registered objects belong to the whole tenant
    return REFUSED


@pytest.mark.parametrize("routes", CASES)
def test_a_caller_of_another_tenant_is_refused(world: World, routes: Sequence[Route]) -> None:
    refuse_all(world, world.foreigner, routes, is_of_the_tenant=False)


@pytest.mark.parametrize("routes", CASES)
def test_a_caller_without_a_common_team_is_refused(world: World, routes: Sequence[Route]) -> None:
    refuse_all(world, world.stranger, [route for route in routes if not is_registry(route)], is_of_the_tenant=True)


def refuse_all(world: World, caller: Tenant, routes: Sequence[Route], *, is_of_the_tenant: bool) -> None:
    before = world.ann.snapshot()
    for route, path in paths_of(routes):
        refuse(world, caller, route, path, is_of_the_tenant=is_of_the_tenant)
    assert world.ann.snapshot() == before
    assert {seen.status for seen in before.values()} == {200}  # it is all there, for her


def refuse(world: World, caller: Tenant, route: Route, path: str, *, is_of_the_tenant: bool) -> None:
    # in its body or query, not in its path
    names_hers = (route.method, route.path) == RUN or route.path in BY_BODY
    query = QUERY_2024.get(path.removeprefix("/alpha"), "").format_map(world.ann.ids) if route.method == "GET" else ""
    if (route.method, route.path) in OF_AGENT:
        query = f"?agent_id={world.ann.ids['agent_id']}"
    body = world.ann.bodies[route.path] if names_hers else body_of(route)
    answer = caller.send(route.method, target(world.ann, path) + query, body)
    assert answer.status in expected(route, is_of_the_tenant=is_of_the_tenant), path
    if answer.status != 200:
        assert answer.refusal()


def test_every_route_open_to_strangers_exists() -> None:
    assert FOR_ALL.keys() <= {(route.method, route.path) for route in ROUTES}
