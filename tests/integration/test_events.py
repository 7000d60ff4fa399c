"""Every event in `events/` is one that API Gateway could send, and its function answers it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from functions.local import MODULES
from tests.aws_events import ACCOUNT, FOLDER, Context, load_event, store_what_events_name
from tests.machine import BUCKET, TABLE, Bench
from turnstone.adapters.dynamodb import DynamoRangeStore
from turnstone.adapters.s3 import S3BlobStore
from turnstone.domain.sessions import SessionRef
from turnstone.edge.gateway import LambdaHandler
from turnstone.store.oversize import OversizeStore

ROUTES = {module.__name__.rsplit(".", 1)[1]: module for module in MODULES}
SHOWN = {
    "create_agent": {"agent_id"},
    "get_agent": {"agent_id", "agent_config", "created_at"},
    "list_agents": {"data", "has_more", "url", "cursor"},
    "list_sessions": {"data", "has_more", "url", "cursor"},
    "create_session": {"session_id"},
    "get_session": {"session_id", "session_name", "turns", "started_at"},
    "create_turn": {"turn_id", "steps", "output_message", "completed_at"},
    "resume_turn": {"turn_id", "steps", "output_message", "completed_at"},
    "get_turn": {"turn_id", "steps", "output_message", "completed_at"},
    "get_step": {"step"},
    "list_models": {"data"},
    "list_tools": {"data"},
    "health": {"status"},
    "version": {"version"},
}
ABOUT_TENANTS = sorted(ROUTES.keys() - {"health", "version", "list_models", "list_tools"})
pytestmark = pytest.mark.usefixtures("in_a_lambda")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench(lambda payload: pytest.fail(f"the worker was invoked with {payload}")) as bench:
        yield bench


@pytest.fixture
def environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a function that the template makes."""
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)


def stored(bench: Bench, *, is_waiting: bool) -> SessionRef:
    items = bench.dynamo.scan(TableName=TABLE)["Items"]
    for item in items:
        bench.dynamo.delete_item(TableName=TABLE, Key={"pk": item["pk"], "sk": item["sk"]})
    store = OversizeStore(DynamoRangeStore(bench.dynamo, TABLE), S3BlobStore(bench.s3, BUCKET))
    return store_what_events_name(store, is_waiting=is_waiting)


def handler_of(module: Any) -> LambdaHandler:
    """Return a new handler of the module's route, so that no client outlives its bench."""
    return LambdaHandler("another module", module.ROUTE, loads=module.handler._loads)


def test_there_is_an_event_for_every_route_the_worker_and_the_authorizer() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {*ROUTES, "run_turn", "authorize"}


@pytest.mark.parametrize("name", ROUTES)
def test_an_event_is_addressed_to_the_route_it_is_named_after(name: str) -> None:
    event, route = load_event(name), ROUTES[name].ROUTE
    assert (event["httpMethod"], event["resource"]) == (route.method, route.path)
    assert event["path"] == route.path.format(**(event["pathParameters"] or {}))
    assert event["requestContext"]["path"] == f"/{event['requestContext']['stage']}{event['path']}"
    assert event["requestContext"]["identity"]["accountId"] == ACCOUNT


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", ROUTES)
def test_the_function_answers_its_event(bench: Bench, name: str) -> None:
    stored(bench, is_waiting=name == "resume_turn")
    answer = handler_of(ROUTES[name])(load_event(name), Context())
    assert answer["statusCode"] == 200, answer
    assert SHOWN[name] <= json.loads(answer["body"]).keys()
    assert answer["headers"]["content-type"] == "application/json"
    assert not answer["isBase64Encoded"]


@pytest.mark.usefixtures("environment")
def test_the_worker_answers_its_event(bench: Bench) -> None:
    from functions.turn_supervisor import run_turn

    stored(bench, is_waiting=True)
    answer = run_turn.handler(load_event("run_turn"), Context())
    assert (answer["next"], answer["status"]) == ("await", "awaiting_input")
    assert answer["seconds"] > 1_000_000


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "name", [name for name in ROUTES if name not in ("health", "version", "list_models", "list_tools")]
)
def test_the_same_event_from_another_account_finds_nothing(bench: Bench, name: str) -> None:
    stored(bench, is_waiting=name == "resume_turn")
    event = load_event(name)
    event["requestContext"]["identity"] |= {"accountId": "210987654321", "userArn": "arn:aws:iam::210987654321:user/x"}
    answer = handler_of(ROUTES[name])(event, Context())
    assert answer["statusCode"] == (200 if name in ("create_agent", "list_agents") else 404)
    if name == "list_agents":
        assert json.loads(answer["body"])["data"] == []


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", ROUTES)
def test_an_event_without_an_identity_is_refused(bench: Bench, name: str) -> None:
    stored(bench, is_waiting=name == "resume_turn")
    event = load_event(name)
    del event["requestContext"]["identity"]
    before = bench.dynamo.scan(TableName=TABLE)["Items"]
    assert handler_of(ROUTES[name])(event, Context())["statusCode"] == 401
    assert bench.dynamo.scan(TableName=TABLE)["Items"] == before


def test_the_family_of_server_serves_its_routes(environment: None) -> None:
    family = import_module("functions.server.family")
    for name in ("health", "version"):
        assert family.handler(load_event(name), Context())["statusCode"] == 200
