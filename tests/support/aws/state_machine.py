"""A bench for the state machine: moto runs its definition, in this process, beside a table, a bucket and a worker.

Where moto is not like AWS, it is put right: its tables are copied without a lock, so every request to them, the
machine's own included, waits for the one before; it takes a token that was used or is over, which AWS refuses; it
passes on parameters that no service has; and an execution that is stopped while it makes an event publishes the part
it has made. Retries come at once here, and the waits between them are only noted. What
is left: a second try to store a token has the same token, where AWS makes a new one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TypeVar

import botocore.config
import botocore.session
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core.config import DefaultConfig
from moto.core.exceptions import JsonRESTError
from moto.dynamodb.responses import DynamoHandler
from moto.events.models import EventsBackend
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.eval.callback.callback import CallbackConsumerTimeout, CallbackEndpoint
from moto.stepfunctions.parser.asl.utils import boto_client
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.models import StepFunctionsParserBackend, stepfunctions_parser_backends
from moto.stepfunctions.parser.utils import TMP_THREADS

import tests.fakes.aws.moto_machines
import tests.fakes.aws.moto_tables  # noqa: F401 - definitions parsed once, transactions that take no time
from tests.fakes.aws.unwired_dynamo import UnwiredDynamo
from tests.support.aws.dynamo_table import create_table
from turnstone.adapters.aws.dynamodb_items import encoded_key
from turnstone.ports.records import Key

DEFINITION = Path(__file__).parents[3] / "functions" / "turn_supervisor" / "state_machine.asl.json"
REGION = "eu-central-1"
ACCOUNT = "123456789012"
TABLE = "turnstone"
BUCKET = "turnstone-blobs"
BUS = "turnstone-events"
FUNCTION_ARN = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:run-turn"
SUBSTITUTIONS = {"TableName": TABLE, "RunTurnFunctionArn": FUNCTION_ARN, "EventBusName": BUS}
PATIENCE_S = 15.0
POLL_S = 0.01
SHORT_S = 1

Worker = Callable[[dict[str, Any]], Mapping[str, Any]]
Value = TypeVar("Value")


class FunctionFailed(Exception):
    """Raised by a worker to fail as a function does that can't raise: `Sandbox.Timedout`, `Runtime.ExitError` …"""

    def __init__(self, error_type: str) -> None:
        super().__init__(error_type)
        self.error_type = error_type


class LambdaRefused(Exception):
    """Raised by a worker in place of Lambda itself, which did not run it: `TooManyRequestsException` …"""

    def __init__(self, code: str, status: int = 429) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


@dataclass(frozen=True)
class Ended:
    """How an execution ended: SUCCEEDED with its output; FAILED with an error's name and its cause."""

    status: str
    output: dict[str, Any] | None
    error: str | None
    cause: str | None


def load_definition() -> dict[str, Any]:
    """Return the definition as it is deployed, its substitutions not yet made."""
    definition: dict[str, Any] = json.loads(DEFINITION.read_text())
    return definition


def shortened(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the definition with its fixed wait shortened to a second; the other waits come with the input."""
    short: dict[str, Any] = json.loads(json.dumps(definition))
    short["States"]["Resumed"]["Result"] = SHORT_S
    return short


def substituted(definition: dict[str, Any]) -> str:
    """Return the definition's text with the names of this bench in it, as a deployment makes it."""
    text = json.dumps(definition)
    for name, value in SUBSTITUTIONS.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def wait_for(find: Callable[[], Value | None], missing: Callable[[], str]) -> Value:
    """Return the value once `find` has one; fail with the text of `missing` after the timeout."""
    end = time.monotonic() + PATIENCE_S
    while (found := find()) is None:
        assert time.monotonic() < end, missing()
        time.sleep(POLL_S)
    return found


class Execution:
    """One run of the machine."""

    def __init__(self, states: Any, arn: str) -> None:
        self._states = states
        self.arn = arn

    @property
    def history(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self._states.get_execution_history(executionArn=self.arn)["events"]
        return events

    @property
    def entered(self) -> list[str]:
        """The states it has entered, in this order."""
        details = [event.get("stateEnteredEventDetails") for event in self.history]
        return [entered["name"] for entered in details if entered]

    def until(self, state: str, times: int = 1) -> None:
        """Wait until it has entered the state that often, counted from its start."""
        wait_for(
            lambda: self.entered.count(state) >= times or None,
            lambda: f"not {times} times in {state}, but {self.entered}",
        )

    def ended(self) -> Ended:
        """Wait for its end."""
        description = wait_for(self._end, lambda: f"it does not end: {self.entered}")
        output = description.get("output")
        return Ended(
            description["status"],
            json.loads(output) if output is not None else None,
            description.get("error"),
            description.get("cause"),
        )

    def _end(self) -> dict[str, Any] | None:
        description: dict[str, Any] = self._states.describe_execution(executionArn=self.arn)
        # moto reports the end a moment before it has the result
        has_result = description.get("output", "null") != "null" or "error" in description
        return description if description["status"] != "RUNNING" and has_result else None


class Bench:
    """AWS while the `with` block lasts, with an empty table and bucket, and the machine in it.

    Attributes:
        dynamo: a client of the table, without a wire.
        s3, sqs, states: botocore clients; `states` is that of Step Functions.
        queue_url: where clean-up jobs are sent.
        state_machine_arn: the machine that `start` starts, shortened.
        worker: the function that Lambda runs, in the thread of the execution; it may be replaced at any time.
        before_token: called by the machine before each try to store its token; may hold it back.
        refusals: error codes with which the table answers the machine's next tries, one for each.
        before_retry: called with the seconds that a retry of any state would wait, in place of the wait.
        retry_waits: these seconds, noted.
        events: the entries that reached the bus, their details decoded.
        is_bus_failing: whether the bus takes no entries.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.before_token: Callable[[], object] = lambda: None
        self.refusals: list[str] = []
        self.before_retry: Callable[[float], object] = lambda seconds: None
        self.retry_waits: list[float] = []
        self.events: list[dict[str, Any]] = []
        self.is_bus_failing = False
        self._stack = ExitStack()
        self._machines = 0

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a function over these services."""
        return {
            "TURNSTONE_JOBS_QUEUE_URL": self.queue_url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": REGION,
            "TURNSTONE_TABLE": TABLE,
            "TURNSTONE_BUCKET": BUCKET,
            "TURNSTONE_STATE_MACHINE_ARN": self.state_machine_arn,
            "TURNSTONE_MODEL_URL": "offline",
        }

    def deploy(self, definition: dict[str, Any]) -> str:
        """Make a machine of the definition, not shortened, and return its ARN."""
        self._machines += 1
        made = self.states.create_state_machine(
            name=f"TurnSupervisor{self._machines}",
            definition=substituted(definition),
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/turn-supervisor",
        )
        arn: str = made["stateMachineArn"]
        return arn

    def start(self, name: str, data: Mapping[str, Any], state_machine_arn: str | None = None) -> Execution:
        """Start an execution with this name and input. Raises ClientError as botocore does."""
        arn = state_machine_arn or self.state_machine_arn
        started = self.states.start_execution(stateMachineArn=arn, name=name, input=json.dumps(data))
        return Execution(self.states, started["executionArn"])

    def execution(self, name: str) -> Execution:
        """Return the execution of that name, once it is started."""
        arn = self.state_machine_arn.replace(":stateMachine:", ":execution:")
        wait_for(lambda: name in self.names() or None, lambda: f"nobody started {name}, but {self.names()}")
        return Execution(self.states, f"{arn}:{name}")

    def names(self) -> list[str]:
        """Return the names of the executions that were started."""
        listed = self.states.list_executions(stateMachineArn=self.state_machine_arn)
        return sorted(execution["name"] for execution in listed["executions"])

    def item(self, key: Key) -> dict[str, Any]:
        """Return the item as the table has it, empty if there is none."""
        item: dict[str, Any] = self.dynamo.get_item(TableName=TABLE, Key=encoded_key(key)).get("Item", {})
        return item

    def token(self, key: Key, other_than: str | None = None) -> str:
        """Return the token stored with the item, once it is there and another than that."""

        def stored() -> str | None:
            token: str | None = self.item(key).get("token", {}).get("S")
            return None if token == other_than else token

        return wait_for(stored, lambda: f"no token is stored: {self.item(key)}")

    def wake(self, token: str) -> None:
        """Send the token's success. Raises ClientError: TaskTimedOut if no task waits for it any more."""
        self.states.send_task_success(taskToken=token, output="{}")

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _set_up(self) -> None:
        config: DefaultConfig = {"lambda": {"use_docker": False}, "stepfunctions": {"execute_state_machine": True}}
        self._stack.enter_context(mock_aws(config=config))
        patch = self._stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        lock = threading.Lock()
        self._wired = client("dynamodb")
        self.dynamo = UnwiredDynamo(self._wired, lock)
        self.s3, self.states = client("s3"), client("stepfunctions")
        self.sqs = client("sqs")
        self.queue_url: str = self.sqs.create_queue(QueueName="Jobs")["QueueUrl"]
        self._put_right(patch, lock)
        create_table(self.dynamo, TABLE)
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        client("events").create_event_bus(Name=BUS)
        threads_before = len(TMP_THREADS)
        self._stack.callback(lambda: self._come_to_rest(TMP_THREADS[threads_before:]))
        self.state_machine_arn = self.deploy(shortened(load_definition()))

    def _put_right(self, patch: pytest.MonkeyPatch, lock: threading.Lock) -> None:
        # all requests to tables over a wire come through here, of every client
        _wrap(patch, DynamoHandler, "call_action", lambda handle, args: _within(lock, handle, args))
        _wrap(patch, CallbackEndpoint, "wait", _close_token)
        _wrap(patch, StepFunctionsParserBackend, "send_task_success", _send_if_open)
        _wrap(patch, ExecutionWorker, "start", _start_until_seen)
        _wrap(patch, EventsBackend, "put_events", self._put_events)
        patch.setattr(retrier_decl, "time", SimpleNamespace(sleep=self._wait_to_retry))
        patch.setattr(LambdaSimpleBackend, "invoke", lambda _, *request: self._invoke(*request))
        machine_clients = {
            "dynamodb": SimpleNamespace(update_item=self._update_item),
            "lambda": client("lambda"),
            "events": client("events"),
        }
        shared = SimpleNamespace(client=lambda service_name, **_: machine_clients[service_name])
        patch.setattr(boto_client, "boto3", shared)  # the machine's threads would make one for each call

    def _wait_to_retry(self, seconds: float) -> None:
        self.retry_waits.append(seconds)
        self.before_retry(seconds)

    def _update_item(self, **request: Any) -> Any:
        self.before_token()
        if self.refusals:
            code = self.refusals.pop(0)
            metadata = {"HTTPStatusCode": 400, "RequestId": "-"}
            answer = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": metadata}
            raise getattr(self._wired.exceptions, code, ClientError)(answer, "UpdateItem")
        return self._wired.update_item(**request)

    def _invoke(self, name: str, _: str | None, body: Any, __: Any, response_headers: dict[str, str]) -> bytes:
        assert name == FUNCTION_ARN, f"the machine invokes {name}"
        try:
            answer: object = self.worker(json.loads(body))
        except LambdaRefused as refusal:
            error = JsonRESTError(refusal.code, "refused")
            error.code = refusal.status
            raise error from refusal
        except Exception as failure:  # noqa: BLE001 - Lambda reports every exception of a function like this
            response_headers["x-amz-function-error"] = "Unhandled"
            kind = failure.error_type if isinstance(failure, FunctionFailed) else type(failure).__name__
            answer = {"errorType": kind, "errorMessage": str(failure), "stackTrace": []}
        return json.dumps(answer).encode()

    def _put_events(self, put: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        backend, entries = args
        if self.is_bus_failing:
            return [{"ErrorCode": "InternalFailure", "ErrorMessage": "failing"} for _ in entries]
        if not self._is_running(entries):
            return [{"EventId": "of no event"} for _ in entries]
        answer = put(backend, entries)
        self.events += [{**entry, "Detail": json.loads(entry["Detail"])} for entry in entries]
        return answer

    def _is_running(self, entries: list[dict[str, Any]]) -> bool:
        """Return whether the execution that publishes these entries still runs."""
        named = {arn for entry in entries for arn in entry["Resources"]}
        return all(
            execution.exec_worker.env.is_running()
            for execution in stepfunctions_parser_backends[ACCOUNT][REGION]._get_executions()
            if execution.exec_arn in named
        )

    def _come_to_rest(self, threads: list[threading.Thread]) -> None:
        """End what still runs: no thread of the machine may outlive the patches, or it would call the real AWS."""
        for execution in stepfunctions_parser_backends[ACCOUNT][REGION]._get_executions():
            worker = execution.exec_worker
            worker.stop(stop_date=None, error=None, cause=None)
            for endpoint in list(worker.env.callback_pool_manager._pool.values()):
                endpoint.interrupt_all()
        wait_for(lambda: not any(thread.is_alive() for thread in threads) or None, lambda: "the machine goes on")


def client(service: str) -> Any:
    session = botocore.session.Session()
    session.set_credentials("testing", "testing")
    # no retries of its own: the machine's retries are under test
    once = botocore.config.Config(retries={"total_max_attempts": 1})
    return session.create_client(service, region_name=REGION, config=once)


def _wrap(
    patch: pytest.MonkeyPatch, owner: type, name: str, around: Callable[[Callable[..., Any], tuple[Any, ...]], Any]
) -> None:
    """Have `around` called in place of a method, with the method and its arguments, the object first."""
    method = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(lambda *given: method(*given, **kwargs), args)

    patch.setattr(owner, name, wrapped)


def _within(lock: threading.Lock, method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    with lock:
        return method(*args)


def _close_token(wait: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    outcome = wait(*args)
    args[0].report(CallbackConsumerTimeout())
    return outcome


def _send_if_open(send: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    backend, token, _ = args
    for execution in backend._get_executions():
        endpoint = execution.exec_worker.env.callback_pool_manager.get(token)
        if endpoint is not None and endpoint.consumer_error is not None:
            raise JsonRESTError("TaskTimedOut", "the token is over, or was used")
    return send(*args)


def _start_until_seen(start: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Return once the execution can be queried: until then moto fails over it, for every token."""
    start(*args)
    wait_for(lambda: args[0].env, lambda: "the execution does not begin")
