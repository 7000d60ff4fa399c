"""An account of AWS for functions in this process, which notes the calls of each.

moto keeps the table, the bucket, the queue and the texts. Models, guardrails, interpreters and the state machine are
answered by script, before anything is sent.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import RLock, Thread
from types import SimpleNamespace
from typing import Any, Self

import botocore.handlers
import botocore.session
import pytest
from moto import mock_aws
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.responses import DynamoHandler

import tests.fakes.aws.moto_tables  # noqa: F401 - transactions that take no time
from tests.fakes.models.image_models import PNG
from tests.integration.rights.calls import BUCKET, INGESTIONS, JOBS, TABLE, Call, calls_of, signed_call
from tests.support.aws.cloudformation import ACCOUNT, REGION
from tests.support.aws.dynamo_table import create_table
from turnstone.adapters.aws.sigv4 import SigV4
from turnstone.services.threads.daemon_threads import DaemonThreads

LONG = "long " * 8_000
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}
WITH_PAYLOAD = ("blob", "zlib+blob")
ALWAYS: dict[str, dict[str, Any]] = {
    "SendTaskSuccess": {},
    "StopCodeInterpreterSession": {},
    "ApplyGuardrail": {"action": "NONE", "assessments": []},
    "InvokeGuardrailChecks": {"results": {}},
    "Converse": {"output": {"message": {"content": [{"text": "safe"}]}}, "stopReason": "end_turn", "usage": {}},
}
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


class Cloud:
    """The account, while its `with` block lasts.

    Attributes:
        calls: the calls of each function.
        texts: secrets and parameters by their names.
        writes: how many conditional writes were tried since `refuse` was called.
        large_writes: how many of them had a payload of its own.
        is_losing: the bucket has lost every payload.
    """

    def __init__(self) -> None:
        self.calls: defaultdict[str, set[Call]] = defaultdict(set)
        self.texts: dict[str, str] = {}
        self.writes = self.large_writes = 0
        self.is_losing = False
        self._refused: int | None = None
        self._failing: int | None = None
        self._running_now: ContextVar[str | None] = ContextVar("running", default=None)
        self._files = 0
        self._moto = mock_aws()
        self._patch = pytest.MonkeyPatch()

    @contextmanager
    def running(self, function: str) -> Iterator[None]:
        """Note the calls within the block as that function's, with those of threads that it starts."""
        before = self._running_now.set(function)
        try:
            yield
        finally:
            self._running_now.reset(before)

    @property
    def _running(self) -> str | None:
        return self._running_now.get()

    def refuse(self, number: int | None) -> None:
        """Refuse the conditional write of that number from now on, once; none for None."""
        self.writes, self._refused = 0, number

    def fail(self, number: int | None) -> None:
        """Throttle the conditional write of that number, among those with a payload of its own; none for None."""
        self.large_writes, self._failing = 0, number

    def empty(self) -> None:
        """Remove every record, at once."""
        dynamodb_backends[ACCOUNT][REGION].tables[TABLE].items.clear()

    def client(self, service: str) -> Any:
        """Return a client whose calls are not noted."""
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        return session.create_client(service, region_name=REGION)

    def __enter__(self) -> Self:
        self._moto.start()
        self._handlers = [("provide-client-params", self._note), ("before-call", self._answer)]
        botocore.handlers.BUILTIN_HANDLERS.extend(self._handlers)
        sign = SigV4.__call__

        def noted(signer: SigV4, method: str, url: str, headers: Any, body: bytes | None) -> Any:
            if method == "POST":
                self._add(signed_call(url, json.loads(body or b"{}")))
            return sign(signer, method, url, headers, body)

        self._patch.setattr(SigV4, "__call__", noted)
        act, lock = DynamoHandler.call_action, RLock()

        def one_by_one(handler: DynamoHandler) -> Any:
            with lock:  # moto copies its tables without one
                return act(handler)

        self._patch.setattr(DynamoHandler, "call_action", one_by_one)
        self._patch_threads()
        self.dynamo, self.s3, self.sqs = self.client("dynamodb"), self.client("s3"), self.client("sqs")
        create_table(self.dynamo, TABLE)
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.queue_url = self.sqs.create_queue(QueueName=JOBS)["QueueUrl"]
        self.ingestions_url = self.sqs.create_queue(QueueName=INGESTIONS)["QueueUrl"]
        return self

    def _patch_threads(self) -> None:
        """Attribute the work of threads to the function that started it."""
        submit, run, start = ThreadPoolExecutor.submit, DaemonThreads.run, Thread.start

        def submit_carried(pool: ThreadPoolExecutor, act: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
            return submit(pool, carried(act), *args, **named)

        def run_carried(threads: DaemonThreads, act: Callable[[], Any], *args: Any) -> Any:
            return run(threads, carried(act), *args)

        def start_carried(thread: Thread) -> None:
            thread.run = carried(thread.run)  # type: ignore[method-assign]
            start(thread)

        self._patch.setattr(ThreadPoolExecutor, "submit", submit_carried)
        self._patch.setattr(DaemonThreads, "run", run_carried)
        self._patch.setattr(Thread, "start", start_carried)

    def __exit__(self, *exc_info: object) -> None:
        for handler in self._handlers:
            botocore.handlers.BUILTIN_HANDLERS.remove(handler)
        self._patch.undo()
        self._moto.stop()

    def _add(self, *calls: Call) -> None:
        if self._running is not None:
            self.calls[self._running].update(calls)

    def _note(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        context["turnstone_asked"] = params
        if self._running is not None:
            self._add(*calls_of(model.service_model.service_name, model.name, params))

    def _answer(self, model: Any, context: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]] | None:
        params = context["turnstone_asked"]
        if model.service_model.service_name == "dynamodb":
            return self._refusal(model.name, params) if self._running is not None else None
        if model.name == "GetObject" and self.is_losing and self._running is not None:
            return _refused(404, "NoSuchKey")
        answer = self._scripted(model.name, params)
        return None if answer is None else (SimpleNamespace(status_code=200), answer)

    def _refusal(self, operation: str, params: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        """Return a failed condition if this is the conditional write to refuse."""
        items = [next(iter(item.values())) for item in params.get("TransactItems", [{"": params}])]
        conditional = ["ConditionExpression" in item for item in items]
        if operation not in WRITES or not any(conditional):
            return None
        if any(item.get("Item", {}).get("codec", {}).get("S") in WITH_PAYLOAD for item in items):
            self.large_writes += 1
            if self.large_writes - 1 == self._failing:
                return _refused(400, "ProvisionedThroughputExceededException")
        self.writes += 1
        if self.writes - 1 != self._refused:
            return None
        failed = conditional.index(True)
        reasons = [{"Code": "ConditionalCheckFailed" if at == failed else "None"} for at in range(len(items))]
        code = "TransactionCanceledException" if "TransactItems" in params else "ConditionalCheckFailedException"
        return _refused(400, code, CancellationReasons=reasons)

    def _scripted(self, operation: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match operation:
            case "GetSecretValue":
                return {"SecretString": self.texts[params["SecretId"]]}
            case "GetParameter":
                return {"Parameter": {"Value": self.texts[params["Name"]]}}
            case "StartExecution":
                return {"executionArn": f"arn:aws:states:{REGION}:{ACCOUNT}:execution:turnstone:{params['name']}"}
            case "StartCodeInterpreterSession":
                self._files = 0
                return {"sessionId": "session"}
            case "InvokeCodeInterpreter":
                return {"stream": Stream({"result": self._of_code(params["name"])})}
            case "InvokeModel" if "embed" in params["modelId"]:
                return {"body": Body(json.dumps({"embedding": [0.5] * 256, "inputTextTokenCount": 2}).encode())}
            case "InvokeModel":
                return {"body": Body(json.dumps({"images": [base64.b64encode(PNG).decode()]}).encode())}
            case "ConverseStream":
                return {"stream": Stream(*_model_events(params), {"metadata": {}})}
        return ALWAYS.get(operation)

    def _of_code(self, name: str) -> dict[str, Any]:
        """Return AgentCore's answer about code that prints much and leaves a file."""
        match name:
            case "listFiles":
                self._files += 1
                link = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "description": "File"}
                return {"content": [link] if self._files > 1 else []}
            case "executeCode":
                return {"content": [], "structuredContent": {"stdout": LONG, "stderr": "", "exitCode": 0}}
            case "readFiles":
                return {"content": [{"type": "resource", "resource": {"uri": "file:///a.txt", "blob": b"a file"}}]}
        raise NotImplementedError(name)


def carried(act: Callable[..., Any]) -> Callable[..., Any]:
    """Return the act, to be run in a thread under the present context."""
    context = copy_context()
    return lambda *args, **named: context.run(act, *args, **named)


def _refused(status: int, code: str, **more: Any) -> tuple[Any, dict[str, Any]]:
    body = {"Error": {"Code": code, "Message": "refused"}, **more}
    return SimpleNamespace(status_code=status), {**body, "ResponseMetadata": {"HTTPStatusCode": status}}


def _model_events(params: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a model's answer: the text "safe", or calls of the tools that the only tool answer names."""
    answers = [
        block["toolResult"] for message in params["messages"] for block in message["content"] if "toolResult" in block
    ]
    offered = [
        tool["toolSpec"]["name"] for tool in params.get("toolConfig", {"tools": []})["tools"] if "toolSpec" in tool
    ]
    called = [name for name in offered if len(answers) == 1 and name in json.dumps(answers)]
    if not called:
        delta = {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "safe"}}}
        return [delta, {"messageStop": {"stopReason": "end_turn"}}]
    events: list[dict[str, Any]] = []
    for index, name in enumerate(called):
        use = {"toolUseId": f"u{index}", "name": name}
        arguments = json.dumps({"code": "x", "query": "x", "city": "x"})
        events.append({"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": use}}})
        events.append({"contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": {"input": arguments}}}})
    return [*events, {"messageStop": {"stopReason": "tool_use"}}]


class Stream(list[dict[str, Any]]):
    """A stream of events."""

    def __init__(self, *events: dict[str, Any]) -> None:
        super().__init__(events)

    def close(self) -> None:
        """End it."""


class Body:
    """A body that is read at once."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, _: int) -> bytes:
        return self._content

    def close(self) -> None:
        """End it."""
