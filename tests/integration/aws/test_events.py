"""Every event in `events/` is one that API Gateway could send, and its function answers it.

Covers: functions, events, edge/gateway
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
from moto.dynamodb.models import dynamodb_backends
from moto.s3.models import s3_backends

from functions.letta import family as letta
from functions.letta.family import BELOW
from functions.local.routes import ROUTES as SERVED
from functions.unserved import methods as unserved
from tests.support.aws.aws_events import ACCOUNT, FOLDER, Context, load_event, store_registered, store_what_events_name
from tests.support.aws.state_machine import BUCKET, REGION, TABLE, Bench
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.domain.refs import SessionRef
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA, LLAMA_STACK_2024
from turnstone.http.route import Route
from turnstone.store.layout.oversize import OversizeStore


def event_of(route: Route) -> str:
    """Return the name of the route's event; those of September 2024 have the names of later ones, too."""
    return route.endpoint.__name__ + ("_2024" if route.dialect is LLAMA_STACK_2024 else "")


ROUTES = {event_of(route): sys.modules[route.endpoint.__module__] for route in SERVED}
SHOWN = {
    "create_agent": {"agent_id"},
    "get_agent": {"agent_id", "agent_config", "created_at"},
    "list_agents": {"data", "has_more", "url", "cursor"},
    "list_sessions": {"data", "has_more", "url", "cursor"},
    "create_session": {"session_id"},
    "get_session": {"session_id", "session_name", "turns", "started_at"},
    "create_turn": {"turn_id", "steps", "output_message", "completed_at"},
    "resume_turn": {"turn_id", "steps", "output_message", "completed_at"},
    "cancel_turn": {"turn_id", "steps", "output_message", "completed_at"},
    "get_turn": {"turn_id", "steps", "output_message", "completed_at"},
    "get_step": {"step"},
    "list_models": {"data"},
    "list_tools": {"data"},
    "list_openai_models": {"object", "data"},
    "get_openai_model": {"id", "object", "created", "owned_by"},
    "delete_openai_model": {"id", "object", "deleted"},
    "get_model": {"identifier", "metadata"},
    "register_model": {"identifier", "metadata"},
    "list_providers": {"data"},
    "get_provider": {"api", "health"},
    "list_toolgroups": {"data"},
    "get_toolgroup": {"identifier", "mcp_endpoint"},
    "get_tool": {"identifier", "parameters"},
    "list_runtime_tools": {"data"},
    "invoke_tool": {"content", "error_code", "metadata"},
    "list_shields": {"data"},
    "get_shield": {"identifier", "params"},
    "register_shield": {"identifier", "params"},
    "run_shield": {"violation"},
    "register_vector_db": {"identifier", "embedding_dimension"},
    "list_vector_dbs": {"data"},
    "get_vector_db": {"identifier", "embedding_dimension"},
    "query_chunks": {"chunks", "scores"},
    "register_memory_bank": {"identifier", "memory_bank_type"},
    "list_memory_banks": {"data"},
    "get_memory_bank": {"identifier", "memory_bank_type"},
    "list_documents": {"data", "has_more"},
    "get_document": {"document_id", "status"},
    "query_memory_bank": {"chunks", "scores"},
    "query_rag": {"content", "metadata"},
    "register_bank": {"identifier", "memory_bank_type"},
    "list_banks": {"identifier", "memory_bank_type"},
    "get_bank": {"identifier", "memory_bank_type"},
    "query_bank": {"chunks", "scores"},
    "create_file": {"id", "object", "bytes", "expires_at"},
    "list_files": {"data", "has_more"},
    "get_file": {"id", "object", "bytes", "expires_at"},
    "delete_file": {"id", "deleted"},
    "create_upload": {"id", "status", "file"},
    "add_upload_part": {"id", "upload_id"},
    "complete_upload": {"id", "status", "file"},
    "cancel_upload": {"id", "status", "file"},
    "create_vector_store": {"id", "file_counts", "status"},
    "list_vector_stores": {"data", "has_more"},
    "get_vector_store": {"id", "file_counts", "status"},
    "update_vector_store": {"id", "name"},
    "delete_vector_store": {"id", "deleted"},
    "search_vector_store": {"data", "search_query"},
    "add_store_file": {"id", "status"},
    "list_store_files": {"data", "has_more"},
    "get_store_file": {"id", "status"},
    "update_store_file": {"id", "attributes"},
    "remove_store_file": {"id", "deleted"},
    "get_store_file_content": {"data", "content"},
    "add_file_batch": {"id", "file_counts"},
    "get_file_batch": {"id", "file_counts"},
    "cancel_file_batch": {"id", "file_counts"},
    "list_file_batch_files": {"data", "has_more"},
    "get_context": {"budget_tokens", "token_factor", "summary", "turns"},
    "get_usage": {"total", "by_day", "by_agent", "by_session"},
    "chat_completion": {"completion_message"},
    "create_chat_completion": {"id", "choices", "usage"},
    "infer_completion": {"content", "stop_reason"},
    "create_completion": {"id", "choices", "usage"},
    "list_chat_completions": {"data", "first_id", "last_id", "has_more"},
    "get_chat_completion": {"id", "input_messages", "metadata"},
    "update_chat_completion": {"id", "input_messages", "metadata"},
    "delete_chat_completion": {"id", "deleted"},
    "list_chat_completion_messages": {"data", "first_id", "last_id", "has_more"},
    "create_response": {"id", "object", "output", "usage"},
    "list_responses": {"data", "has_more", "first_id", "last_id"},
    "get_response": {"id", "object", "output", "usage"},
    "cancel_response": {"id", "object", "output", "usage"},
    "delete_response": {"id", "deleted"},
    "list_input_items": {"data", "has_more", "first_id", "last_id"},
    "create_conversation": {"id", "object", "created_at", "metadata"},
    "get_conversation": {"id", "object", "created_at", "metadata"},
    "update_conversation": {"id", "object", "created_at", "metadata"},
    "delete_conversation": {"id", "object", "deleted"},
    "add_items": {"data", "has_more", "first_id", "last_id"},
    "list_items": {"data", "has_more", "first_id", "last_id"},
    "get_item": {"id", "type"},
    "delete_item": {"id", "object", "created_at", "metadata"},
    "create_webhook": {"webhook_id", "secret"},
    "list_webhooks": {"data"},
    "get_webhook": {"webhook_id", "url"},
    "update_webhook": {"webhook_id", "url"},
    "delete_webhook": {"webhook_id", "deleted"},
    "rotate_webhook_secret": {"webhook_id", "secret"},
    "send_test_event": {"delivery_id", "status"},
    "list_deliveries": {"data"},
    "resend_delivery": {"delivery_id", "status"},
    "embed_contents": {"embeddings"},
    "create_embedding": {"data", "usage"},
    "create_agent_2024": {"agent_id"},
    "create_session_2024": {"session_id"},
    "get_session_2024": {"session_id", "session_name", "turns", "started_at"},
    "create_turn_2024": {"turn_id", "steps", "output_message", "completed_at"},
    "read_turn_2024": {"turn_id", "steps", "output_message", "completed_at"},
    "get_turn_2024": {"turn_id", "steps", "output_message", "completed_at"},
    "read_step_2024": {"step"},
    "get_step_2024": {"step"},
    "get_openapi": {"openapi", "paths"},
    "letta_health": {"version", "status"},
    "import_letta_agent": {"agent_ids"},
    "export_letta_agent": {"agents", "blocks", "tools"},
    "create_letta_agent": {"id", "memory", "llm_config"},
    "get_letta_agent": {"id", "memory", "llm_config"},
    "update_letta_agent": {"id", "memory", "llm_config"},
    "delete_letta_agent": {"message"},
    "get_memory": {"blocks"},
    "add_memory_block": {"blocks"},
    "get_memory_block": {"id", "label", "value"},
    "update_memory_block": {"id", "label", "value"},
    "remove_memory_block": {"blocks"},
    "list_memory_blocks": {"id", "label", "value"},
    "list_passages": {"id", "text", "agent_id"},
    "create_passages": {"id", "text", "agent_id"},
    "delete_passage": {"message"},
    "get_archival_summary": {"size"},
    "reset_letta_messages": {"id", "memory", "llm_config"},
    "add_agent_tool": {"id", "tools"},
    "remove_agent_tool": {"id", "tools"},
    "get_letta_tool": {"id", "name"},
    "create_letta_tool": {"id", "name", "source_code"},
    "upsert_letta_tool": {"id", "name", "source_code"},
    "update_letta_tool": {"id", "name", "source_code"},
    "run_letta_tool": {"status", "tool_return"},
    "list_embedding_models": {"embedding_model", "embedding_dim"},
    "get_context_overview": {"num_messages", "messages"},
    "list_context_messages": {"id", "role"},
    "get_recall_summary": {"size"},
    "create_block": {"id", "label", "value"},
    "list_blocks": {"id", "label", "value"},
    "get_block": {"id", "label", "value"},
    "update_block": {"id", "label", "value"},
    "delete_block": {"id", "label", "value"},
    "list_letta_agents": {"id", "memory"},
    "list_letta_messages": {"id", "message_type"},
    "list_letta_models": {"model", "model_endpoint_type"},
    "list_letta_tools": {"id", "name"},
    "add_base_tools": {"id", "name"},
    "send_letta_messages": {"messages", "usage"},
    "update_letta_message": {"id", "role", "text"},
    "list_sources": {"id", "name"},
    "create_source": {"id", "name"},
    "get_source": {"id", "name"},
    "update_source": {"id", "name"},
    "attach_source": {"id", "name"},
    "detach_source": {"id", "name"},
    "upload_source_file": {"id", "status", "metadata_"},
    "list_source_files": {"id", "file_name"},
    "list_source_passages": {"id", "text", "source_id"},
    "list_letta_jobs": {"id", "status", "metadata_"},
    "list_active_jobs": {"id", "status", "metadata_"},
    "get_letta_job": {"id", "status", "metadata_"},
    "delete_letta_job": {"id", "status", "metadata_"},
    "start_letta_run": {"id", "status", "metadata_"},
    "list_letta_runs": {"id", "status", "metadata_"},
    "list_active_runs": {"id", "status", "metadata_"},
    "get_letta_run": {"id", "status", "metadata_"},
    "delete_letta_run": {"id", "status", "metadata_"},
    "list_run_messages": {"id", "message_type"},
    "get_run_usage": {"total_tokens"},
    "get_root": {"name", "docs", "openapi", "health"},
    "health": {"status"},
    "version": {"version"},
}
WITHOUT_BODY = {"register_toolgroup", "unregister_model", "unregister_shield", "unregister_toolgroup"}
WITHOUT_BODY |= {"insert_chunks", "unregister_vector_db"}
WITHOUT_BODY |= {"delete_memory_bank", "insert_documents", "delete_document", "insert_rag_documents"}
WITHOUT_BODY |= {"unregister_bank", "insert_into_bank"}
WITHOUT_BODY |= {"delete_agent_2024", "delete_session_2024", "delete_source", "delete_letta_tool"}
BARE_LISTS = {"list_banks", "list_memory_blocks", "list_letta_agents", "list_letta_messages", "list_letta_models"}
BARE_LISTS |= {"list_context_messages", "list_blocks", "list_embedding_models"}
BARE_LISTS |= {"list_letta_tools", "add_base_tools", "list_passages", "create_passages"}
BARE_LISTS |= {"list_sources", "list_source_files", "list_source_passages", "list_letta_jobs", "list_active_jobs"}
BARE_LISTS |= {"list_letta_runs", "list_active_runs", "list_run_messages"}
EMPTY_LISTS = {"list_agent_tools", "list_tags", "list_agent_sources"}
ATTACHES = "attach_block"  # which changes nothing the second time
DELETES = {"delete_agent", "delete_session", "detach_block", "delete_source_file"}
MAKES_OWN = {"create_agent", "create_agent_2024", "register_model", "register_shield", "register_toolgroup"}
MAKES_OWN |= {"register_vector_db", "register_memory_bank", "register_bank", "create_file", "create_upload"}
MAKES_OWN |= {"create_letta_tool", "upsert_letta_tool"}
MAKES_OWN |= {"create_vector_store", "create_conversation", "create_webhook", "create_letta_agent", "create_block"}
MAKES_OWN |= {"create_source", "import_letta_agent"}
LISTS = {"list_agents", "list_chat_completions", "list_models", "list_openai_models", "list_shields", "list_toolgroups"}
LISTS |= {
    "list_webhooks",
    "list_letta_agents",
    "list_letta_models",
    "list_letta_runs",
    "list_active_runs",
    "list_sources",
    "list_letta_jobs",
    "list_active_jobs",
    "list_embedding_models",
    "list_tags",
    "list_blocks",
    "list_responses",
    "list_vector_dbs",
    "list_memory_banks",
    "list_banks",
    "list_files",
    "list_vector_stores",
}
PRIVATE_LISTS = {"list_agents", "list_chat_completions", "list_responses", "list_files", "list_vector_stores"}
FOR_ALL = {"health", "version", "get_openapi", "get_docs", "get_root", "list_providers", "get_provider"}
FOR_ALL |= {"list_tools", "get_tool", "list_runtime_tools", "invoke_tool"}
FOR_ALL |= {"letta_health", "list_letta_tools", "add_base_tools", "get_letta_tool", "get_tool_by_name"}
FOR_ALL |= {"run_letta_tool"}
FOR_ALL |= {
    "infer_completion",
    "create_completion",
    "chat_completion",
    "create_chat_completion",
    "create_response",
    "embed_contents",
    "create_embedding",
}
ABOUT_TENANTS = ROUTES.keys() - FOR_ALL
WAITING = ("resume_turn", "cancel_turn", "list_active_runs", "list_active_jobs")
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


SNAPSHOTS: dict[bool, tuple[Any, SessionRef]] = {}
# the payloads of every snapshot by their names: a job of one test deletes what another test's records name
PAYLOADS: dict[str, bytes] = {}


def stored(bench: Bench, *, is_waiting: bool) -> SessionRef:
    """Store the records that the events name; later calls store a copy, which takes less time."""
    table = dynamodb_backends[ACCOUNT][REGION].tables[TABLE]
    if is_waiting not in SNAPSHOTS:
        table.items.clear()
        store = OversizeStore(DynamoRangeStore(bench.dynamo, TABLE), S3BlobStore(bench.s3, BUCKET))
        store_registered(store)
        ref = store_what_events_name(store, is_waiting=is_waiting)
        SNAPSHOTS[is_waiting] = table.items, ref
        PAYLOADS.update(
            {name: bench.s3.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in names_in_bucket()}
        )
    items, ref = SNAPSHOTS[is_waiting]
    table.items = defaultdict(dict, {pk: dict(by_sk) for pk, by_sk in items.items()})  # no write changes an item
    for name in PAYLOADS.keys() - names_in_bucket():
        bench.s3.put_object(Bucket=BUCKET, Key=name, Body=PAYLOADS[name])
    return ref


def items_in_table() -> dict[tuple[Any, Any], Any]:
    """Return the item of each key; no write changes an item."""
    items = dynamodb_backends[ACCOUNT][REGION].tables[TABLE].items
    return {(pk, sk): item for pk, by_sk in items.items() for sk, item in by_sk.items()}


def names_in_bucket() -> set[str]:
    return set(s3_backends[ACCOUNT]["aws"].buckets[BUCKET].keys)


def handler_of(module: Any) -> LambdaHandler:
    """Return a new handler of the module's route, so that no client outlives its bench."""
    return LambdaHandler("another module", module.ROUTE, loads=module.handler._loads)


def test_there_is_an_event_for_every_route_and_every_other_function() -> None:
    others = {"run_turn", "jobs", "ingest", "ingest_upload", "sweeper", "unserved", "authorize"}
    assert {path.stem for path in FOLDER.glob("*.json")} == {*ROUTES, *others}


@pytest.mark.parametrize("name", ROUTES)
def test_an_event_is_addressed_to_the_route_it_is_named_after(name: str) -> None:
    event, route = load_event(name), ROUTES[name].ROUTE
    if route.dialect is LETTA and not route.is_open:  # one greedy resource has all its paths
        assert (event["httpMethod"], event["resource"]) == (route.method, f"{BELOW}/{{proxy+}}")
        assert event["path"] == f"{BELOW}/{event['pathParameters']['proxy']}"
        assert re.fullmatch(re.sub(r"{\w+}", "[^/]+", route.path), event["path"])
    else:
        resource = route.path.removesuffix("}") + "+}" if route.takes_slashes else route.path
        assert (event["httpMethod"], event["resource"]) == (route.method, resource)
        assert event["path"] == route.path.format(**(event["pathParameters"] or {}))
    assert event["requestContext"]["path"] == f"/{event['requestContext']['stage']}{event['path']}"
    # the gateway identifies no caller on open routes
    assert event["requestContext"]["identity"]["accountId"] == (None if route.is_open else ACCOUNT)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", ROUTES)
def test_a_function_answers_its_event_for_its_account_alone(bench: Bench, name: str) -> None:
    """One handler for all three requests, because each costs the start of a function."""
    handler = handler_of(ROUTES[name])
    assert_refused_without_an_identity(bench, name, handler)
    if name in ABOUT_TENANTS:
        assert_another_account_finds_nothing(bench, name, handler)
    assert_answered(bench, name, handler)


@contextmanager
def supervised(bench: Bench, name: str) -> Iterator[None]:
    """End the execution that the event's turn in the background has, which no other event starts."""
    if name != "start_letta_run":
        yield
        return
    refused, bench.worker = bench.worker, lambda _: {"next": "done", "status": "completed", "seconds": 0}
    yield
    (started,) = bench.names()
    assert bench.execution(started).ended().status == "SUCCEEDED"
    bench.worker = refused


def assert_answered(bench: Bench, name: str, handler: LambdaHandler) -> None:
    stored(bench, is_waiting=name in WAITING)
    with supervised(bench, name):
        answer = handler(load_event(name), Context())
    if name in {*DELETES, ATTACHES}:
        assert (answer["statusCode"], answer["body"]) == (204, "")
        assert "content-type" not in answer["headers"]
        assert handler(load_event(name), Context())["statusCode"] == (204 if name == ATTACHES else 404)
        return
    assert answer["statusCode"] == 200, answer
    assert not answer["isBase64Encoded"]
    if name in ("get_attachment", "get_file_content"):
        assert (answer["headers"]["content-type"], answer["body"]) == ("text/plain", "a file")
        return
    if name == "get_docs":
        assert answer["headers"]["content-type"] == "text/html; charset=utf-8"
        return
    if name == "get_events":
        assert answer["headers"]["content-type"] == "text/event-stream; charset=utf-8"
        assert answer["body"].startswith("id: 2\ndata: ")
        return
    if name == "stream_letta_messages":
        assert answer["headers"]["content-type"] == "text/event-stream; charset=utf-8"
        assert answer["body"].endswith("data: [DONE]\n\n")
        return
    assert answer["headers"]["content-type"] == "application/json"
    body = json.loads(answer["body"])
    if name in EMPTY_LISTS or name in ("get_tool_by_name", "get_source_by_name"):
        assert body == [] or body.startswith(("tool-", "source-"))
        return
    if name in BARE_LISTS:
        body = body[0]
    assert (body is None) if name in WITHOUT_BODY else (SHOWN[name] <= body.keys())


def assert_another_account_finds_nothing(bench: Bench, name: str, handler: LambdaHandler) -> None:
    stored(bench, is_waiting=name in WAITING)
    event = load_event(name)
    event["requestContext"]["identity"] |= {"accountId": "210987654321", "userArn": "arn:aws:iam::210987654321:user/x"}
    answer = handler(event, Context())
    if name in LISTS:
        if name in PRIVATE_LISTS:
            assert json.loads(answer["body"])["data"] == []
        if ROUTES[name].ROUTE.dialect is LETTA and name not in ("list_letta_models", "list_embedding_models"):
            assert json.loads(answer["body"]) == []
        assert "meta-llama" not in answer["body"]
        assert "mcp::weather" not in answer["body"]
    assert answer["statusCode"] == (200 if name in MAKES_OWN | LISTS else 404)


def assert_refused_without_an_identity(bench: Bench, name: str, handler: LambdaHandler) -> None:
    stored(bench, is_waiting=name in WAITING)
    event = load_event(name)
    del event["requestContext"]["identity"]
    before = items_in_table()
    assert handler(event, Context())["statusCode"] == (200 if ROUTES[name].ROUTE.is_open else 401)
    assert items_in_table() == before


@pytest.mark.usefixtures("environment")
def test_an_unserved_route_is_answered_by_a_function_of_its_own() -> None:
    handler = LambdaHandler("another module", *unserved.ROUTES)
    answer = handler(load_event("unserved"), Context())
    assert (answer["statusCode"], answer["headers"]["x-should-retry"]) == (501, "false")
    assert "telemetry.query_traces" in json.loads(answer["body"])["detail"]
    unknown = load_event("unserved") | {"path": "/v1/nothing"}
    assert handler(unknown, Context())["statusCode"] == 404
    handler = LambdaHandler("another module", *unserved.ROUTES, others=unserved.OTHERS)
    of_letta = load_event("list_blocks") | {"path": "/letta/v1/providers"}
    answer = LambdaHandler("another module", family=letta.ROUTES)(of_letta, Context())
    assert answer["statusCode"] == 501
    assert "providers.list_providers" in json.loads(answer["body"])["detail"]
    for path, status in (("compact", 501), ("resp_a", 405)):  # beside a served path, and a method that it lacks
        event = load_event("unserved") | {"httpMethod": "POST", "path": f"/v1/responses/{path}"}
        assert handler(event, Context())["statusCode"] == status


@pytest.mark.usefixtures("environment")
def test_the_worker_answers_its_event(bench: Bench) -> None:
    from functions.turn_supervisor import run_turn

    stored(bench, is_waiting=True)
    answer = run_turn.handler(load_event("run_turn"), Context())
    assert (answer["next"], answer["status"]) == ("await", "awaiting_input")
    assert answer["seconds"] > 1_000_000


@pytest.mark.usefixtures("environment")
def test_the_queue_passes_a_job_to_its_function_and_receives_the_failed_ones(bench: Bench) -> None:
    from functions.events import jobs

    ref = stored(bench, is_waiting=False)
    bench.sqs.purge_queue(QueueUrl=bench.queue_url)
    handler_of(ROUTES["delete_session"])(load_event("delete_session"), Context())
    (message,) = bench.sqs.receive_message(QueueUrl=bench.queue_url)["Messages"]
    event = load_event("jobs")
    (record,) = event["Records"]
    assert json.loads(record["body"]).keys() == json.loads(message["Body"]).keys()
    valid = {**record, "body": message["Body"]}
    broken = {**record, "messageId": "broken", "body": "{}"}
    answer = jobs.handler({"Records": [valid, record, broken]}, Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "broken"}]}
    items = bench.dynamo.scan(TableName=TABLE)["Items"]
    assert not [item for item in items if ref.session_id in item["pk"]["S"] and "job:" not in item["pk"]["S"]]


READS = "llama_stack_2024.reads"
CHANGES_AND_STREAMS = ("llama_stack_2024.changes", "llama_stack_2024.streams")


@pytest.mark.parametrize(
    "name",
    [
        *(f"{name}.family" for name in ("server", "models", "tools", "shields", "inference", "stored_completions")),
        READS,
    ],
)
def test_a_family_serves_its_routes(environment: None, bench: Bench, name: str) -> None:
    family = import_module(f"functions.{name}")
    served = {event_of(route) for route in family.handler.routes}
    if name != READS:
        assert served == routes_in(name.removesuffix(".family"))
    assert {ROUTES[route].handler._loads for route in served} - {"providers"} == {family.handler._loads}
    stored(bench, is_waiting=False)
    for route in sorted(served, key=lambda name: (name.startswith("delete"), name)):  # deletions come last
        if route == "delete_openai_model":  # which was unregistered before
            assert family.handler(load_event("register_model"), Context())["statusCode"] == 200
        assert family.handler(load_event(route), Context())["statusCode"] == 200


def routes_in(folder: str) -> set[str]:
    return {name for name, module in ROUTES.items() if module.__name__.split(".")[1] == folder}


FAMILY_TABLES = sorted(
    f"functions.{path.parent.name}.{path.stem}"
    for path in (FOLDER.parent / "functions").glob("*/*.py")
    if "FamilyRoutes(" in path.read_text()
)


@pytest.mark.parametrize("name", FAMILY_TABLES)
def test_the_table_of_a_family_agrees_with_the_routes_of_its_modules(name: str) -> None:
    """The table alone decides which module is loaded for a request."""
    routes = import_module(name).ROUTES
    for named in routes.named:
        route = routes.load(named)
        assert (named.method, named.path, named.takes_slashes) == (route.method, route.path, route.takes_slashes)
        assert named.paths == route.served_paths
        assert route.endpoint.__module__ == f"{name.rpartition('.')[0]}.{named.module}"
        assert not route.is_rare


def test_the_families_of_2024_serve_all_its_routes_once() -> None:
    families = [import_module(f"functions.{name}").handler.routes for name in (READS, *CHANGES_AND_STREAMS)]
    served = [event_of(route) for routes in families for route in routes]
    assert sorted(served) == sorted(routes_in("llama_stack_2024"))


@pytest.mark.parametrize("name", CHANGES_AND_STREAMS)
def test_a_family_of_several_services_serves_its_routes(environment: None, bench: Bench, name: str) -> None:
    family = import_module(f"functions.{name}")
    served = {event_of(route) for route in family.handler.routes}
    assert {ROUTES[route].handler._loads for route in served} == set(family.handler._loads)
    for route in sorted(served):
        stored(bench, is_waiting=False)
        assert family.handler(load_event(route), Context())["statusCode"] == 200


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("path", "whole", "base"),
    [
        ("/", "/live/", "/live"),
        ("/", "/live", "/live"),
        ("/base", "/base", "/base"),
        ("/base/", "/base/", "/base"),
        ("/", "/", ""),
    ],
)
def test_the_root_links_the_documentation_behind_a_stage_and_a_base_path(path: str, whole: str, base: str) -> None:
    event = load_event("get_root")
    event["path"] = path
    event["requestContext"]["path"] = whole
    links = json.loads(handler_of(ROUTES["get_root"])(event, Context())["body"])
    assert [links[name] for name in ("docs", "openapi", "health")] == [
        f"{base}/docs",
        f"{base}/openapi.json",
        f"{base}/v1/health",
    ]


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("scheme", ["bearer", "sigv4"])
def test_the_document_names_the_credentials_of_callers_though_the_gateway_checked_none(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("TURNSTONE_AUTH_SCHEME", scheme)
    document = json.loads(handler_of(ROUTES["get_openapi"])(load_event("get_openapi"), Context())["body"])
    assert document["security"] == [{scheme: []}]
    page = handler_of(ROUTES["get_docs"])(load_event("get_docs"), Context())["body"]
    assert ('id="key"' in page) == (scheme == "bearer")
    assert ('class="try"' in page) == (scheme == "bearer")
    assert re.findall('data-base="([^"]*)"', page) == ["/live"]
