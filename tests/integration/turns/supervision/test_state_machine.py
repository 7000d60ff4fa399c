"""The state machine itself: its real definition, run by moto beside a table, with a script for a worker.

Covers: functions/turn_supervisor, adapters/aws/step_functions
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from moto.stepfunctions.parser.asl.component.common.string.string_expression import StringJsonPath

from tests.support.aws.state_machine import (
    SUBSTITUTIONS,
    TABLE,
    Bench,
    Ended,
    Execution,
    FunctionFailed,
    LambdaRefused,
    load_definition,
    substituted,
    wait_for,
)
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.domain.errors import Conflict
from turnstone.domain.refs import TurnRef
from turnstone.ports.records import Absent, Put, RevIs
from turnstone.services.turns.recovery import MAX_TAKEOVERS
from turnstone.settings.config import Settings
from turnstone.store.layout.keys import turn_key

LONG_S = 600
Answer = Mapping[str, Any] | Exception


def outlook(next_state: str, seconds: int = 1, status: str = "in_progress") -> dict[str, Any]:
    return {"next": next_state, "seconds": seconds, "status": status}


DONE = outlook("done", status="completed")


class Case:
    """A turn of its own in the table, the worker's answers about it, and its execution."""

    def __init__(self, bench: Bench, status: str = "awaiting_input") -> None:
        self.bench = bench
        self.ref = TurnRef(tenant="local", agent_id="a", session_id="s", turn_id=uuid4().hex)
        self.key = turn_key(self.ref, self.ref.turn_id)
        self.store = DynamoRangeStore(bench.dynamo, TABLE)
        self.answers: list[Answer] = []
        self.payloads: list[dict[str, Any]] = []
        self.store.write([self.put(status, 0)])
        bench.worker = self.work
        bench.retry_waits.clear()

    def put(self, status: str, rev: int) -> Put:
        attributes = {"status": status, "open": "turn:3"}
        return Put(self.key, b"{}\n{}", attributes, (RevIs(rev) if rev else Absent(),))

    def resume(self, rev: int) -> None:
        """Resume the turn as a client does: take it under the revision that the state machine left it with."""
        self.store.write([self.put("in_progress", rev)])

    def work(self, payload: dict[str, Any]) -> Mapping[str, Any]:
        self.payloads.append(payload)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def data(self, first: Mapping[str, Any]) -> dict[str, Any]:
        return {"turn": self.ref.model_dump(), "key": {"pk": self.key.pk, "sk": self.key.sk}, **first}

    def start(self, first: Mapping[str, Any], *answers: Answer) -> Execution:
        self.answers = list(answers)
        return self.bench.start(self.ref.turn_id, self.data(first))

    def end_events(self) -> list[dict[str, Any]]:
        """Return the events about this turn."""
        return [event for event in self.bench.events if event["Detail"]["turn_id"] == self.ref.turn_id]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    def no_worker(payload: dict[str, Any]) -> Mapping[str, Any]:
        raise AssertionError(f"no test expects the worker to be asked about {payload}")

    with Bench(no_worker) as machine_bench:
        yield machine_bench


@pytest.fixture
def case(bench: Bench) -> Iterator[Case]:
    case = Case(bench)
    yield case
    case.store.close()


def test_a_resumed_turn_is_watched_until_it_has_ended(case: Case) -> None:
    execution = case.start(outlook("await", LONG_S, "awaiting_input"), DONE)
    token = case.bench.token(case.key)
    case.resume(rev=2)
    case.bench.wake(token)

    assert Ended("SUCCEEDED", case.data(DONE), None, None) == execution.ended()
    assert execution.entered == ["Route", "AwaitClient", "Resumed", "Watch", "Attend", "Route", "Notify", "Ended"]
    assert case.payloads == [case.ref.model_dump()]


def test_a_turn_that_pauses_twice_waits_under_a_token_of_its_own_each_time(case: Case) -> None:
    execution = case.start(outlook("await", LONG_S), outlook("await", LONG_S), DONE)
    first = case.bench.token(case.key)
    case.resume(rev=2)
    case.bench.wake(first)
    case.store.write([case.put("awaiting_input", 3)])
    second = case.bench.token(case.key, other_than=first)
    with pytest.raises(ClientError, match="TaskTimedOut"):
        case.bench.wake(first)
    assert execution.entered[-1] == "AwaitClient"
    case.resume(rev=5)
    case.bench.wake(second)

    assert execution.ended().status == "SUCCEEDED"
    pause = ["AwaitClient", "Resumed", "Watch", "Attend", "Route"]
    assert execution.entered == ["Route", *pause, *pause, "Notify", "Ended"]


def test_a_turn_whose_client_stays_away_is_reconciled_when_its_time_is_over(case: Case) -> None:
    execution = case.start(outlook("await", 1), outlook("done", status="expired"))

    assert execution.ended().output == case.data(outlook("done", status="expired"))
    assert execution.entered == ["Route", "AwaitClient", "Attend", "Route", "Notify", "Ended"]
    assert case.bench.retry_waits == []


def test_a_turn_resumed_before_its_token_was_stored_is_reconciled_at_once_and_left_as_it_is(case: Case) -> None:
    def resumed_first() -> None:
        case.bench.before_token = lambda: None
        case.resume(rev=1)

    case.bench.before_token = resumed_first
    execution = case.start(outlook("await", LONG_S), DONE)

    assert execution.ended().status == "SUCCEEDED"
    assert execution.entered == ["Route", "AwaitClient", "Attend", "Route", "Notify", "Ended"]
    found = case.store.get(case.key)
    assert found is not None
    assert (found.rev, dict(found.attributes)) == (2, {"status": "in_progress", "open": "turn:3"})
    assert case.bench.retry_waits == []


def test_a_turn_that_is_gone_gets_no_record_from_its_token(case: Case) -> None:
    case.bench.dynamo.delete_item(TableName=TABLE, Key={"pk": {"S": case.key.pk}, "sk": {"S": case.key.sk}})
    execution = case.start(outlook("await", LONG_S), outlook("done", status="gone"))

    assert execution.ended().status == "SUCCEEDED"
    assert case.bench.item(case.key) == {}


def test_storing_the_token_moves_the_revision_and_leaves_all_else_alone(case: Case) -> None:
    before = case.bench.item(case.key)
    execution = case.start(outlook("await", LONG_S), DONE)
    token = case.bench.token(case.key)

    assert case.bench.item(case.key) == {**before, "rev": {"N": "2"}, "token": {"S": token}}
    with pytest.raises(Conflict):
        case.resume(rev=1)
    case.bench.wake(token)
    assert execution.ended().status == "SUCCEEDED"


@pytest.mark.parametrize("code", ["TransactionConflictException", "ThrottlingException"])
def test_the_write_of_the_token_to_a_busy_table_is_retried(case: Case, code: str) -> None:
    case.bench.refusals[:] = [code]
    execution = case.start(outlook("await", LONG_S), DONE)
    case.bench.wake(case.bench.token(case.key))

    assert execution.ended().status == "SUCCEEDED"
    assert "Resumed" in execution.entered


def test_a_table_that_keeps_refusing_the_token_leaves_the_turn_to_the_worker(case: Case) -> None:
    case.bench.refusals[:] = ["AccessDeniedException"] * 9
    execution = case.start(outlook("await", LONG_S), DONE)

    assert execution.ended().status == "SUCCEEDED"
    assert execution.entered == ["Route", "AwaitClient", "Attend", "Route", "Notify", "Ended"]
    ceilings = [1, 2, 4, 8, 16, 32, 60, 60]
    assert len(case.bench.retry_waits) == len(ceilings)
    assert all(wait <= ceiling for wait, ceiling in zip(case.bench.retry_waits, ceilings, strict=True))


def test_a_running_turn_is_watched_without_touching_it_as_long_as_it_is_alive(case: Case) -> None:
    case.resume(rev=1)
    before = case.bench.item(case.key)
    execution = case.start(outlook("watch", 1), outlook("watch", 1), outlook("watch", 1), DONE)

    assert execution.ended().status == "SUCCEEDED"
    watched = ["Watch", "Attend", "Route"]
    assert execution.entered == ["Route", *watched, *watched, *watched, "Notify", "Ended"]
    assert case.bench.item(case.key) == before


DEATHS = [
    RuntimeError("dead"),
    FunctionFailed("Sandbox.Timedout"),
    FunctionFailed("Runtime.ExitError"),
    FunctionFailed("Lambda.Unknown"),
    LambdaRefused("ResourceConflictException", 409),
]


@pytest.mark.parametrize("death", DEATHS, ids=repr)
def test_a_worker_that_died_is_sent_again(case: Case, death: Exception) -> None:
    execution = case.start(outlook("attend"), death, DONE)

    assert execution.ended().status == "SUCCEEDED"
    assert execution.entered == ["Route", "Attend", "Route", "Notify", "Ended"]
    assert case.payloads == [case.ref.model_dump()] * 2
    assert case.bench.retry_waits == [35]


SERVICE_ERRORS = {
    "ClientExecutionTimeoutException": 500,
    "ServiceException": 500,
    "AWSLambdaException": 500,
    "SdkClientException": 500,
    "TooManyRequestsException": 429,
}


@pytest.mark.parametrize("code", SERVICE_ERRORS)
def test_a_lambda_that_fails_or_is_busy_is_retried_soon_and_for_minutes(case: Case, code: str) -> None:
    refusals = [LambdaRefused(code, SERVICE_ERRORS[code])] * 10
    execution = case.start(outlook("attend"), *refusals, DONE)

    assert execution.ended().status == "SUCCEEDED"
    ceilings = [2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert all(wait <= ceiling for wait, ceiling in zip(case.bench.retry_waits, ceilings, strict=True))
    assert len(set(case.bench.retry_waits)) == len(ceilings), "without chance in it, all would come back at once"


def test_an_execution_whose_workers_all_die_fails_and_names_its_turn(case: Case) -> None:
    deaths = [FunctionFailed("Runtime.ExitError")] * 5
    ended = case.start(outlook("attend"), *deaths, FunctionFailed("Sandbox.Timedout")).ended()

    assert (ended.status, ended.error) == ("FAILED", "Turnstone.TurnUnattended")
    assert ended.cause is not None
    for part in (case.ref.turn_id, "session s ", "Sandbox.Timedout"):
        assert part in ended.cause
    assert case.end_events() == []
    assert case.bench.retry_waits == [35, 70, 140, 280, 300]


def test_dead_workers_are_replaced_after_their_lease_and_often_enough_to_fail_the_turn() -> None:
    states = load_definition()["States"]
    deaths = states["Attend"]["Retry"][-1]
    lease_s = Settings().lease_seconds

    assert deaths["IntervalSeconds"] > lease_s
    assert deaths["MaxAttempts"] > MAX_TAKEOVERS
    assert states["Resumed"]["Result"] > lease_s


@pytest.mark.parametrize(
    "first", [outlook("attend"), outlook("sing"), outlook("")], ids=lambda first: repr(first["next"])
)
def test_an_unrecognised_next_step_has_the_turn_reconciled(case: Case, first: dict[str, Any]) -> None:
    execution = case.start(first, outlook("dance"), DONE)

    assert execution.ended().status == "SUCCEEDED"
    assert execution.entered == ["Route", "Attend", "Route", "Attend", "Route", "Notify", "Ended"]


def test_the_end_of_a_turn_is_published_with_its_ids_and_its_status(case: Case) -> None:
    execution = case.start(outlook("attend"), outlook("done", status="failed"))
    ended = execution.ended()

    (event,) = case.end_events()
    assert event["Detail"] == {**case.ref.model_dump(), "status": "failed"}
    assert (event["Source"], event["DetailType"]) == ("turnstone", "Turn ended")
    assert event["EventBusName"] == SUBSTITUTIONS["EventBusName"]
    assert execution.arn in event["Resources"]
    assert ended.output == case.data(outlook("done", status="failed"))


def test_an_end_that_can_not_be_published_fails_nothing(case: Case) -> None:
    case.bench.is_bus_failing = True
    execution = case.start(outlook("attend"), DONE)
    ended = execution.ended()
    case.bench.is_bus_failing = False

    assert ended.status == "SUCCEEDED"
    assert sum(event["type"] == "TaskFailed" for event in execution.history) == 4
    assert case.end_events() == []


def test_an_execution_that_is_stopped_while_it_publishes_publishes_no_part_of_an_event(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = StringJsonPath._eval_body

    def stop_after(path: StringJsonPath, env: Any) -> None:
        read(path, env)
        if path.json_path == "$.turn.session_id":
            case.bench.states.stop_execution(executionArn=execution.arn)

    monkeypatch.setattr(StringJsonPath, "_eval_body", stop_after)
    before = len(case.bench.events)
    execution = case.start(outlook("await", LONG_S), DONE)
    token = case.bench.token(case.key)
    case.resume(rev=2)
    case.bench.wake(token)

    described = case.bench.states.describe_execution
    wait_for(lambda: described(executionArn=execution.arn)["status"] == "ABORTED" or None, lambda: "it runs")
    assert case.bench.events[before:] == []


def test_a_second_start_of_a_turn_is_no_second_execution(case: Case) -> None:
    first = case.start(outlook("await", LONG_S), DONE)
    token = case.bench.token(case.key)
    again = case.bench.start(case.ref.turn_id, case.data(outlook("await", LONG_S)))
    with pytest.raises(ClientError, match="ExecutionAlreadyExists"):
        case.bench.start(case.ref.turn_id, case.data(outlook("await", LONG_S - 1)))

    assert first.arn == again.arn
    assert case.bench.token(case.key) == token
    case.bench.wake(token)
    assert first.ended().status == "SUCCEEDED"
    with pytest.raises(ClientError, match="ExecutionAlreadyExists"):
        case.bench.start(case.ref.turn_id, case.data(outlook("await", LONG_S)))
    assert case.payloads == [case.ref.model_dump()]


def followers(state: Mapping[str, Any]) -> set[str]:
    branches = [*state.get("Choices", ()), *state.get("Catch", ())]
    named = [state.get("Next"), state.get("Default"), *(branch["Next"] for branch in branches)]
    return {name for name in named if name is not None}


def test_every_state_can_be_reached_and_every_state_that_is_named_exists() -> None:
    definition = load_definition()
    reached: set[str] = set()
    ahead = {definition["StartAt"]}
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead |= followers(definition["States"][name]) - reached

    assert reached == set(definition["States"])
    for name, state in definition["States"].items():
        assert followers(state) or state["Type"] in ("Succeed", "Fail"), f"nothing comes after {name}"


def test_the_definition_takes_exactly_the_values_of_the_template() -> None:
    text = json.dumps(load_definition())

    assert set(re.findall(r"\$\{(\w+)\}", text)) == set(SUBSTITUTIONS)
    assert "${" not in substituted(load_definition())
    assert "QueryLanguage" not in text
