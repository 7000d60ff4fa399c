"""Modules loaded by each function, and the cost of its start: the first caller waits for a cold start.

Each run starts every third function, each night all of them.

Covers: functions, edge/gateway, bootstrap
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import botocore.session
import pytest
import requests
from botocore.exceptions import DataNotFoundError
from botocore.loaders import Loader
from moto import mock_aws

from tests.benchmarks.imports import (
    AUTHORIZER,
    MEMORY_BAR_MB,
    ROOT,
    Function,
    Ratios,
    Started,
    functions,
    started,
)
from tests.support.aws.aws_events import FOLDER, load_event, store_what_events_name
from tests.support.aws.cloudformation import template
from tests.support.aws.descriptions import parse_each_time
from tests.support.aws.dynamo_table import create_table
from tests.support.cases import rest_at_night
from turnstone.adapters.aws.aws_clients import DescriptionFiles, OurServices
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.domain.access.caller import Caller
from turnstone.http.route import Route
from turnstone.services.access.api_keys import ApiKeys
from turnstone.store.access.api_keys import ApiKeyStore

FUNCTIONS = functions()
REGION = "eu-central-1"
TABLE = "turnstone"
WORKER = "turn_supervisor.run_turn"
SWEEPER = "events.sweeper"
JOBS = "events.jobs"
INGEST = "events.ingest"
DELETES = ("agents.delete_agent", "sessions.delete_session")

# ---- the allowed modules

TYPES = {"typing_extensions"}
CLIENT = {"boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3"}
MODELS = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}
APP = {"anyio", "starlette"}
THIRD_PARTY = {
    "worker": TYPES | CLIENT | MODELS,
    "batch": TYPES | CLIENT | MODELS,
    "authorizer": TYPES | CLIENT | MODELS,
    "buffered": TYPES | CLIENT | MODELS | APP | {"mangum"},
    "streaming": TYPES | CLIENT | MODELS | APP | {"uvicorn", "click", "httptools"},  # click: `import uvicorn` takes it
}
NEVER = {"fastapi", "openai", "aioboto3", "aws_xray_sdk"}
# botocore and anyio load these where they are installed; the layer does not have them
NOT_IN_THE_LAYER = {"certifi", "sniffio"}
NAMES_IN_THE_LAYER = {"dateutil": "python-dateutil", "aws_lambda_powertools": "aws-lambda-powertools"}
LOCAL_ONLY = (
    "adapters.sqlite.sqlite",
    "adapters.sqlite.sqlite_file",
    "adapters.sqlite.files",
    "adapters.machine.local_supervisor",
    "bootstrap.places.local",
    "settings.local_settings",
)
WITHOUT_SESSIONS = (
    "domain.jobs",
    "domain.sessions.sessions",
    "domain.turns.turns",
    "domain.usage.usage",
    "store.cleanup.jobs",
)
NOT_NEEDED = {
    "agents.get_agent": (
        *WITHOUT_SESSIONS,
        "engine",
        "domain.messages.messages",
        "services.agents.refusals",
        "adapters.tools",
    ),
    "agents.create_agent": (
        *WITHOUT_SESSIONS,
        "domain.registry.tool_settings",
        "engine.turn",
        "engine.steps",
        "domain.messages.messages",
        "adapters.models",
    ),
    "sessions.create_session": (
        "engine",
        "services.turns.running",
        "adapters.tools",
        "adapters.models.offline.offline",
    ),
    "sessions.get_session": ("engine", "services.turns.running", "adapters.tools", "adapters.models.offline.offline"),
    "turns.create_turn": ("domain.shields.shields", "domain.registry.tool_settings"),
    "turns.resume_turn": ("domain.shields.shields", "domain.registry.tool_settings"),
    "turns.cancel_turn": ("engine", "services.turns.running", "adapters.tools", "adapters.models.offline.offline"),
    "turns.get_events": ("engine", "services.turns.running", "adapters.tools", "adapters.models.offline.offline"),
    "turns.get_turn": ("engine", "services.turns.running", "adapters.tools", "adapters.models.offline.offline"),
    "steps.get_step": ("engine", "services.turns.running", "adapters.tools", "adapters.models.offline.offline"),
    "models.family": ("engine", "services.turns.running", "store.sessions.turns", "adapters.tools"),
    "inference.family": (
        "engine.turn",
        "http.streams.sse",
        "services.streams",
        "services.turns.running",
        "services.turns.turns",
        "store.sessions.turns",
        "store.sessions.sessions",
    ),
    "stored_completions.family": (
        "engine",
        "services.turns.running",
        "services.models.inferring",
        "store.sessions.turns",
        "store.sessions.sessions",
    ),
    "tools.family": ("engine", "services.turns.running", "store.sessions.turns", "adapters.models.offline.offline"),
    "shields.family": (
        "engine",
        "services.turns.running",
        "store.sessions.turns",
        "adapters.tools",
        "adapters.models.offline.offline",
    ),
    "memory.family": (
        "engine",
        "services.turns.running",
        "store.sessions.turns",
        "services.memory.inserting",
        "services.memory.searching",
        "adapters.retrieval",
        "adapters.tools",
    ),
    "files.family": (
        "engine",
        "services.turns",
        "store.sessions",
        "domain.memory",
        "adapters.models",
        "adapters.tools",
    ),
    "vector_stores.family": (
        "engine",
        "services.turns",
        "store.sessions",
        "services.memory.searching",
        "services.memory.documents.ingest_runs",
        "adapters.extracting",
        "adapters.retrieval",
        "adapters.models",
        "adapters.tools",
    ),
    "llama_stack_2024.changes": (
        "engine.turn",
        "services.turns.running",
        "services.cleanup.cleaning",
        "adapters.models",
    ),
    "llama_stack_2024.reads": ("engine", "services.turns.running", "adapters.tools", "adapters.models.offline.offline"),
    "llama_stack_2024.streams": ("services.cleanup.deleting", "services.cleanup.cleaning", "services.agents.agents"),
    "tenant.family": ("engine", "services.turns.running", "adapters.tools", "adapters.models.offline.offline"),
    "unserved.methods": ("engine", "services", "store.sessions.turns", "domain.agents.agents"),
    "server.family": ("engine", "services", "store.sessions.turns", "domain.agents.agents"),
    **dict.fromkeys(
        DELETES,
        (
            "engine",
            "services.turns.running",
            "services.cleanup.cleaning",
            "adapters.tools",
            "adapters.models.offline.offline",
        ),
    ),
    WORKER: ("http", "dialects"),
    SWEEPER: ("http", "dialects"),
    **dict.fromkeys(
        (JOBS, INGEST),
        (
            "http",
            "dialects",
            "engine",
            "services.memory",
            "services.turns.running",
            "adapters.extracting",
            "adapters.tools",
            "adapters.models.offline.offline",
        ),
    ),
    AUTHORIZER: ("http.server.app", "dialects", "engine", "store.sessions.turns", "domain.agents.agents"),
}

OF_SEARCHES = (
    "services.memory.searching",
    "services.memory.turns",
    "adapters.retrieval",
    "adapters.extracting",
    "adapters.vectors",
)
OF_BANKS = ("services.memory", "store.memory")
KNOWS_BANKS = {"memory.family", "vector_stores.family", JOBS, INGEST, SWEEPER}

# ---- modules that the first request may load, all of Python's own library

AT_FIRST_REQUEST = {"encodings.idna", "stringprep", "unicodedata"}  # a name of a host, encoded for the first time
# and, with a batch of jobs, powertools: a quarter of the least start, and no caller waits for it
BATCHES = "aws_lambda_powertools.utilities.batch"
# and, in a family, the modules of the request's path, with those of their dialect
DIALECTS_OF = {
    "letta": ("letta",),
    "llama_stack": ("llama_stack",),
    "llama_stack_2024": ("llama_stack", "llama_stack_2024"),
    "openai": ("openai",),
    "openai_responses": ("openai",),
    "shared": ("llama_stack",),
}
OF_ANY_DIALECT = {"turnstone.dialects.json_objects", "pydantic.root_model"}  # the latter for bodies that are lists
# the type of registered names, which a body of the path has
REGISTERED_NAMES = {"models", "models.routing", "registry", "registry.registry", "usage", "usage.prices"}
DOMAIN_OF_A_PATH = {
    "inference.family": {"models.stored_completions"},
    "stored_completions.family": {"models.requests"},
    "llama_stack_2024.changes": {"agents.defined_tools", "tools.agent_tools", "tools.memory_tools"},
    "memory.family": REGISTERED_NAMES,
    "responses.family": {"responses.statuses"},
}

# ---- the allowed time of a start

# Newer Pythons miss the bar of streaming functions (1.32 to 1.38 on 3.13): there, too, no start gets slower unnoticed.
REACHED = {"streaming": 1.42} if sys.version_info >= (3, 12) else {}
ROUNDS = 5
MOST_ROUNDS = 20


def kind_of(function: Function) -> str:
    others = {WORKER: "worker", SWEEPER: "worker", JOBS: "batch", INGEST: "batch", AUTHORIZER: "authorizer"}
    return others.get(function.module, function.kind)


def named(function: Function) -> str:
    return function.module


@pytest.fixture(params=rest_at_night(FUNCTIONS, FUNCTIONS[::3]), ids=named)
def function(request: pytest.FixtureRequest) -> Function:
    chosen: Function = request.param
    return chosen


def test_every_function_of_the_template_is_measured() -> None:
    buffered = template(StreamingMode="buffered").functions.values()
    assert len(FUNCTIONS) == len(set(FUNCTIONS)) == len(buffered)
    handlers = {each["Handler"].removesuffix(".handler") for each in buffered}
    assert {function.module for function in FUNCTIONS} == handlers


def test_a_streaming_function_that_does_not_stream_loads_the_modules_of_a_buffered_one() -> None:
    """One function: what decides is the variable of its environment, and the code that reads it is that of all."""
    function = next(function for function in FUNCTIONS if function.kind == "streaming")
    buffered = started(Function(function.module, "buffered"))
    assert buffered.third_party - NOT_IN_THE_LAYER == THIRD_PARTY["buffered"]


def test_the_packages_are_those_of_the_layer() -> None:
    assert not NEVER & set.union(*THIRD_PARTY.values()), "these take longer than everything else together"
    lines = (ROOT / "shared" / "requirements.txt").read_text().splitlines()
    shipped = {line.split("==")[0] for line in lines if "==" in line}
    named_there = {NAMES_IN_THE_LAYER.get(name, name) for kind in THIRD_PARTY.values() for name in kind}
    assert {name.replace("_", "-") for name in named_there} <= {name.replace("_", "-") for name in shipped}
    assert not NOT_IN_THE_LAYER & shipped


def within(start: Started, packages: tuple[str, ...]) -> set[str]:
    """Return the modules of ours that are in one of the packages."""
    names = tuple(f"turnstone.{package}" for package in packages)
    return {name for name in start.own if name in names or name.startswith(tuple(f"{each}." for each in names))}


# ---- the start and the first request of each function


@pytest.fixture(scope="module")
def table() -> Iterator[str]:
    """Serve a table with the records that the events name, over HTTP; yields the address."""
    with mock_aws(), ThreadingHTTPServer(("127.0.0.1", 0), Moto) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Moto(BaseHTTPRequestHandler):
    """Passes requests on to the emulator in this process, so that nothing of it is loaded where functions start."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = {name: self.headers[name] for name in ("authorization", "content-type", "x-amz-target")}
        answer = requests.post(f"https://dynamodb.{REGION}.amazonaws.com/", body, headers=signed)
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def store_events(*, is_waiting: bool, has_block: bool = False) -> None:
    client = botocore.session.get_session().create_client("dynamodb", region_name=REGION)
    if TABLE in client.list_tables()["TableNames"]:
        client.delete_table(TableName=TABLE)
    create_table(client, TABLE)
    store_what_events_name(DynamoRangeStore(client, TABLE), is_waiting=is_waiting, has_block=has_block)


EVENTS = {
    "models.family": "register_model",
    "inference.family": "create_chat_completion",
    "stored_completions.family": "get_chat_completion",
    "tools.family": "register_toolgroup",
    "shields.family": "register_shield",
    "memory.family": "list_vector_dbs",
    "files.family": "list_files",
    "vector_stores.family": "list_vector_stores",
    "responses.family": "create_response",
    "letta.family": "letta_health",
    "server.family": "health",
    "tenant.family": "get_usage",
    "llama_stack_2024.changes": "create_agent_2024",
    "llama_stack_2024.reads": "get_step_2024",
    "llama_stack_2024.streams": "create_turn_2024",
    "unserved.methods": "unserved",
}


def event_for(function: Function) -> Path:
    return FOLDER / f"{EVENTS.get(function.module, function.module.rsplit('.', 1)[1])}.json"


def event_with_a_key(folder: Path) -> Path:
    """Make a key and return the event of a request that is sent with it."""
    client = botocore.session.get_session().create_client("dynamodb", region_name=REGION)
    keys = ApiKeys(ApiKeyStore(DynamoRangeStore(client, TABLE)), SystemClock(), RandomIds(), os.urandom)
    _, token = keys.create(Caller(tenant="acme", principal="ann"), "laptop")
    event = load_event("authorize")
    event["headers"]["Authorization"] = f"Bearer {token}"
    event["multiValueHeaders"]["Authorization"] = [f"Bearer {token}"]
    path = folder / "authorize.json"
    path.write_text(json.dumps(event))
    return path


def test_a_function_loads_only_the_modules_of_its_routes_and_its_first_request_those_of_a_familys_path(
    table: str, function: Function, tmp_path: Path
) -> None:
    """One start, because each takes half a second of processor time."""
    store_events(is_waiting=function.module in ("turns.resume_turn", "turns.cancel_turn", WORKER, SWEEPER))
    event = event_with_a_key(tmp_path) if function.module == AUTHORIZER else event_for(function)
    start = started(function, event, AWS_ENDPOINT_URL=table)
    assert_loads_what_it_needs(function, start)
    assert start.memory_mb <= MEMORY_BAR_MB
    assert is_answered(function, start.answer), start.answer
    assert_first_request_loads_its_path_only(function, start)


def assert_first_request_loads_its_path_only(function: Function, start: Started) -> None:
    loaded = set(start.first_request) - AT_FIRST_REQUEST
    if function.module in EVENTS and function.module != "unserved.methods":
        folder = f"{function.module.split('.')[0]}."
        of_path = routes_of_path(function)
        packages_of_path = {name.rpartition(".")[0] for name in of_path} - {folder.removesuffix(".")}
        loaded -= packages_of_path
        assert {name for name in loaded if name.startswith(folder)} == of_path.keys()
        assert not {name for name in start.modules if name.startswith(folder)} - {
            function.module,
            *packages_of_path,
            *of_path,
        }
        dialects = {each for route in of_path.values() for each in DIALECTS_OF[route.dialect.name]}
        packages = tuple(f"turnstone.dialects.{each}." for each in dialects)
        own = {name for name in loaded if f"{name}.".startswith(packages)}
        domain = {f"turnstone.domain.{name}" for name in DOMAIN_OF_A_PATH.get(function.module, ())}
        assert loaded & domain == domain
        loaded -= of_path.keys() | own | domain | OF_ANY_DIALECT
    if kind_of(function) == "batch":
        assert BATCHES in loaded
        loaded = {name for name in loaded if f"{name}.".startswith("turnstone.")}
    assert loaded == set()


def routes_of_path(function: Function) -> dict[str, Route]:
    """Return the routes at the path of the family's event, by their modules."""
    path = json.loads(event_for(function).read_text())["resource"].replace("+}", "}")
    family = import_module(f"functions.{function.module}").ROUTES
    folder = function.module.split(".")[0]
    return {f"{folder}.{named.module}": family.load(named) for named in family.named if path in named.paths}


def assert_loads_what_it_needs(function: Function, start: Started) -> None:
    assert start.third_party - NOT_IN_THE_LAYER == THIRD_PARTY[kind_of(function)]
    assert not within(start, LOCAL_ONLY), "only a server on one machine needs these"
    of_callers = {"turnstone.settings.auth_settings"} if function.module == AUTHORIZER else set[str]()
    assert within(start, ("settings.auth_settings",)) == of_callers
    assert not within(start, NOT_NEEDED.get(function.module, ())), "its routes do without"
    assert not within(start, OF_SEARCHES), "no start searches or reads a document"
    if function.module not in KNOWS_BANKS:
        assert not within(start, OF_BANKS), "it reads banks when a turn has some, or not at all"


def is_answered(function: Function, answer: Mapping[str, Any]) -> bool:
    status = {"unserved.methods": 501, **dict.fromkeys(DELETES, 204)}.get(function.module, 200)
    found = {"next": "await", "principalId": "ann", "seen": 1, "batchItemFailures": []}
    return answer.get("statusCode") == status or any(answer.get(name) == value for name, value in found.items())


# ---- the time of a start


@pytest.mark.alone
@pytest.mark.timeout(900)
def test_a_start_takes_little_longer_than_the_least_of_any_function() -> None:
    ratios = Ratios()
    slow = list(FUNCTIONS)
    for _ in range(
        0, MOST_ROUNDS, ROUNDS
    ):  # other work of the machine must not decide: slow functions are measured again
        ratios.measure(slow, ROUNDS)
        slow = [function for function in slow if ratios.of(function) > limit(function)]
        if not slow:
            return
    too_slow = ", ".join(f"{function} {ratios.of(function):.2f} > {limit(function)}" for function in slow)
    pytest.fail(f"processor time in that of the baseline, {ratios.baseline_ms:.0f} ms: {too_slow}")


def limit(function: Function) -> float:
    return max(function.cpu_bar, REACHED.get(function.kind, 0))


# ---- the descriptions that make it short


@pytest.mark.parametrize("description", ["endpoints", "partitions", "_retry", "dynamodb/2012-08-10/service-2"])
def test_a_description_is_loaded_as_by_botocore(description: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_each_time(monkeypatch)
    ours = OurServices(file_loader=DescriptionFiles()).load_data(description)
    assert json.dumps(ours) == json.dumps(Loader().load_data(description))


def test_a_missing_description_is_missed_as_by_botocore() -> None:
    for loader in (Loader(), OurServices(file_loader=DescriptionFiles())):
        with pytest.raises(DataNotFoundError):
            loader.load_data("no-such-thing")
