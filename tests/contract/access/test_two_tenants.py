"""No caller sees a byte of another caller's data, in any sequence of requests, with any ids and bodies of the other.

Covers: functions, services/access/access
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.local.routes import ROUTES
from functions.unserved.methods import ROUTES as EVERY_UNSERVED
from tests.support.cases import generated
from tests.support.server.asgi_client import Served, served
from tests.support.server.tenant_world import PARAMETER, RESPONSES, SERVERS_OWN, Header, Tenant, is_registry, marks_in
from tests.support.server.valid_bodies import BODIES
from turnstone.domain.access.caller import Caller
from turnstone.http.route import Route

WORLDS = 1
WORLDS_AT_NIGHT = 40
ANN = Caller(tenant="acme", principal="ann")
FOREIGN_ANN = Caller(tenant="other", principal="ann")
RED_ANN = Caller(tenant="acme", principal="ann", teams=("red",))
BLUE_BOB = Caller(tenant="acme", principal="bob", teams=("blue",))
BOB = Caller(tenant="acme", principal="bob")
PAIRS: dict[str, tuple[Caller, Caller, dict[str, Any]]] = {
    "two tenants": (ANN, FOREIGN_ANN, {}),
    "two teams of a tenant": (RED_ANN, BLUE_BOB, {}),
    "two of a tenant where owners only see": (ANN, BOB, {"owner_only": True}),
}
RETRIED: Header = (b"x-stainless-retry-count", b"1")
THEIRS = "?agent_id={agent_id}&session_id={session_id}&turn_id={turn_id}&step_id={step_id}"
QUERIES = ("", "", "?turn_ids={turn_id}", "?limit=1", "?cursor={turn_id}", "?name=x", THEIRS)
NUMBERS = count()
UNSERVED = EVERY_UNSERVED[::12]  # few, so that served routes are drawn more often


@dataclass(frozen=True)
class Request:
    """One request of a user, with ids, body or key of the other user where the route takes them."""

    route: Route
    path: str
    is_first: bool
    theirs: tuple[bool, ...]
    with_their_body: bool  # and the key it came with, as in a repetition
    headers: Sequence[Header]
    query: str

    def _repr_pretty_(self, printer: Any, is_cycle: bool) -> None:
        """Print it in short: Hypothesis, which calls this, refuses a long text of an example."""
        flags = "".join("01"[flag] for flag in (self.is_first, *self.theirs, self.with_their_body, bool(self.headers)))
        printer.text(f"{self.route.method} {self.path}{self.query} {flags}")


@dataclass
class User:
    """A sender of requests.

    Attributes:
        made: marks of the other user that this user's own objects bear since this user sent them.
    """

    own: Tenant
    other: Tenant
    made: set[bytes] = field(default_factory=set)

    def check(self, request: Request) -> None:
        """Send the request; assert that the answer shows nothing of the other user beyond the sent text."""
        names = PARAMETER.findall(request.path)
        chosen = [self.other if is_theirs else self.own for is_theirs in request.theirs[: len(names)]]
        owned = [index for index, name in enumerate(names) if name not in SERVERS_OWN]
        if owned and self.other not in [chosen[index] for index in owned]:
            chosen[owned[-1]] = self.other
        missing = set(names) - self.own.ids.keys() - (set(names) if request.route in UNSERVED else set())
        assert not missing, f"{request.route.method} {request.path}: tenant_world.py needs values for {missing}"
        ids = {name: whose.ids.get(name, "anything") for name, whose in zip(names, chosen, strict=True)}
        target = request.path.format_map(ids)
        body = self._body(request)
        query = request.query.format_map(self.other.ids)
        key = self.other.keys.get(request.route.path, ()) if request.with_their_body else ()
        self._send(request.route.method, target + query, body, [*key, *request.headers])

    def repeat(self) -> None:
        """Repeat the requests that made the other user's objects, exactly as they were sent."""
        for path, key in self.other.keys.items():
            self._send("POST", path.format_map(self.other.ids), self.other.bodies[path], key)
        self._send("POST", RESPONSES, self.other.bodies[RESPONSES], [RETRIED])  # found by its fingerprint

    def _send(self, method: str, target: str, body: Any, headers: Sequence[Header]) -> None:
        answer = self.own.send(method, target, body, headers)
        sent = f"{target} {json.dumps(body)}"
        self.made |= marks_in(json.dumps(body))
        news = {secret for secret in self.other.secrets - self.made if secret.decode() not in sent}
        shown = repr(answer.headers).encode() + answer.body
        assert answer.status < 500 or answer.status == 501, answer
        assert not [secret for secret in news if secret in shown], answer

    def _body(self, request: Request) -> Any:
        key = (request.route.method, request.route.path)
        if request.with_their_body and request.route.method == "POST":
            return self.other.bodies.get(request.route.path, {})
        return BODIES[key].valid[0] if key in BODIES else {}


@st.composite
def requests(draw: st.DrawFn, routes: Sequence[Route]) -> list[Request]:
    """Return two requests of each route, in any order, of either user, and some of unserved routes.

    A request is one number, because Hypothesis draws at most some thousand values for an example.
    """
    some = st.lists(st.sampled_from([*routes, *UNSERVED]), max_size=10)
    ordered = draw(st.permutations([*routes, *routes, *draw(some)]))
    return [_request(route, draw(st.integers(0, 2**24 - 1))) for route in ordered]


def _request(route: Route, number: int) -> Request:
    """Return the request of that number, which is less than 2^24."""
    rest, is_first, with_their_body, retried, *theirs = (number >> 7, *(bool(number >> bit & 1) for bit in range(7)))
    rest, query = divmod(rest, len(QUERIES))
    return Request(
        route=route,
        path=route.paths[rest % len(route.paths)],
        is_first=is_first,
        theirs=tuple(theirs),
        with_their_body=with_their_body,
        headers=(RETRIED,) if retried else (),
        query=QUERIES[query],
    )


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, Caller, Caller]]:
    one, two, more = PAIRS[request.param]
    with served(tmp_path, auth="api_keys", **more) as serving:
        yield serving, one, two


@pytest.mark.slow
def test_no_byte_of_another_user_is_shown_and_none_of_their_data_changes(pair: tuple[Served, Caller, Caller]) -> None:
    check_worlds(*pair, WORLDS)


@pytest.mark.nightly
def test_no_byte_of_another_user_is_shown_in_other_worlds(pair: tuple[Served, Caller, Caller], fresh_seed: int) -> None:
    check_worlds(*pair, WORLDS_AT_NIGHT, fresh_seed)


def check_worlds(serving: Served, one: Caller, two: Caller, worlds: int, seed: int | None = None) -> None:
    are_of_one_tenant = one.tenant == two.tenant
    routes = [route for route in ROUTES if not (are_of_one_tenant and is_registry(route))]  # which a tenant shares
    requested: set[tuple[str, str]] = set()

    @generated(worlds, seed)
    @given(requests(routes), st.text(max_size=20), st.text(max_size=20))
    def check(sequence: list[Request], text: str, other_text: str) -> None:
        first = Tenant(serving, one, f"mark{next(NUMBERS):04}-one", text)
        second = Tenant(serving, two, f"mark{next(NUMBERS):04}-two", other_text)
        users = {True: User(first, second), False: User(second, first)}
        before = first.snapshot(), second.snapshot()
        for request in sequence:
            users[request.is_first].check(request)
            requested.add((request.route.method, request.route.path))
        for user in users.values():
            user.repeat()
        assert (first.snapshot(), second.snapshot()) == before
        assert {seen.status for seen in (*before[0].values(), *before[1].values())} == {200}
        assert first.unregister(first.ids) | second.unregister(second.ids) == {200}
        assert first.unregister(second.ids) | second.unregister(first.ids) <= {200, 404}  # copies, if any were made
        assert first.delete_webhooks() | second.delete_webhooks() == {200}

    check()
    assert requested >= {(route.method, route.path) for route in routes}
