"""Each built function, under Lambda's runtime client, answers its event with nothing but its artefact.

Covers: template.yaml, functions
"""

from __future__ import annotations

import json
import os
import socket
import statistics
from importlib.metadata import distributions
from typing import Any

import pytest

from tests.fakes.web.issuer import AUDIENCE, ISSUER, Issuer
from tests.smoke.artefact import ROOT, RUNTIME, BuiltFunction, CloudResources, built_template
from tests.smoke.conftest import Show
from tests.smoke.interface_emulator import InvokedFunction
from tests.support.aws.aws_events import ACCOUNT, load_event, store_registered, store_what_events_name
from tests.support.aws.emulator import EmulatorProcess
from tests.support.server.servers import HOST
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.domain.access.caller import Caller
from turnstone.services.access.api_keys import ApiKeys
from turnstone.store.access.api_keys import ApiKeyStore

WARM_INVOCATIONS = 20
PDF = ROOT / "docs" / "guide" / "herons.pdf"
FUNCTIONS = {
    "create_agent": "CreateAgent",
    "get_agent": "GetAgent",
    "list_agents": "ListAgents",
    "create_session": "CreateSession",
    "list_sessions": "ListSessions",
    "get_session": "GetSession",
    "create_turn": "CreateTurn",
    "resume_turn": "ResumeTurn",
    "cancel_turn": "CancelTurn",
    "get_turn": "GetTurn",
    "get_events": "GetEvents",
    "get_step": "GetStep",
    "list_models": "Models",
    "list_providers": "Models",
    "chat_completion": "Inference",
    "create_chat_completion": "Inference",
    "embed_contents": "Inference",
    "create_embedding": "Inference",
    "list_chat_completions": "StoredCompletions",
    "list_tools": "Tools",
    "list_toolgroups": "Tools",
    "invoke_tool": "Tools",
    "get_attachment": "GetAttachment",
    "register_shield": "Shields",
    "run_shield": "Shields",
    "list_shields": "Shields",
    "list_vector_dbs": "Memory",
    "get_vector_db": "Memory",
    "query_chunks": "Memory",
    "create_file": "Files",
    "list_files": "Files",
    "list_vector_stores": "VectorStores",
    "get_file_content": "Files",
    "get_usage": "Tenant",
    "get_context": "Tenant",
    "list_webhooks": "Tenant",
    "create_response": "Responses",
    "get_conversation": "Responses",
    "list_letta_agents": "Letta",
    "get_memory_block": "Letta",
    "create_agent_2024": "Agents2024",
    "create_session_2024": "Agents2024",
    "read_turn_2024": "Reads2024",
    "get_step_2024": "Reads2024",
    "create_turn_2024": "Turns2024",
    "get_session_2024": "Turns2024",
    "health": "Server",
    "version": "Server",
    "get_openapi": "Server",
}


@pytest.fixture
def stored(emulator: EmulatorProcess, resources: CloudResources) -> CloudResources:
    """Cloud resources with the objects that the events name; the turn waits for its client."""
    store = DynamoRangeStore(emulator.client("dynamodb"), resources.table)
    store_what_events_name(store, is_waiting=True)
    store_registered(store)
    return resources


def test_nothing_is_installed_where_the_functions_run() -> None:
    (packages,) = RUNTIME.glob("lib/python3.13/site-packages")
    assert {found.name for found in distributions(path=[str(packages)])} <= {"pip"}


def test_every_function_is_tried() -> None:
    others = {"DeleteAgent", "DeleteSession", "CleanUp", "Ingest", "RunTurn", "Sweeper", "Unserved", "Authorize"}
    assert {*FUNCTIONS.values(), *others} == set(built_template().functions)


@pytest.mark.parametrize("name", dict.fromkeys(FUNCTIONS.values()))
def test_a_function_answers_its_events(stored: CloudResources, name: str) -> None:
    texts = {"get_events": "id: 2", "get_attachment": "a file", "get_file_content": "a file"}
    with InvokedFunction(BuiltFunction(name), stored) as function:
        for event in (event for event, its_function in FUNCTIONS.items() if its_function == name):
            answer = function.invoke(load_event(event)).answer
            assert answer["statusCode"] == 200, (event, answer)
            assert answer["body"].startswith(texts[event]) if event in texts else json.loads(answer["body"])


def test_an_inserted_chunk_is_found_with_the_packages_of_the_layer(stored: CloudResources) -> None:
    with InvokedFunction(BuiltFunction("Memory"), stored) as function:
        assert function.invoke(load_event("insert_chunks")).answer["statusCode"] == 200
        found = json.loads(function.invoke(load_event("query_chunks")).answer["body"])
    assert [chunk["content"] for chunk in found["chunks"]] == ["Herons nest in colonies."]


def test_a_pdf_in_the_bucket_is_found_once_its_messages_are_worked_off(
    emulator: EmulatorProcess, stored: CloudResources
) -> None:
    key = f"uploads/{ACCOUNT}/birds/herons.pdf"
    emulator.client("s3").put_object(Bucket=stored.bucket, Key=key, Body=PDF.read_bytes())
    sqs = emulator.client("sqs")
    queue_url = sqs.create_queue(QueueName=stored.bucket)["QueueUrl"]
    uploaded, worked_off = load_event("ingest_upload"), load_event("ingest")
    event = json.loads(uploaded["Records"][0]["body"])
    event["detail"]["object"]["key"] = key
    uploaded["Records"][0]["body"] = json.dumps(event)
    with InvokedFunction(BuiltFunction("Ingest"), stored, TURNSTONE_INGEST_QUEUE_URL=queue_url) as ingest:
        assert ingest.invoke(uploaded).answer == {"batchItemFailures": []}
        (message,) = sqs.receive_message(QueueUrl=queue_url, WaitTimeSeconds=5)["Messages"]
        worked_off["Records"][0]["body"] = message["Body"]
        assert ingest.invoke(worked_off).answer == {"batchItemFailures": []}
    with InvokedFunction(BuiltFunction("Memory"), stored) as memory:
        found = json.loads(memory.invoke(load_event("query_chunks")).answer["body"])
    assert "heron" in found["chunks"][0]["content"]


def test_an_unserved_method_is_named(stored: CloudResources) -> None:
    with InvokedFunction(BuiltFunction("Unserved"), stored) as function:
        answer = function.invoke(load_event("unserved")).answer
    assert answer["statusCode"] == 501
    assert "telemetry.query_traces" in answer["body"]


def test_the_authorizer_accepts_a_key_and_refuses_others_with_the_gateways_word(
    emulator: EmulatorProcess, resources: CloudResources
) -> None:
    store = ApiKeyStore(DynamoRangeStore(emulator.client("dynamodb"), resources.table))
    keys = ApiKeys(store, SystemClock(), RandomIds(), os.urandom)
    _, token = keys.create(Caller(tenant="acme", principal="ann"), "laptop")
    with InvokedFunction(BuiltFunction("Authorize"), resources) as authorizer:
        accepted = authorizer.invoke(sent_with(token)).answer
        refused = authorizer.invoke(load_event("authorize")).answer
    assert accepted["context"]["tenant"] == "acme"
    assert (refused["errorType"], refused["errorMessage"]) == ("Exception", "Unauthorized")


def test_the_authorizer_checks_signatures_with_the_library_of_its_layer(resources: CloudResources) -> None:
    with Issuer() as issuer:
        issuer.add("one")
        settings = {
            "TURNSTONE_AUTH": "jwt",
            "TURNSTONE_JWT_ISSUER": ISSUER,
            "TURNSTONE_JWT_AUDIENCE": AUDIENCE,
            "TURNSTONE_JWT_JWKS_URL": issuer.url,
            "TURNSTONE_JWT_CLAIMS": "tenant=org",
        }
        with InvokedFunction(BuiltFunction("Authorize"), resources, **settings) as authorizer:
            accepted = authorizer.invoke(sent_with(issuer.token("one"))).answer
            late = authorizer.invoke(sent_with(issuer.token("one", exp=1))).answer
    assert accepted["context"]["tenant"] == "acme"
    assert late["errorMessage"] == "Unauthorized"


def sent_with(token: str) -> dict[str, Any]:
    """Return the event of a request with this token."""
    event = load_event("authorize")
    event["headers"]["Authorization"] = f"Bearer {token}"
    event["multiValueHeaders"]["Authorization"] = [f"Bearer {token}"]
    return event


@pytest.mark.parametrize(("name", "event"), [("GetAgent", "get_agent"), ("RunTurn", "run_turn")])
def test_a_warm_function_is_faster_than_its_first_answer(
    stored: CloudResources, name: str, event: str, show: Show
) -> None:
    with InvokedFunction(BuiltFunction(name), stored) as function:
        first = function.invoke(load_event(event))
        warm = [function.invoke(load_event(event)) for _ in range(WARM_INVOCATIONS)]
    warm_ms = statistics.median(invocation.took_ms for invocation in warm)
    show(f"{name} under aws-lambda-rie: first answer {first.took_ms:.0f} ms, warm {warm_ms:.1f} ms (median of 20)")
    assert all(invocation.answer.keys() == first.answer.keys() for invocation in warm)
    assert warm_ms < first.took_ms


def test_the_worker_returns_the_time_of_the_next_check(stored: CloudResources) -> None:
    with InvokedFunction(BuiltFunction("RunTurn"), stored) as worker:
        answer = worker.invoke(load_event("run_turn")).answer
    assert (answer["next"], answer["status"]) == ("await", "awaiting_input")
    assert answer["seconds"] > 1_000_000


def test_the_sweeper_checks_open_turns(stored: CloudResources) -> None:
    with InvokedFunction(BuiltFunction("Sweeper"), stored) as sweeper:
        answer = sweeper.invoke(load_event("sweeper")).answer
    assert (answer["seen"], answer["ended"], answer["failed"]) == (1, 0, 0)


def test_an_error_of_the_worker_is_an_error_of_lambda_for_the_machine_to_retry(stored: CloudResources) -> None:
    with InvokedFunction(BuiltFunction("RunTurn"), stored, TURNSTONE_TABLE="missing") as worker:
        for _ in range(2):
            assert worker.invoke(load_event("run_turn")).answer["errorType"] == "StoreUnavailable"


def test_a_route_answers_an_error_itself(stored: CloudResources) -> None:
    with InvokedFunction(BuiltFunction("GetAgent"), stored, TURNSTONE_TABLE="missing") as function:
        assert function.invoke(load_event("get_agent")).answer["statusCode"] == 503


def test_a_worker_that_takes_too_long_is_ended(stored: CloudResources) -> None:
    with socket.create_server((HOST, 0)) as silent:
        nowhere = f"http://{HOST}:{silent.getsockname()[1]}"
        with InvokedFunction(BuiltFunction("RunTurn"), stored, timeout_s=1, AWS_ENDPOINT_URL=nowhere) as worker:
            invocation = worker.invoke(load_event("run_turn"))
    assert invocation.answer == "Task timed out after 1.00 seconds"
    assert invocation.took_ms < 10_000


def test_a_setting_that_is_missing_fails_the_start(stored: CloudResources) -> None:
    with InvokedFunction(BuiltFunction("RunTurn"), stored, TURNSTONE_MODEL_URL="") as worker:
        answer = worker.invoke(load_event("run_turn")).answer
    assert answer["errorType"] == "InvalidSettings", answer
    assert "TURNSTONE_MODEL_URL" in answer["errorMessage"]
