"""The built template, deployed: its API over HTTP, its functions under their roles, its machine beside them.

Covers: template.yaml, functions
"""

from __future__ import annotations

import json
import os
import random
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.smoke.artefact import ROOT
from tests.smoke.conftest import MINISTACK, Show
from tests.smoke.deployment import PAGE_ORIGIN, STACK, Stack, deploy
from tests.support.aws.emulator import EmulatorProcess
from tests.support.clients.plain_client import answering, turn_body
from tests.support.server.servers import wait_until

CLIENT = "0.2.12"
PATIENCE_S = 30.0
WAITS = 0.05  # of the time that the machine would wait in the cloud
TENANT = "000000000000"
CLIENT_TOOL = {
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": [{"name": "city", "parameter_type": "string", "description": "The city"}],
}
AGENT = {"agent_config": {"model": "offline", "instructions": "You are quixotic.", "client_tools": [CLIENT_TOOL]}}
CONTENT = ("quixotic", "labyrinthine", "Oslo", "4 degrees")
MAY_CALL = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": "*"}],
}


@pytest.fixture(scope="module")
def cloud() -> Iterator[EmulatorProcess]:
    """An emulator that enforces the rights of every caller."""
    with EmulatorProcess(MINISTACK, AUTH="true", SFN_WAIT_SCALE=str(WAITS)) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def stack(cloud: EmulatorProcess, show: Show) -> Stack:
    began = time.monotonic()
    stack = deploy(cloud)
    show(f"sam deploy into ministack: {time.monotonic() - began:.1f} s")
    adapt_to_emulator(stack)
    return stack


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[httpx.Client]:
    with stack.client() as client:
        yield client


@dataclass(frozen=True)
class Key:
    """An access key of a user of the account."""

    name: str
    key_id: str
    secret: str


@pytest.fixture
def user(stack: Stack) -> Key:
    """A new user without any right."""
    name = f"user-{uuid4().hex[:8]}"
    stack.service("iam").create_user(UserName=name)
    key = stack.service("iam").create_access_key(UserName=name)["AccessKey"]
    return Key(name, key["AccessKeyId"], key["SecretAccessKey"])


@pytest.fixture
def session(client: httpx.Client) -> str:
    """The path of a new session of a new agent."""
    agent = created(client.post("/v1/agents", json=AGENT))["agent_id"]
    path = f"/v1/agents/{agent}/session"
    return f"{path}/{created(client.post(path, json={'session_name': 'first'}))['session_id']}"


def adapt_to_emulator(stack: Stack) -> None:
    """Adapt the stack where the emulator is stricter than AWS.

    It requires the right to wake a machine on every resource, where AWS requires it on the machine; and it has no TLS,
    without which the bucket's policy denies every request.
    """
    statement = {"Effect": "Allow", "Action": "states:SendTaskSuccess", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    for function in ("CreateTurn", "ResumeTurn", "RunTurn"):
        role = stack.resources[f"{function}Role"]
        stack.service("iam").put_role_policy(RoleName=role, PolicyName="wake", PolicyDocument=policy)
    stack.service("s3").delete_bucket_policy(Bucket=stack.resources["Bucket"])


def created(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def execution(stack: Stack, name: str) -> tuple[str, list[str]]:
    """Return the status of the execution of that name, and the states that it has entered."""
    states = stack.service("stepfunctions")
    arn = f"{stack.resources['TurnSupervisor'].replace(':stateMachine:', ':execution:')}:{name}"
    events = states.get_execution_history(executionArn=arn)["events"]
    entered = [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]
    return states.describe_execution(executionArn=arn)["status"], entered


def logged(stack: Stack) -> list[str]:
    logs = stack.service("logs")
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/{STACK}")
    return [event["message"] for page in pages for event in page["events"]]


def ended_turns(stack: Stack) -> str:
    """Route the events about ended turns into a queue; return its address."""
    queue = stack.service("sqs").create_queue(QueueName="ended-turns")["QueueUrl"]
    events = stack.service("events")
    events.put_rule(Name="ended-turns", EventPattern=json.dumps({"source": ["turnstone"]}))
    arn = f"arn:aws:sqs:eu-central-1:{TENANT}:ended-turns"
    policy = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": arn}
    attributes = {"Policy": json.dumps({"Version": "2012-10-17", "Statement": [policy]})}
    stack.service("sqs").set_queue_attributes(QueueUrl=queue, Attributes=attributes)
    events.put_targets(Rule="ended-turns", Targets=[{"Id": "queue", "Arn": arn}])
    return str(queue)


def test_a_turn_pauses_its_machine_waits_and_its_resume_wakes_it(
    stack: Stack, client: httpx.Client, show: Show
) -> None:
    queue = ended_turns(stack)
    began = time.monotonic()
    agent_id = created(client.post("/v1/agents", json=AGENT))["agent_id"]
    assert created(client.get(f"/v1/agents/{agent_id}"))["agent_config"]["instructions"] == "You are quixotic."
    path = f"/v1/agents/{agent_id}/session"
    path += f"/{created(client.post(path, json={'session_name': 'first'}))['session_id']}"

    plain = created(client.post(f"{path}/turn", json=turn_body("labyrinthine")))
    assert plain["completed_at"] is not None
    paused = created(client.post(f"{path}/turn", json=turn_body("please get_weather(city=Oslo)")))
    turn_path = f"{path}/turn/{paused['turn_id']}"
    assert client.get(turn_path).headers["x-turn-status"] == "awaiting_input"
    step_id = paused["steps"][0]["step_id"]
    assert created(client.get(f"{turn_path}/step/{step_id}"))["step"]["step_id"] == step_id

    turn_id = paused["turn_id"]
    wait_until(lambda: is_waiting(stack, path, turn_id), PATIENCE_S, "no token was stored with the turn")
    assert execution(stack, turn_id) == ("RUNNING", ["Route", "AwaitClient"])
    resumed = created(client.post(f"{turn_path}/resume", json=answering(paused, "4 degrees, rain")))
    assert "4 degrees, rain" in resumed["output_message"]["content"]
    assert client.get(turn_path).headers["x-turn-status"] == "completed"
    turns = created(client.get(path))["turns"]
    assert [turn["turn_id"] for turn in turns] == [plain["turn_id"], turn_id]
    show(
        f"agent, session, turn, pause, resume at the stack's address: {time.monotonic() - began:.1f} s, functions cold"
    )

    wait_until(lambda: execution(stack, turn_id)[0] != "RUNNING", PATIENCE_S, "the machine did not end")
    walked = ["Route", "AwaitClient", "Resumed", "Watch", "Attend", "Route", "Notify", "Ended"]
    assert execution(stack, turn_id) == ("SUCCEEDED", walked)
    (message,) = stack.service("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
    event = json.loads(message["Body"])
    # the ids are missing: the emulator lacks `$$` in a ResultSelector, the machine's source of them
    assert (event["detail-type"], event["detail"]["status"]) == ("Turn ended", "completed")


def is_waiting(stack: Stack, path: str, turn_id: str) -> bool:
    """Return whether the machine has stored its token with the turn."""
    _, _, _, agent_id, _, session_id = path.split("/")
    key = {"pk": {"S": f"{TENANT}|session:{agent_id}:{session_id}"}, "sk": {"S": f"turn:{turn_id}"}}
    return "token" in stack.service("dynamodb").get_item(TableName=stack.resources["Table"], Key=key)["Item"]


def test_the_other_routes_answer(client: httpx.Client) -> None:
    assert created(client.get("/v1/health")) == {"status": "OK"}
    assert "version" in created(client.get("/v1/version"))
    assert [model["identifier"] for model in created(client.get("/v1/models"))["data"]] == ["offline", "static"]
    assert "current_time" in {tool["identifier"] for tool in created(client.get("/v1/tools"))["data"]}
    created(client.post("/v1/models", json={"model_id": "meta-llama/Llama-3.3-70B-Instruct"}))
    assert created(client.get("/v1/models/meta-llama/Llama-3.3-70B-Instruct"))["provider_id"] == "default"
    assert client.get("/v1alpha/agents/unknown").status_code == 404
    assert client.post("/v1/telemetry/traces", json={}).status_code == 501
    assert client.get("/docs").text.startswith("<!doctype html>")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/v1/agents", "POST, GET"), ("/v1/models/a/b", "GET, DELETE"), ("/v1/openai/v1/models", "GET")],
)
def test_a_method_that_a_path_lacks_is_refused_with_those_it_has(
    client: httpx.Client, method: str, path: str, allowed: str
) -> None:
    """The emulator drops the paths' own methods for this, and passes the request to the path of all others."""
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    body = answer.json()
    assert (body.get("code") or body["error"]["code"]) == "method_not_allowed"


@pytest.mark.parametrize("path", ["/v1/agents", "/v1/models/a/b", "/v1/openai/v1/models"])
def test_a_preflight_needs_no_signature_and_admits_the_listed_origin_only(stack: Stack, path: str) -> None:
    headers = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    listed = httpx.options(stack.url + path, headers={**headers, "origin": PAGE_ORIGIN})
    assert (listed.status_code, listed.headers["access-control-allow-origin"]) == (204, PAGE_ORIGIN)
    foreign = httpx.options(stack.url + path, headers={**headers, "origin": "https://app.example.org"})
    assert "access-control-allow-origin" not in foreign.headers


def test_a_page_of_the_listed_origin_may_read_answers(client: httpx.Client) -> None:
    answer = client.get("/v1/agents", headers={"origin": PAGE_ORIGIN})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE_ORIGIN)


def test_a_path_is_not_taken_for_one_that_it_ends_with(client: httpx.Client) -> None:
    for path in ("/x/v1/agents", "/x/letta/v1/agents", "/x/v1/telemetry/traces"):
        assert (client.get(path).status_code, client.post(path, json=AGENT).status_code) == (404, 404)


def test_only_signed_requests_come_through(stack: Stack, session: str, user: Key) -> None:
    for method, path in (("POST", f"{session}/turn"), ("GET", session), ("GET", "/v1/models"), ("GET", "/v1/version")):
        assert httpx.request(method, f"{stack.url}{path}", json=turn_body("hello")).status_code == 403
        with stack.client(user.key_id, "wrong") as forger:
            assert forger.request(method, path, json=turn_body("hello")).status_code == 403


def test_another_account_finds_nothing(stack: Stack, session: str) -> None:
    with stack.client(key_id="210987654321") as stranger:
        assert stranger.get(session).status_code in (403, 404)
        assert stranger.post(f"{session}/turn", json=turn_body("hello")).status_code in (403, 404)


def test_a_user_needs_the_right_to_call_and_shares_the_objects_of_the_account(
    stack: Stack, session: str, user: Key
) -> None:
    with stack.client(user.key_id, user.secret) as client:
        assert client.get(session).status_code == 403
        policy = json.dumps(MAY_CALL)
        stack.service("iam").put_user_policy(UserName=user.name, PolicyName="call", PolicyDocument=policy)
        assert created(client.get(session))["session_id"] == session.rpartition("/")[2]


def test_the_official_client_signs_and_runs_its_tool(stack: Stack) -> None:
    command = [sys.executable, "-m", "tests.smoke.official_client", stack.url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".clients" / CLIENT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "4 degrees and rain in Oslo" in ran.stdout


def test_a_payload_too_large_for_a_record_is_kept_in_the_bucket(stack: Stack, client: httpx.Client) -> None:
    noise = "".join(random.Random(1).choices(string.ascii_letters, k=600_000))
    config = {**AGENT["agent_config"], "instructions": noise}
    agent_id = created(client.post("/v1/agents", json={"agent_config": config}))["agent_id"]
    stored = stack.service("s3").list_objects_v2(Bucket=stack.resources["Bucket"])["Contents"]
    assert [found["Key"].split("/")[0] for found in stored] == ["blobs"]
    assert created(client.get(f"/v1/agents/{agent_id}"))["agent_config"]["instructions"] == noise


def test_a_function_may_do_only_what_its_role_allows(stack: Stack, client: httpx.Client, session: str) -> None:
    iam, role = stack.service("iam"), stack.resources["GetSessionRole"]
    iam.detach_role_policy(RoleName=role, PolicyArn=stack.resources["ReadRecords"])
    assert client.get(session).status_code == 503
    assert "AccessDenied" in "".join(logged(stack))
    iam.attach_role_policy(RoleName=role, PolicyArn=stack.resources["ReadRecords"])
    assert client.get(session).status_code == 200


def test_logs_name_the_requests_and_no_content_of_messages(stack: Stack, client: httpx.Client) -> None:
    agent = created(client.post("/v1/agents", json=AGENT))["agent_id"]
    session = f"/v1/agents/{agent}/session"
    session += f"/{created(client.post(session, json={'session_name': 'labyrinthine'}))['session_id']}"
    paused = created(client.post(f"{session}/turn", json=turn_body("please get_weather(city=Oslo)")))
    created(client.post(f"{session}/turn/{paused['turn_id']}/resume", json=answering(paused, "4 degrees, rain")))
    client.post(f"{session}/turn", json={"messages": "labyrinthine"})
    lines = logged(stack)
    assert [line for line in lines if "POST /v1/agents/{agent_id}/session/{session_id}/turn 200" in line]
    assert not [line for line in lines if any(word in line for word in CONTENT)]
