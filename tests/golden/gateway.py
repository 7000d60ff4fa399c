"""The functions of the template behind API Gateway: the answer to each example event, and the life of a turn.

The store is a table of moto, accessed by botocore clients as in a Lambda.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from tests.golden import product
from tests.golden.normal import Normaliser
from tests.golden.play import Scenario
from tests.golden.product import FakeClock
from tests.golden.records import Left, left_in_dynamodb, lines_of
from tests.golden.writing import body_lines, compact
from tests.integration.rights.calls import BUCKET, TABLE
from tests.integration.rights.functions import event_of
from tests.integration.rights.stage import Stage, stage, turn_body
from tests.support.aws.aws_events import FOLDER, load_event, store_registered, store_what_events_name

# long documents with tests of their own, and events of functions without a route
LEFT_OUT = frozenset({"authorize", "get_docs", "get_openapi", "jobs", "run_turn", "sweeper"})
CALL = "please get_weather(city=Oslo)"
Line = tuple[str, Any]


@dataclass
class Answers:
    """The answers of functions, and the contents of the table after each part."""

    lines: list[Line]
    left: list[Left]

    def texts(self, objects_in_s3: Collection[str]) -> tuple[str, str, set[str]]:
        normalise = Normaliser(product.VERSIONS, objects_in_s3)
        values = "\n".join(self._wire_lines(normalise)) + "\n"
        stored = (line for left in self.left for line in lines_of(left, normalise))
        return values, "\n".join([*stored, ""]), normalise.tokens

    def _wire_lines(self, normalise: Normaliser) -> Iterator[str]:
        for request, answer in self.lines:
            yield normalise(f">>> {request}")
            if not isinstance(answer, dict) or "statusCode" not in answer:
                yield f"<<< {normalise(compact(answer))}"
                continue
            yield f"<<< {answer['statusCode']}"
            for name, value in answer["headers"].items():
                yield normalise(f"{name}: {value}")
            beside = {name: value for name, value in answer.items() if name not in ("statusCode", "headers", "body")}
            yield normalise(compact(beside))
            yield from body_lines(normalise(answer["body"]).encode())
            yield ""


class Caller:
    """Invokes functions and logs their answers."""

    def __init__(self, account: Stage, clock: FakeClock) -> None:
        self.stage = account
        self.lines: list[Line] = []
        self._clock = clock

    def invoke(self, function: str, event: Any, named: str) -> Any:
        self._clock.advance(1)
        answer = self.stage.functions.invoke(function, event)
        self.lines.append((named, answer))
        return answer

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the JSON of the answer."""
        function = self.stage.functions.function_of(method, path)
        event = event_of(method, path, body, headers)
        answer = self.invoke(function, event, f"{method} {path} {'' if body is None else compact(body)}".strip())
        return json.loads(answer["body"]) if answer["body"].startswith("{") else None


def events(caller: Caller) -> None:
    """Invoke each function with its event, over a turn that waits for its client, then over a completed turn."""
    names = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem not in LEFT_OUT)
    in_order = [*(name for name in names if "delete" not in name), *(name for name in names if "delete" in name)]
    for is_waiting in (True, False):
        caller.stage.cloud.empty()
        store_what_events_name(caller.stage.store, is_waiting=is_waiting)
        store_registered(caller.stage.store)
        for name in in_order:
            event = load_event(name)
            if "httpMethod" not in event:
                continue  # of a queue or a rule
            function = caller.stage.functions.function_of(event["httpMethod"], event["path"])
            caller.invoke(function, event, f"{name}.json {'while the turn waits' if is_waiting else ''}".strip())


def life_of_a_turn(caller: Caller) -> None:
    """Create an agent, a session and turns, pause and resume, delete and clean up."""
    tool = {"name": "get_weather", "parameters": []}
    config = {"model": "calls", "instructions": "", "client_tools": [tool]}
    agent_id = caller.send("POST", "/v1/agents", {"agent_config": config}, idempotency_key="a key")["agent_id"]
    path = f"/v1/agents/{agent_id}/session"
    session = f"{path}/{caller.send('POST', path, {'session_name': 's'})['session_id']}"
    caller.send("POST", f"{session}/turn", turn_body("hello"))
    turn = caller.send("POST", f"{session}/turn", turn_body(CALL), idempotency_key="a turn")
    (call,) = turn["output_message"]["tool_calls"]
    response = {"call_id": call["call_id"], "tool_name": "get_weather", "content": "rain"}
    resume = f"{session}/turn/{turn['turn_id']}/resume"
    caller.send("POST", resume, {"tool_responses": [response], "stream": False})
    caller.send("POST", f"{session}/turn", turn_body(CALL))
    for target in (session, f"{session}/context", "/v1/agents", "/v1/usage", f"{session}/turn/{turn['turn_id']}"):
        caller.send("GET", target)
    for target in ("/v1/batches", "/v1/agents/unknown/session"):
        caller.send("POST", target, {"session_name": "s"})
    caller.send("DELETE", session)
    caller.send("GET", session)
    caller.send("DELETE", f"/v1/agents/{agent_id}")
    caller.invoke("Sweeper", load_event("sweeper"), "the sweeper")


def played(_: object, __: Path, seed: int) -> Answers:
    """Run both parts in an account of their own."""
    clock = FakeClock()
    left = []
    with in_a_lambda(), product.steadied(clock, seed), stage() as account:
        caller = Caller(account, clock)
        for act in (events, life_of_a_turn):
            act(caller)
            left.append(left_in(account))
            account.cloud.empty()
        for name in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys.copy():
            account.cloud.s3.delete_object(Bucket=BUCKET, Key=name)
        account.cloud.s3.delete_bucket(Bucket=BUCKET)  # moto may be at work around this, and would keep them
        account.cloud.dynamo.delete_table(TableName=TABLE)
    return Answers(caller.lines, left)


def left_in(account: Stage) -> Left:
    items = account.cloud.dynamo.scan(TableName=TABLE)["Items"]
    objects_in_s3 = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys
    objects = {name.removeprefix("blobs/"): held.value for name, held in objects_in_s3.items()}
    return left_in_dynamodb([as_bytes(item) for item in items], objects)


def as_bytes(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "body": {"B": bytes(item["body"]["B"])}}


@contextmanager
def in_a_lambda() -> Iterator[None]:
    """Provide the event loop of a Lambda, and restore the loggers afterwards."""
    loggers = [logging.getLogger(name) for name in (None, "turnstone", "functions")]
    saved = [(logger, logger.level, list(logger.handlers), list(logger.filters)) for logger in loggers]
    excepthook = threading.excepthook
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        for logger, level, handlers, filters in saved:
            logger.setLevel(level)
            logger.handlers[:], logger.filters[:] = handlers, filters
        logging.captureWarnings(False)
        threading.excepthook = excepthook


def scenarios() -> Iterator[Scenario]:
    tests = ("tests/integration/aws/test_events.py", "tests/integration/rights")
    yield Scenario("gateway/functions", print, tests, only=("dynamodb",), play=played)
