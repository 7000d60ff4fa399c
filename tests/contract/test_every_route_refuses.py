"""Every route there is refuses who is nobody, and who has no business with what it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from functions.local import ROUTES
from functions.unserved.methods import ROUTES as EVERY_UNSERVED
from tests.contract.asgi_client import Raw, Served, served
from tests.contract.tenant_world import PARAMETER, QUERY_2024, Tenant, is_registry
from tests.contract.test_bad_input import BODIES, RUN
from turnstone.domain.caller import Caller
from turnstone.http.routes import Route

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
EVERY = [(route, path) for route in (*ROUTES, *UNSERVED) for path in route.paths]


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


def told(case: tuple[Route, str]) -> str:
    return f"{case[0].method} {case[1]}"


def body_of(route: Route) -> object:
    return BODIES[route.method, route.path].valid[0] if (route.method, route.path) in BODIES else {}


def target(tenant: Tenant, path: str) -> str:
    """Return the path to what is the tenant's; of what nothing here has, to anything."""
    return path.format_map({**dict.fromkeys(PARAMETER.findall(path), "anything"), **tenant.ids})


@pytest.mark.parametrize("case", [case for case in EVERY if not case[0].is_open], ids=told)
def test_nobody_gets_an_answer(place: Place, case: tuple[Route, str]) -> None:
    route, path = case
    before = place.served.marks()
    answer = place.served.client.send(Raw(route.method, target(place.ann, path).encode(), (b"{}",)))
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.refusal()
    assert place.served.marks() == before


def test_what_is_open_tells_nothing_of_anybody_and_is_the_same_whoever_asks(place: Place) -> None:
    opened = {path for route, path in EVERY if route.is_open}
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


@pytest.mark.parametrize("case", EVERY, ids=told)
def test_who_is_of_another_tenant_is_refused_what_is_anns(place: Place, case: tuple[Route, str]) -> None:
    refuse(place, place.foreigner, case, is_of_the_tenant=False)


@pytest.mark.parametrize("case", [case for case in EVERY if not is_registry(case[0])], ids=told)
def test_who_shares_no_group_with_ann_is_refused_what_is_hers(place: Place, case: tuple[Route, str]) -> None:
    refuse(place, place.stranger, case, is_of_the_tenant=True)


def refuse(place: Place, asker: Tenant, case: tuple[Route, str], *, is_of_the_tenant: bool) -> None:
    route, path = case
    before = place.ann.snapshot()
    # in its body or query, not in its path
    names_hers = (route.method, route.path) == RUN or route.path in BY_BODY
    query = QUERY_2024.get(path.removeprefix("/alpha"), "").format_map(place.ann.ids) if route.method == "GET" else ""
    body = place.ann.bodies[route.path] if names_hers else body_of(route)
    answer = asker.send(route.method, target(place.ann, path) + query, body)
    assert answer.status in expected(route, is_of_the_tenant=is_of_the_tenant)
    if answer.status != 200:
        assert answer.refusal()
    assert place.ann.snapshot() == before
    assert {seen.status for seen in before.values()} == {200}  # it is all there, for her


def test_whatever_a_stranger_may_ask_for_is_a_route_there_is() -> None:
    assert FOR_ALL.keys() <= {(route.method, route.path) for route in ROUTES}
