"""A dialect is a value: its envelope, its status of invalid fields, its slashes; a route may have several aliases.

Covers: http/dialects, http/envelopes, http/errors, http/route, http/server/app, http/server/rare_routes,
dialects/openai/errors
"""

import json
import re
from collections.abc import Sequence
from typing import Any, cast

import pytest
from pydantic import BaseModel

from functions.local.routes import ROUTES, UNSERVED
from tests.support.server.asgi_client import Answered, AsgiClient, Raw
from turnstone.dialects.openai.errors import RESPONSES_ENVELOPE
from turnstone.domain import errors
from turnstone.domain.errors.codes import ErrorCode
from turnstone.http.dialects import LLAMA_STACK, OPENAI, SHARED, Dialect, dialect_below
from turnstone.http.document.openapi import openapi_document
from turnstone.http.envelopes import Problems
from turnstone.http.replies import Reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route
from turnstone.http.server.app import build_app
from turnstone.http.server.endpoint import BodyLimits
from turnstone.http.server.hosting import OneMachine
from turnstone.services.use_cases import UseCases

TOO_OLD = ((b"x-llamastack-client-version", b"0.9"),)
MAX_BYTES = 100
RESOURCES = ("responses", "conversations", "files", "uploads", "vector_stores")


class Bare:
    """The envelope of a scripted dialect."""

    name = "Bare"

    def refusal(self, status: int, message: str, code: ErrorCode) -> bytes:
        return json.dumps({"bare": status, "why": message}).encode()

    def invalid(self, problems: Problems, code: ErrorCode) -> bytes:
        return json.dumps({"bare": [list(problem["loc"]) for problem in problems]}).encode()

    def schema(self, status: int) -> dict[str, Any]:
        return {"type": "object", "properties": {"bare": {"type": "integer"}}}


BARE = Dialect("bare", Bare(), "/bare/v1", {errors.NotFound: 410}, 422, checks_client=False, slashes=True)


class Body(BaseModel):
    count: int


def endpoint(request: Request) -> Reply:
    parse(request, Body)
    return Reply(json.dumps({"path": request.path, **request.path_params}).encode())


def fails(request: Request) -> Reply:
    kinds: dict[str, Exception] = {
        "missing": errors.NotFound("agent", "a"),
        "located": errors.InvalidRequest("no such value", ("query", "order")),
        "unlocated": errors.InvalidRequest("no"),
        "broken": ZeroDivisionError("inner text"),
    }
    raise kinds[request.path_params["kind"]]


SCRIPTED = (
    Route("POST", "/bare/v1/things/{thing_id}", endpoint, None, Body, dialect=BARE),
    Route("POST", "/bare/v1/seldom/{thing_id}", endpoint, None, Body, dialect=BARE, is_rare=True),
    Route("GET", "/bare/v1/fails/{kind}", fails, None, dialect=BARE),
    Route("POST", "/v1/things/{thing_id}", endpoint, None, Body),
    Route("GET", "/v1/fails/{kind}", fails, None),
)


def answered(
    method: str, path: str, body: bytes = b"", headers: Any = (), routes: Sequence[Route] = SCRIPTED
) -> Answered:
    app = build_app(routes, cast(UseCases, None), BodyLimits(MAX_BYTES, MAX_BYTES), OneMachine())
    client = AsgiClient(app)
    with client.lifespan():
        return client.send(Raw(method, path.encode(), (body,), headers))


@pytest.mark.parametrize("kind", ["things", "seldom"])
def test_a_path_is_served_with_and_without_a_slash_at_its_end_and_not_redirected(kind: str) -> None:
    for path in (f"/bare/v1/{kind}/a", f"/bare/v1/{kind}/a/"):
        answer = answered("POST", path, b'{"count": 1}')
        assert (answer.status, answer.json()) == (
            200,
            {"path": path, **({"thing_id": "a"} if kind == "things" else {})},
        )
    for path in (f"/bare/v1/{kind}/a//", f"/bare/v1/{kind}/", f"/bare/v1/{kind}/a/%0A"):
        assert answered("POST", path, b'{"count": 1}').status == 404
    assert answered("POST", "/v1/things/a", b'{"count": 1}').status == 200
    assert answered("POST", "/v1/things/a/", b'{"count": 1}').status == 404


def test_invalid_fields_have_the_status_of_the_dialect() -> None:
    bare, ours = (answered("POST", f"{base}/things/a", b'{"count": "x"}') for base in ("/bare/v1", "/v1"))
    assert (bare.status, bare.json()) == (422, {"bare": [["count"]]})
    assert ours.status == 400
    assert ours.json()["error"]["detail"]["errors"][0]["loc"] == ["count"]


@pytest.mark.parametrize(
    ("kind", "status", "body"),
    [
        ("missing", 410, {"bare": 410}),
        ("located", 422, {"bare": [["query", "order"]]}),
        ("unlocated", 400, {"bare": 400, "why": "no"}),
        ("broken", 500, {"bare": 500, "why": "internal server error"}),
    ],
)
def test_errors_have_the_envelope_and_the_statuses_of_the_dialect(kind: str, status: int, body: Any) -> None:
    bare, ours = (answered("GET", f"{base}/fails/{kind}") for base in ("/bare/v1", "/v1"))
    assert (bare.status, {name: bare.json()[name] for name in body}) == (status, body)
    assert "bare" not in ours.json()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/bare/v1", b"", 404),
        ("GET", "/bare/v1/", b"", 404),
        ("GET", "/bare/v1/none/of/these", b"", 404),
        ("GET", "/bare/v1/things/a/", b"", 405),
        ("DELETE", "/bare/v1/seldom/a", b"", 405),
        ("POST", "/bare/v1/things/a", b"x" * (MAX_BYTES + 1), 413),
    ],
)
def test_a_request_without_a_route_is_refused_in_the_envelope_of_its_path(
    method: str, path: str, body: bytes, status: int
) -> None:
    answer = answered(method, path, body)
    assert (answer.status, answer.json()["bare"]) == (status, status)


def test_responses_name_a_field_once_with_its_index_in_brackets() -> None:
    problem = {"loc": ("tools", 0, "vector_store_ids"), "msg": "tools.0.vector_store_ids: there is no bank 'vs_a'"}
    error = json.loads(RESPONSES_ENVELOPE.invalid([problem], ErrorCode.INVALID_REQUEST))["error"]
    assert error["message"] == "tools[0].vector_store_ids: there is no bank 'vs_a'"
    assert error["param"] == "tools[0].vector_store_ids"


def test_a_path_that_only_begins_like_a_dialect_is_not_of_it() -> None:
    for path in ("/bare/v10/things", "/bare", "/v1/none"):
        assert answered("GET", path).json()["code"] == "path_not_found"
    assert dialect_below("/bare/v1/x", SCRIPTED) is BARE
    assert [dialect_below(path, ROUTES) for path in ("/v1/openai/x", "/v1/x", "/v1", "/x")] == [
        OPENAI,
        SHARED,
        LLAMA_STACK,
        LLAMA_STACK,
    ]


def test_only_some_dialects_check_the_version_of_llama_stack_s_clients() -> None:
    body = b'{"count": 1}'
    assert answered("POST", "/bare/v1/things/a", body, TOO_OLD).status == 200
    assert answered("POST", "/v1/things/a", body, TOO_OLD).status == 426


def test_a_route_has_several_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {f"/v1/openai/v1/{each}": (f"/v1/{each}", f"/other/{each}") for each in RESOURCES}
    monkeypatch.setattr("turnstone.http.route.ALIASES", {"/v1/openai": ("/beside",), **table})
    routes = [Route("POST", f"/v1/openai/v1/{each}/{{thing_id}}", endpoint, None, Body) for each in RESOURCES]
    for each, route in zip(RESOURCES, routes, strict=True):
        assert len(route.paths) == 4
        for base in (f"/v1/openai/v1/{each}", f"/v1/{each}", f"/other/{each}", f"/beside/v1/{each}"):
            answer = answered("POST", f"{base}/a", b'{"count": 1}', routes=routes)
            assert (answer.status, answer.json()["path"]) == (200, f"{base}/a")
        assert answered("POST", f"/v1/{each}s/a", b'{"count": 1}', routes=routes).status == 404


def test_an_alias_that_is_another_route_s_path_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstone.http.route.ALIASES", {"/v1/a": ("/v1/b",)})
    routes = [Route("GET", f"/v1/{name}/{{thing_id}}", fails, None) for name in "ab"]
    with pytest.raises(ValueError, match="has two routes"):
        answered("GET", "/v1/b/1", routes=routes)


def test_no_two_routes_have_the_same_method_and_path() -> None:
    served = [
        (route.method, re.sub(r"{\w+}", "{}", path)) for route in (*ROUTES, *UNSERVED) for path in route.served_paths
    ]
    assert sorted(served) == sorted(set(served))


def test_operations_of_the_document_have_the_statuses_of_their_dialect() -> None:
    class Thing(BaseModel):
        thing_id: str

    route = SCRIPTED[0]._replace(reply=Thing)
    responses = openapi_document([route])["paths"][route.path]["post"]["responses"]
    assert responses["422"] == {"$ref": "#/components/responses/BareInvalidFields"}
