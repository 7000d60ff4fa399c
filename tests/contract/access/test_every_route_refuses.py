"""Every route there is refuses who is nobody, and who has no business with what it is about.

Covers: functions, services/access/access
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from functions.local.routes import ROUTES
from functions.unserved.methods import ROUTES as EVERY_UNSERVED
from tests.support.server.asgi_client import Raw, Served, served
from tests.support.server.tenant_world import PARAMETER, QUERY_2024, Tenant, is_registry
from tests.support.server.valid_bodies import BODIES, RUN
from turnstone.domain.access.caller import Caller
from turnstone.http.route import Route

ANN = Caller(tenant="acme", principal="ann", teams=("red",))
STRANGER = Caller(tenant="acme", principal="zoe", teams=("blue",))
FOREIGNER = Caller(tenant="other", principal="ann", teams=("red",))
REFUSED = {403, 404}
# What a stranger is answered where a route is about nothing that somebody made. All others have to refuse.
FOR_ALL: Mapping[tuple[str, str], int] = {
    ("GET", "/v1/agents"): 200,  # only what the stranger may see, see test_two_tenants.py
    ("POST", "/v1/agents"): 200,
    ("POST", "/agents/create"): 200,
    ("GET", "/v1/usage"): 200,  # likewise
    ("GET", "/v1/health"): 200,
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
    ("POST", "/v1/inference/completion"): 200,
    ("POST", "/v1/openai/v1/completions"): 200,
}
# all of them are found in one table and refused by one function
UNSERVED = EVERY_UNSERVED[::6]
BY_BODY = {route.path for route in ROUTES if BODIES[route.method, route.path].names}
EVERY = (*ROUTES, *UNSERVED)
# what is tried at a time: a route under each of its paths, or all that is not served
CASES = [pytest.param((route,), id=f"{route.method} {route.path}") for route in ROUTES]
CASES += [pytest.param(UNSERVED, id="unserved")]


def paths_of(routes: Sequence[Route]) -> list[tuple[Route, str]]:
    return [(route, path) for route in routes for path in route.paths]


@dataclass(frozen=True)
class Place:
    served: Served
    ann: Tenant
    foreigner: Tenant
    stranger: Tenant


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with served(tmp_path_factory.mktemp("refusals"), auth="api_keys") as serving:
        marks = {"ann": ANN, "foreigner": FOREIGNER, "stranger": STRANGER}
        yield Place(serving, **{mark: Tenant(serving, caller, f"mark-{mark}") for mark, caller in marks.items()})


def body_of(route: Route) -> object:
    return BODIES[route.method, route.path].valid[0] if (route.method, route.path) in BODIES else {}


def target(tenant: Tenant, path: str) -> str:
    """Return the path to what is the tenant's; of what nothing here has, to anything."""
    return path.format_map({**dict.fromkeys(PARAMETER.findall(path), "anything"), **tenant.ids})


@pytest.mark.parametrize("routes", CASES)
def test_nobody_gets_an_answer(place: Place, routes: Sequence[Route]) -> None:
    closed = [route for route in routes if not route.is_open]
    for route, path in paths_of(closed):
        before = place.served.marks()
        answer = place.served.client.send(Raw(route.method, target(place.ann, path).encode(), (b"{}",)))
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert answer.refusal()
        assert place.served.marks() == before


def test_what_is_open_tells_nothing_of_anybody_and_is_the_same_whoever_asks(place: Place) -> None:
    opened = {path for route, path in paths_of(EVERY) if route.is_open}
    assert opened == {"/", "/v1/health", "/alpha/health", "/docs", "/v1/docs", "/openapi.json", "/v1/openapi.json"}
    headers: list[tuple[tuple[bytes, bytes], ...]] = [
        (),
        ((b"authorization", b"Bearer wrong"),),
        ((b"authorization", b"Bearer " + place.ann._token.encode()),),
        ((b"authorization", b"Basic \xff"), (b"authorization", b"Bearer a")),
    ]
    for path in opened:
        answers = [place.served.client.send(Raw("GET", path.encode(), (), sent)) for sent in headers]
        assert [answer.status for answer in answers] == [200] * len(headers)
        assert all(answer == answers[0] for answer in answers)
    health = place.served.client.send(Raw("GET", b"/v1/health"))
    assert health.body == b'{"status":"OK"}'


def expected(route: Route, *, is_of_the_tenant: bool) -> set[int]:
    if route in UNSERVED:
        return {501}
    if (route.method, route.path) in FOR_ALL:
        return {FOR_ALL[route.method, route.path]}
    if is_of_the_tenant and (is_registry(route) or (route.method, route.path) == RUN):
        return {200}  # what is registered is the whole tenant's
    return REFUSED


@pytest.mark.parametrize("routes", CASES)
def test_who_is_of_another_tenant_is_refused_what_is_anns(place: Place, routes: Sequence[Route]) -> None:
    refuse_all(place, place.foreigner, routes, is_of_the_tenant=False)


@pytest.mark.parametrize("routes", CASES)
def test_who_shares_no_group_with_ann_is_refused_what_is_hers(place: Place, routes: Sequence[Route]) -> None:
    refuse_all(place, place.stranger, [route for route in routes if not is_registry(route)], is_of_the_tenant=True)


def refuse_all(place: Place, asker: Tenant, routes: Sequence[Route], *, is_of_the_tenant: bool) -> None:
    before = place.ann.snapshot()
    for route, path in paths_of(routes):
        refuse(place, asker, route, path, is_of_the_tenant=is_of_the_tenant)
    assert place.ann.snapshot() == before
    assert {seen.status for seen in before.values()} == {200}  # it is all there, for her


def refuse(place: Place, asker: Tenant, route: Route, path: str, *, is_of_the_tenant: bool) -> None:
    # in its body or query, not in its path
    names_hers = (route.method, route.path) == RUN or route.path in BY_BODY
    query = QUERY_2024.get(path.removeprefix("/alpha"), "").format_map(place.ann.ids) if route.method == "GET" else ""
    body = place.ann.bodies[route.path] if names_hers else body_of(route)
    answer = asker.send(route.method, target(place.ann, path) + query, body)
    assert answer.status in expected(route, is_of_the_tenant=is_of_the_tenant), path
    if answer.status != 200:
        assert answer.refusal()


def test_whatever_a_stranger_may_ask_for_is_a_route_there_is() -> None:
    assert FOR_ALL.keys() <= {(route.method, route.path) for route in ROUTES}
