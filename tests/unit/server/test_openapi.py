"""The OpenAPI document describes the served API, and is made on request only.

Covers: http/document
"""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlencode

import jsonschema_rs
import pytest
from hypothesis import given
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import ValidationError
from pydantic_core import from_json

import turnstone.dialects
from functions.local.routes import ROUTES as SERVED
from tests.support.cases import generated, rest_at_night
from tests.support.clients.forms import FormBody, encoded
from tests.support.server.asgi_client import Answered, Raw, Served, served, strict_json
from tests.support.server.bad_requests import CHANGES, JUNK, changed, named, slots_in, written
from tests.support.server.bodies import letta as letta_bodies
from tests.support.server.document import CLOSED, CLOSED_SIGNED, DOCUMENT, ROUTES, SIGNED, named_validator, validator
from tests.support.server.valid_bodies import BODIES, FULL_AGENT, STORED
from turnstone.dialects.letta.files.queries import EXPORT_QUERY
from turnstone.dialects.letta.lists import AGENTS_QUERY, BLOCKS_QUERY, OF_AGENT, PART_QUERY, RESET_QUERY, TAGS_QUERY
from turnstone.dialects.letta.message_requests import QUERY as LETTA_MESSAGES_QUERY
from turnstone.dialects.letta.passages import PASSAGES_QUERY
from turnstone.dialects.letta.sources import SOURCE_FILES_QUERY, SOURCES_QUERY
from turnstone.dialects.letta.tools import TOOLS_QUERY
from turnstone.dialects.letta.turns.jobs import ACTIVE_JOBS_QUERY, JOBS_QUERY
from turnstone.dialects.letta.turns.runs import RUN_MESSAGES_QUERY, RUNS_QUERY
from turnstone.dialects.llama_stack.lists import QUERY as LIST_QUERY
from turnstone.dialects.llama_stack.memory.documents import QUERY as DOCUMENTS_QUERY
from turnstone.dialects.llama_stack.turns.event_numbers import QUERY as EVENTS_QUERY
from turnstone.dialects.llama_stack.turns.replies import StepReply
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.dialects.llama_stack.usage_requests import QUERY as USAGE_QUERY
from turnstone.dialects.llama_stack.webhooks import QUERY as DELIVERIES_QUERY
from turnstone.dialects.openai.chat.stored_completions import LIST_QUERY as COMPLETIONS_QUERY
from turnstone.dialects.openai.chat.stored_completions import MESSAGES_QUERY
from turnstone.dialects.openai.files import LIST_QUERY as FILES_QUERY
from turnstone.dialects.openai.vector_stores.entries import FILES_QUERY as STORE_FILES_QUERY
from turnstone.dialects.openai.vector_stores.entries import STORES_QUERY
from turnstone.domain import errors
from turnstone.domain.registry.registry import McpEndpoint
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.events import ImageDelta, Numbered, StepDetailed, StepProgressed, TurnEvent, TurnFailed
from turnstone.domain.turns.turns import (
    Attachment,
    Failure,
    MemoryRetrievalStep,
    SafetyViolation,
    ShieldCallStep,
    Step,
    ToolExecutionStep,
    Turn,
    TurnStatus,
    silent_output,
)
from turnstone.domain.values.content import Image, ImageItem, TextItem, Url
from turnstone.domain.values.frozen import Frozen
from turnstone.edge.declared_routes import declared_routes
from turnstone.http.document.openapi import BEARER, SIGV4, StreamedEvent, answers_of, openapi_document
from turnstone.http.document.wire_schemas import build_wire_schemas
from turnstone.http.errors import FAILURE_STATUS, STATUS, error_reply, failure_reply
from turnstone.http.replies import TurnReply
from turnstone.http.request import InvalidBody
from turnstone.http.route import RENAMED, FileBytes, Route
from turnstone.settings.config import Settings

SESSION = "/v1/agents/{agent_id}/session/{session_id}"
TURN = SESSION + "/turn/{turn_id}"
WITH_BODY = [route for route in ROUTES if route.body]
WITH_JSON = [route for route in WITH_BODY if not route.file]


def body_validator(route: Route) -> jsonschema_rs.Draft202012Validator:
    """Return the validator of bodies. There are tens of thousands of them, and it takes a sixtieth of the time."""
    ((kind, content),) = operation(route)["requestBody"]["content"].items()
    assert kind == ("multipart/form-data" if route.file else "application/json")
    within = {**content["schema"], "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(within, validate_formats=True)


def operation(route: Route, document: Mapping[str, Any] = CLOSED) -> dict[str, Any]:
    return document["paths"][route.path][route.method.lower()]


def resolved(document: Mapping[str, Any], part: Mapping[str, Any]) -> Any:
    """Return the part, or the target of its reference, which has to exist."""
    if "$ref" not in part:
        return part
    found: Any = document
    for name in part["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return found


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        if "mapping" in part.get("discriminator", {}):
            yield from part["discriminator"]["mapping"].values()
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from references(inner)


def bare(part: Any) -> Any:
    """Return the part of the document without its texts for people."""
    if isinstance(part, dict):
        return {name: bare(inner) for name, inner in part.items() if name not in ("description", "examples", "example")}
    return [bare(inner) for inner in part] if isinstance(part, list) else part


def guarded(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the operations that require authentication."""
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert [each["operationId"] for each in operations if each.get("security") == []] == [
        "health_alpha",
        "letta_letta_health",
        "health",
    ]
    return [operation for operation in operations if "security" not in operation]


def check_answer(route: Route, answer: Answered, document: Mapping[str, Any] = CLOSED) -> None:
    """Check the status, type, headers and body of this answer against the document."""
    response = resolved(document, operation(route, document)["responses"][str(answer.status)])
    if answer.status == 204:
        assert (answer.body, "content" in response, "content-type" in answer.headers) == (b"", False, False)
        return
    kind = answer.headers["content-type"].partition(";")[0]
    if set(response["content"]) == {"*/*"}:
        return
    schema = response["content"][kind]["schema"]
    own = {name for name in answer.headers if name.startswith("x-") or name == "retry-after"}
    assert own <= set(response.get("headers", {}))
    for name in own:
        validator(response["headers"][name]["schema"]).validate(answer.headers[name])
    texts = answer.body.decode().split("\n\n")[:-1] if kind == "text/event-stream" else [answer.body.decode()]
    for text in texts:
        data = re.sub(r"^(id: \d+\n|event: [\w.]+\n)?data: ", "", text)
        assert data != "[DONE]" or text is texts[-1]
        if data != "[DONE]":
            validator(schema).validate(strict_json(data))


class CheckedClient:
    """Sends requests to a served app by route, checks each answer against the document and records both."""

    def __init__(self, serving: Served) -> None:
        self._client = serving.client
        self.ids: dict[str, str] = {}
        self.seen: set[tuple[str, str, int, str]] = set()

    def fetch(self, method: str, path: str, body: Any = None, *, query: str = "", **headers: str) -> Answered:
        (route,) = [route for route in ROUTES if (route.method, route.path) == (method, path)]
        sent = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
        written, own = (body, ()) if isinstance(body, bytes) else encoded(body)
        parts = () if body is None else (written,)
        answer = self._client.send(Raw(method, (path.format_map(self.ids) + query).encode(), parts, (*own, *sent)))
        check_answer(route, answer)
        if answer.status == 200 and route.body and body is not None:
            body_validator(route).validate(body)
        self.seen.add((method, path, answer.status, answer.headers.get("content-type", "").partition(";")[0]))
        return answer

    def open_session(self, agent: Any) -> None:
        self.ids["agent_id"] = self.fetch("POST", "/v1/agents", {"agent_config": agent}).json()["agent_id"]
        opened = self.fetch("POST", "/v1/agents/{agent_id}/session", {"session_name": "first"}).json()
        self.ids["session_id"] = opened["session_id"]

    def send_turn(self, words: str, *, stream: bool = False) -> Answered:
        body = {"messages": [{"role": "user", "content": words}], "stream": stream}
        return self.fetch("POST", SESSION + "/turn", body)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedClient]:
    with served(tmp_path_factory.mktemp("openapi"), max_body_bytes=20_000) as serving:
        checked = CheckedClient(serving)
        checked.open_session(FULL_AGENT)
        yield checked


@pytest.mark.parametrize("name", rest_at_night(("open", "signed"), always=("open",)))
def test_the_document_is_valid_openapi(name: str) -> None:
    document = DOCUMENT if name == "open" else SIGNED
    OpenAPIV31SpecValidator(document).validate()
    for schema in document["components"]["schemas"].values():
        OAS31Validator.check_schema(schema)


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    declared = {(path, route.method.lower()) for route in ROUTES for path in route.paths}
    documented = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]
    assert declared == set(documented)
    assert sorted(documented, key=lambda entry: (entry[0], "get post put patch delete".index(entry[1]))) == documented
    assert {route.path for route in SERVED} - {route.path for route in ROUTES} == {"/", "/v1/docs", "/v1/openapi.json"}


OF_ALPHA = ("/agents/", "/memory/", "/memory-banks/")


def test_an_alias_is_documented_as_its_path() -> None:
    aliases = [(route, alias) for route in ROUTES for alias in route.paths[1:]]
    assert {alias.replace("/v1alpha/", "/v1/") for _, alias in aliases} == {
        route.path.replace("/v1/openai/v1/", "/v1/")
        for route in ROUTES
        if route.path.startswith(("/v1/agents", "/v1/openai/v1/")) and not route.path.startswith("/v1/openai/v1/models")
    } | {f"/alpha{route.path}" for route in ROUTES if route.path.startswith(OF_ALPHA)} | {
        "/alpha/health",
        "/v1/memory/insert",
        "/v1/memory/query",
        *(RENAMED[route.path] for route in ROUTES if route.path in RENAMED),
    }
    for route, alias in aliases:
        documented = DOCUMENT["paths"][alias][route.method.lower()]
        own = DOCUMENT["paths"][route.path][route.method.lower()]
        assert documented == {
            **own,
            "operationId": own["operationId"] + alias[: alias.index("/", 1)].replace("/", "_"),
            "x-same-as": own["operationId"],
        }


UPLOADS = "/v1/openai/v1/uploads"
STORES = "/v1/openai/v1/vector_stores"
CREATING_FILES = ("/v1/openai/v1/files", UPLOADS, f"{UPLOADS}/{{upload_id}}/parts", STORES)
CREATING_FILES += ("/letta/v1/sources/{source_id}/upload",)
CREATING_FILES += (f"{STORES}/{{vector_store_id}}/files", f"{STORES}/{{vector_store_id}}/file_batches")

RESPONSES = "/v1/openai/v1/responses"
CONVERSATIONS = "/v1/openai/v1/conversations"
CONVERSATION_ITEMS = f"{CONVERSATIONS}/{{conversation_id}}/items"
RESPONSES_QUERY = ("after", "limit", "order", "model")
READ_QUERY = ("stream", "starting_after", "include_obfuscation", "include", "include[]")
ITEMS_QUERY = ("after", "before", "limit", "order", "include", "include[]")
READERS = {
    "agent_in": OF_AGENT,
    "agents_query": AGENTS_QUERY,
    "blocks_query": BLOCKS_QUERY,
    "tags_query": TAGS_QUERY,
    "tools_query": TOOLS_QUERY,
    "messages_query": LETTA_MESSAGES_QUERY,
    "part_of": PART_QUERY,
    "passages_query": PASSAGES_QUERY,
    "refuse_initial_messages": RESET_QUERY,
    "sources_query": SOURCES_QUERY,
    "source_files_query": SOURCE_FILES_QUERY,
    "active_jobs_query": ACTIVE_JOBS_QUERY,
    " jobs_query": JOBS_QUERY,
    "keeps_messages": EXPORT_QUERY,
    "runs_limit": RUNS_QUERY,
    "run_rows_query": RUN_MESSAGES_QUERY,
    "bank_in_query": ("memory_bank_id",),
    "completions_in_query": COMPLETIONS_QUERY,
    "conversation_page_in": ("after", "limit", "order"),
    "deliveries_in_query": DELIVERIES_QUERY,
    "documents_in_query": DOCUMENTS_QUERY,
    "files_in_query": FILES_QUERY,
    "files_in_store_query": STORE_FILES_QUERY,
    "items_in_query": ITEMS_QUERY,
    "include_in": ("include", "include[]"),
    "stream_in_query": READ_QUERY,
    "responses_in_query": RESPONSES_QUERY,
    "stores_in_query": STORES_QUERY,
    "usage_in_query": USAGE_QUERY,
}


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_every_parameter_is_declared(route: Route) -> None:
    declared = [resolved(DOCUMENT, parameter) for parameter in operation(route).get("parameters", ())]
    names = {location: [p["name"] for p in declared if p["in"] == location] for location in ("path", "query", "header")}
    module = sys.modules[route.endpoint.__module__]
    source = inspect.getsource(module)
    read = re.findall(r"""\bquery(?:\.get\(|\[)"(\w+)\"""", source)
    read += [getattr(module, name) for name in re.findall(r"\bquery\.get\(([A-Z]+)", source)]
    if "list_query(" in source:
        read += [*LIST_QUERY, *(["name"] if "by_name=True" in source else [])]
    if "named_in_query(request.query, *QUERY)" in source:
        read += module.QUERY
    if "messages_in(wire, request.query)" in source:
        read += MESSAGES_QUERY
    if "last_event_received(" in source:
        read += EVENTS_QUERY
    if "mcp_endpoint_in(" in source:
        read.append("mcp_endpoint[uri]")
    for reader, fields in READERS.items():
        read += fields if f"{reader}(" in source else ()
    assert names["path"] == re.findall(r"{(\w+)}", route.path)
    assert all(parameter["required"] for parameter in declared if parameter["in"] == "path")
    assert set(names["query"]) == set(read)
    kept = ["Idempotency-Key"] if route.method == "POST" and route.stores else []
    assert names["header"] == [*kept, *(["Prefer"] if "prefers_async(" in source else [])]
    reads_or_deletes = route.method == "POST" and route.path.endswith(("/get", "/delete", "/add-base-tools"))
    stores_nothing = ("/v1/inference/", "/v1/openai/", "/v1/tool-runtime/invoke", "/letta/v1/tools/run")
    reads_or_deletes |= route.method == "POST" and route.path.endswith(("/query", "/unregister"))
    is_creating = route.method == "POST" and route.path in (
        *CREATING_FILES,
        RESPONSES,
        f"{RESPONSES}/{{response_id}}/cancel",
        CONVERSATIONS,
        CONVERSATION_ITEMS,
    )
    assert route.stores == (is_creating or (not route.path.startswith(stores_nothing) and not reads_or_deletes))


@pytest.mark.parametrize("route", WITH_BODY, ids=named)
def test_the_body_in_the_document_is_the_one_that_is_parsed(route: Route) -> None:
    module = sys.modules[route.endpoint.__module__]
    (name,) = [ref.rpartition("/")[2] for ref in references(operation(route)["requestBody"])]
    assert [name] == re.findall(r"(?:parse\(request|checked\(.+), (\w+)\)", inspect.getsource(module))


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_every_operation_is_distinct_and_described(route: Route) -> None:
    assert operation(route)["operationId"] == route.operation_id
    assert operation(route)["summary"].strip()
    assert operation(route)["tags"] == [route.endpoint.__module__.split(".")[1]]
    assert operation(route)["tags"][0] in [tag["name"] for tag in DOCUMENT["tags"]]


@pytest.mark.parametrize("document", [DOCUMENT, SIGNED], ids=["open", "signed"])
def test_every_reference_resolves_and_no_part_is_left_over(document: dict[str, Any]) -> None:
    there = {
        f"#/components/{kind}/{name}"
        for kind, parts in document["components"].items()
        for name in parts
        if kind != "securitySchemes"
    }
    assert set(references(document)) == there


def test_a_model_has_two_schemas_only_where_it_is_read_and_written_differently() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert list(schemas) == sorted(schemas)
    twice = {name.removesuffix("-Input") for name in schemas if name.endswith("-Input")}
    assert twice == {name.removesuffix("-Output") for name in schemas if name.endswith("-Output")}
    assert not [name for name in twice if schemas[f"{name}-Input"] == schemas[f"{name}-Output"]]
    assert not twice & set(schemas)


def test_the_meaning_of_null_is_described() -> None:
    fields = DOCUMENT["components"]["schemas"]["AgentConfig-Input"]["properties"]
    as_text = {"type": "string", "pattern": "^([1-9][0-9]{0,1}|100)$"}
    count = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 100}, as_text]}
    assert bare(fields["max_infer_iters"]) == {"anyOf": [count, {"type": "null"}], "default": 10}


def test_the_bound_of_the_server_is_in_the_document_for_requests_and_not_for_answers() -> None:
    assert openapi_document(ROUTES, max_infer_iters=Settings().max_infer_iters) == DOCUMENT
    schemas = openapi_document(ROUTES, max_infer_iters=2_345)["components"]["schemas"]
    read = {"AgentConfig-Input", "AgentConfig2024", "CreateTurn"}
    for name in read:
        choices = schemas[name]["properties"]["max_infer_iters"]["anyOf"]
        whole, text, *_ = choices[0].get("anyOf", choices)
        assert whole["maximum"] == 2_345
        taken = [number for number in range(3_000) if re.search(text["pattern"], str(number))]
        assert taken == list(range(1, 2_346))
    assert bare(schemas["AgentConfig-Output"]["properties"]["max_infer_iters"]) == {"minimum": 1, "type": "integer"}


class Described(Frozen):
    """A description,
    in one line.

    Attributes:
        inside: not part of the description.
    """

    inside: int


def test_of_a_docstring_only_the_first_paragraph_is_the_description() -> None:
    assert (
        build_wire_schemas(read=[], written=[Described]).named["Described"]["description"]
        == "A description, in one line."
    )


def test_answers_are_promised_with_all_their_fields() -> None:
    promised: set[str] = set()
    found = {ref for item in DOCUMENT["paths"].values() for o in item.values() for ref in references(o["responses"])}
    while found - promised:
        promised |= found
        found = {inner for ref in promised for inner in references(resolved(DOCUMENT, {"$ref": ref}))}
    schemas = [resolved(DOCUMENT, {"$ref": ref}) for ref in promised if ref.startswith("#/components/schemas/")]
    assert len(schemas) > 30
    kept = [(set(s["properties"]), set(s.get("required", ()))) for s in schemas if s.get("type") == "object"]
    left_out = [properties - required for properties, required in kept if properties != required]
    # of a model with fallbacks; of a part of a call; of the fields that a chunk adds; of an answer with calls
    not_always = [{"answered_by"}, {"arguments", "name", "tool_call_id"}, {"content", "role", "tool_calls"}]
    not_always += [{"conversation"}, {"conversation"}]  # of a response without one, alone and in a list
    not_always += [{"failure"}, {"failure"}, {"input_schema", "output_schema"}]  # of turns, of both times; of a tool
    # of sessions, of September 2024 and today's
    not_always += [{"lost_turns", "memory_bank"}, {"lost_turns", "vector_db_id"}]
    # of an agent that has no memory and defines no tools itself; of an answer without calls; of an agent of 2024
    not_always += [{"memory_blocks", "tools"}, {"tool_calls"}]
    assert sorted(left_out, key=sorted) == not_always
    answers = json.dumps([bare(schema) for schema in schemas])
    for value in ('"default_child"', '"default": {}', '"default"]', '"const": "default"', '"default": "#/components'):
        answers = answers.replace(value, "")
    assert "default" not in answers


def test_signed_requests_are_a_security_scheme_and_refusals_are_documented() -> None:
    assert SIGNED["components"]["securitySchemes"] == SIGV4
    assert SIGNED["security"] == [{"sigv4": []}]
    assert "security" not in DOCUMENT
    assert all({"401", "403"} <= set(operation["responses"]) for operation in guarded(SIGNED))


def test_tokens_are_a_security_scheme_that_refusals_name_and_whose_lookup_may_fail() -> None:
    document = openapi_document(ROUTES, BEARER)
    assert (document["components"]["securitySchemes"], document["security"]) == (BEARER, [{"bearer": []}])
    responses = document["components"]["responses"]
    challenge = responses["Unauthenticated"]["headers"]["www-authenticate"]
    assert (challenge["required"], challenge["schema"]) == (True, {"const": "Bearer"})
    assert all({"401", "503"} <= set(operation["responses"]) for operation in guarded(document))
    assert "www-authenticate" not in SIGNED["components"]["responses"]["Unauthenticated"]["headers"]


def test_a_created_object_is_linked_to_its_operations() -> None:
    links = {
        (operation["operationId"], name): link["parameters"]
        for item in DOCUMENT["paths"].values()
        for operation in item.values()
        for name, link in operation["responses"].get("200", {}).get("links", {}).items()
        if "x-same-as" not in operation
    }
    operations = {
        operation["operationId"]: path for path, item in DOCUMENT["paths"].items() for operation in item.values()
    }
    for (_, name), parameters in links.items():
        assert list(parameters) == re.findall(r"{(\w+)}", operations[name])
    assert links["create_agent", "create_session"] == {"agent_id": "$response.body#/agent_id"}
    assert links["create_turn", "resume_turn"] == {
        "agent_id": "$request.path.agent_id",
        "session_id": "$request.path.session_id",
        "turn_id": "$response.body#/turn_id",
    }
    assert links["register_model", "unregister_model"] == {"model_id": "$request.body#/model_id"}
    makers = {
        "create_agent",
        "create_session",
        "create_turn",
        "register_model",
        "register_shield",
        "register_toolgroup",
        "register_vector_db",
        "register_memory_bank",
        "add_store_file",
        "create_webhook",
    }
    assert {maker for maker, _ in links} == makers


@pytest.mark.parametrize(
    ("path", "value"),
    [("stream", "yes"), ("stream", 1), ("max_infer_iters", "three"), ("max_infer_iters", True)],
    ids=["a word for a flag", "a number for a flag", "a word for a number", "a flag for a number"],
)
def test_a_number_or_a_flag_of_the_document_is_not_guessed(checked: CheckedClient, path: str, value: Any) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], path: value}
    assert checked.fetch("POST", SESSION + "/turn", body).status == 400


def test_numbers_and_flags_may_come_as_texts_and_are_returned_typed(checked: CheckedClient) -> None:
    sampling = {"strategy": {"type": "top_p", "temperature": "0.5", "top_p": "0.9"}, "max_tokens": "512"}
    config = {"model": "offline", "instructions": "", "sampling_params": sampling, "max_infer_iters": "3"}
    checked.fetch("POST", "/v1/agents", {"agent_config": {**config, "enable_session_persistence": "true"}})
    read = checked.fetch("GET", "/v1/agents").json()["data"][-1]["agent_config"]
    assert read["sampling_params"]["strategy"] == {"type": "top_p", "temperature": 0.5, "top_p": 0.9}
    assert (read["sampling_params"]["max_tokens"], read["max_infer_iters"]) == (512, 3)
    assert read["enable_session_persistence"] is True


@pytest.mark.parametrize("name", ["start_index", "limit", "cursor", "name"])
def test_a_list_is_queried_with_one_value_of_a_kind(checked: CheckedClient, name: str) -> None:
    value = "01a20052-8460-7e2e-9745-8ed8e32b618f" if name == "cursor" else "1"
    assert checked.fetch("GET", "/v1/agents", query=f"?{name}={value}").status == 200
    assert checked.fetch("GET", "/v1/agents", query=f"?{name}={value}&{name}={value}").status == 400


def test_every_answer_of_a_served_app_matches_the_document(checked: CheckedClient) -> None:
    lists = "/v1/agents", "/v1/agents/{agent_id}/sessions"
    for path in ("/v1/health", "/v1/version", "/v1/models", "/v1/tools", "/v1/agents/{agent_id}", *lists):
        assert checked.fetch("GET", path).status == 200
    check_registries(checked)
    check_vector_dbs(checked)
    check_memory_banks(checked)
    check_models(checked)
    check_responses(checked)
    check_conversations(checked)
    check_stored(checked)
    check_files(checked)
    check_vector_stores(checked)
    check_webhooks(checked)
    check_letta(checked)
    for words in ("What is current_time()?", "hello", "please get_weather(city=Oslo)"):
        turn = checked.send_turn(words).json()
        checked.ids |= {"turn_id": turn["turn_id"]}
        for step in turn["steps"]:
            checked.ids |= {"step_id": step["step_id"]}
            assert checked.fetch("GET", TURN + "/step/{step_id}").json() == {"step": step}
        headers = checked.fetch("GET", TURN).headers
        assert headers["x-turn-status"] in ("completed", "awaiting_input")
        assert int(headers["x-turn-tokens"]) > 0
    for stream in (False, True):
        (call,) = checked.fetch("GET", TURN).json()["output_message"]["tool_calls"]
        response = {"call_id": call["call_id"], "tool_name": "get_weather", "content": "sun"}
        body = {"tool_responses": [response], "stream": stream}
        assert checked.fetch("POST", TURN + "/resume", body).status == 200
        streamed = checked.send_turn("please get_weather(city=Oslo)", stream=True)
        checked.ids["turn_id"] = str(re.findall(r'"turn_id":"([^"]+)"', streamed.body.decode())[0])
    assert checked.fetch("GET", TURN + "/events", query="?after=2").status == 200
    assert checked.fetch("POST", TURN + "/cancel").headers["x-turn-status"] == "cancelled"
    assert len(checked.fetch("GET", SESSION).json()["turns"]) == 5
    assert checked.fetch("GET", SESSION, query=f"?turn_ids={checked.ids['turn_id']}").status == 200
    for requested in ([checked.ids["turn_id"]], {"turn_ids": [checked.ids["turn_id"]]}):
        assert len(checked.fetch("GET", SESSION, requested).json()["turns"]) == 1
    assert checked.fetch("GET", "/v1/tools", query="?toolgroup_id=builtin::clock").status == 200
    assert len(checked.fetch("GET", SESSION + "/context").json()["turns"]) > 1
    spent = checked.fetch("GET", "/v1/usage", query=f"?agent_id={checked.ids['agent_id']}").json()
    assert spent["total"]["inferences"] > len(spent["by_session"]) == spent["sessions"] == 1
    check_as_in_2024(checked)
    agent_id = checked.ids["agent_id"]
    checked.open_session(FULL_AGENT)
    assert checked.fetch("DELETE", SESSION).status == checked.fetch("DELETE", "/v1/agents/{agent_id}").status == 204
    checked.ids["agent_id"] = agent_id
    answered = {(method, path, kind) for method, path, status, kind in checked.seen if status in (200, 204)}
    assert answered == {
        (route.method, route.path, kind)
        for route in ROUTES
        for kind in operation(route)["responses"].get("200", {"content": [""]})["content"]
        if route.reply is not FileBytes  # its kinds are those of the files
    }


NAMES = {"model_id": "meta/llama", "toolgroup_id": "mcp::a", "identifier": "guard/8b", "vector_db_id": "birds"}
NAMES |= {"conversation_id": "unknown", "item_id": "unknown"}
NAMES |= {"response_id": "unknown", "completion_id": "unknown", "memory_bank_id": "shore", "document_id": "unknown"}
NAMES |= {"file_id": "unknown", "upload_id": "unknown", "vector_store_id": "unknown", "batch_id": "unknown"}
NAMES |= {"memory_id": "unknown", "block_id": "unknown", "run_id": "unknown", "message_id": "unknown"}
NAMES |= {"source_id": "unknown", "source_name": "unknown", "job_id": "unknown"}
NAMES |= letta_bodies.LETTA_TOOL
NAMES |= {"webhook_id": "unknown", "delivery_id": "unknown", "block_label": "unknown"}
NAMES |= {"tool_name": "current_time", "provider_id": "default", "attachment_id": "0" * 32}


def check_as_in_2024(checked: CheckedClient) -> None:
    for valid in BODIES["POST", "/agents/create"].valid:
        agent = checked.fetch("POST", "/agents/create", valid).json()
    session = {**agent, **checked.fetch("POST", "/agents/session/create", {**agent, "session_name": "s"}).json()}
    for stream in (True, False):
        body = {"messages": [{"role": "user", "content": "please add(a=1)"}], "stream": stream}
        checked.fetch("POST", "/agents/turn/create", {**session, **body})
    (_, turn) = checked.fetch("POST", "/agents/session/get", session).json()["turns"]
    named = {**agent, "turn_id": turn["turn_id"]}
    assert checked.fetch("POST", "/agents/turn/get", named).json() == turn
    assert checked.fetch("GET", "/agents/turn/get", query="?" + urlencode(named)).json() == turn
    named |= {"step_id": turn["steps"][0]["step_id"]}
    assert checked.fetch("POST", "/agents/step/get", named).json() == {"step": turn["steps"][0]}
    assert checked.fetch("GET", "/agents/step/get", query="?" + urlencode(named)).json() == {"step": turn["steps"][0]}
    assert [checked.fetch("POST", "/agents/session/delete", session).status for _ in range(2)] == [200, 404]
    assert [checked.fetch("POST", "/agents/delete", agent).status for _ in range(2)] == [200, 404]


def check_models(checked: CheckedClient) -> None:
    for path, streams in (
        ("/v1/inference/chat-completion", (False, True)),
        ("/v1/openai/v1/chat/completions", (False, True)),
        ("/v1/inference/completion", (False, True)),
        ("/v1/openai/v1/completions", (False, True)),
        ("/v1/inference/embeddings", ()),
        ("/v1/openai/v1/embeddings", ()),
    ):
        for valid in BODIES["POST", path].valid:
            assert checked.fetch("POST", path, valid).status == 200
            assert checked.fetch("POST", path, {}).status == 400
            for stream in streams:
                options = {} if stream else {"stream_options": None}
                assert checked.fetch("POST", path, {**valid, **options, "stream": stream}).status == 200


def check_stored(checked: CheckedClient) -> None:
    (whole, *_), path = BODIES["POST", STORED].valid, STORED + "/{completion_id}"
    answer = checked.fetch("POST", STORED, {**whole, "store": True, "stream": False, "stream_options": None})
    checked.ids["completion_id"] = answer.json()["id"]
    assert checked.fetch("GET", STORED, query="?metadata[topic]=sums&limit=1").json()["data"]
    assert checked.fetch("GET", STORED, query="?limit=0").status == 400
    for url in (path, path + "/messages"):
        assert checked.fetch("GET", url).status == 200
    assert checked.fetch("GET", path + "/messages", query="?order=up").status == 400
    assert [checked.fetch("POST", path, body).status for body in ({"metadata": None}, {})] == [200, 400]
    assert [checked.fetch("DELETE", path).status for _ in range(2)] == [200, 404]


def check_responses(checked: CheckedClient) -> None:
    (whole, full), path = BODIES["POST", RESPONSES].valid, RESPONSES + "/{response_id}"
    assert checked.fetch("POST", RESPONSES, full).status == 200
    assert checked.fetch("POST", RESPONSES, {**full, "stream": False, "stream_options": None}).status == 200
    checked.ids["response_id"] = checked.fetch("POST", RESPONSES, whole).json()["id"]
    assert checked.fetch("POST", RESPONSES, {}).status == 400
    assert checked.fetch("GET", path, query="?stream=true&starting_after=1").status == 200
    assert checked.fetch("GET", path, query="?starting_after=1").status == 400
    assert checked.fetch("POST", path + "/cancel").status == 400
    queued = checked.fetch("POST", RESPONSES, {**whole, "background": True}).json()
    assert queued["status"] == "queued"
    checked.ids["response_id"], other = queued["id"], checked.ids["response_id"]
    assert checked.fetch("POST", path + "/cancel").status == 200
    checked.ids["response_id"] = other
    assert checked.fetch("GET", RESPONSES, query="?limit=1").json()["has_more"] is True
    assert checked.fetch("GET", RESPONSES, query="?limit=0").status == 400
    for url in (path, path + "/input_items"):
        assert checked.fetch("GET", url).status == 200
    assert checked.fetch("GET", path + "/input_items", query="?order=up").status == 400
    assert [checked.fetch("DELETE", path).status for _ in range(2)] == [200, 404]


def check_conversations(checked: CheckedClient) -> None:
    (*_, whole), path = BODIES["POST", CONVERSATIONS].valid, CONVERSATIONS + "/{conversation_id}"
    checked.ids["conversation_id"] = checked.fetch("POST", CONVERSATIONS, whole).json()["id"]
    added = checked.fetch("POST", CONVERSATION_ITEMS, BODIES["POST", CONVERSATION_ITEMS].valid[0]).json()
    checked.ids["item_id"] = added["first_id"]
    for url in (path, CONVERSATION_ITEMS, CONVERSATION_ITEMS + "/{item_id}"):
        assert checked.fetch("GET", url).status == 200
    assert checked.fetch("GET", CONVERSATION_ITEMS, query="?order=up").status == 400
    assert [checked.fetch("POST", path, body).status for body in ({"metadata": None}, {})] == [200, 400]
    for url in (CONVERSATION_ITEMS + "/{item_id}", path):
        assert [checked.fetch("DELETE", url).status for _ in range(2)] == [200, 404]


def check_letta(checked: CheckedClient) -> None:
    before, below = dict(checked.ids), letta_bodies.LETTA
    checked.ids["block_label"] = "pet"
    checked.ids["agent_id"] = checked.fetch("POST", letta_bodies.AGENTS, letta_bodies.CREATE).json()["id"]
    checked.ids |= letta_bodies.LETTA_TOOL
    checked.ids["block_id"] = checked.fetch("POST", letta_bodies.ALL_BLOCKS, {"label": "own", "value": ""}).json()["id"]
    source = checked.fetch("POST", letta_bodies.SOURCES, letta_bodies.NEW_SOURCE).json()
    checked.ids |= {"source_id": source["id"], "source_name": source["name"]}
    checked.ids["job_id"] = checked.fetch("POST", letta_bodies.UPLOAD, letta_bodies.SENT_FILE).json()["id"]
    checked.ids["file_id"] = checked.fetch("GET", f"{letta_bodies.SOURCE}/files").json()[0]["id"]
    sent = checked.fetch("POST", letta_bodies.MESSAGES, letta_bodies.SENT).json()
    checked.ids["message_id"] = sent["messages"][0]["id"]
    checked.ids["tool_id"] = checked.fetch("POST", letta_bodies.TOOLS, letta_bodies.NEW_TOOL).json()["id"]
    made = {("POST", letta_bodies.AGENTS), ("POST", letta_bodies.TOOLS)}
    for method, path in sorted(letta_bodies.GRADES.keys() - made, reverse=True):
        body = letta_bodies.GRADES[method, path][0][0]
        assert checked.fetch(method, path, body).status == 200, path
    assert checked.fetch("PATCH", letta_bodies.RESET).status == 200
    run = checked.fetch("POST", f"{letta_bodies.MESSAGES}/async", letta_bodies.SENT).json()
    checked.ids["run_id"] = run["id"]
    for method, path in (*letta_bodies.LISTS, *letta_bodies.READ):
        if method != "DELETE" and path != letta_bodies.RESET:  # which would take the run away
            assert checked.fetch(method, path).status == 200, path
    for method, path in letta_bodies.OF_AGENT:
        expected = 204 if (method, path) in letta_bodies.WITHOUT_ANSWER else 200
        assert checked.fetch(method, path, query=f"?agent_id={checked.ids['agent_id']}").status == expected, path
        assert checked.fetch(method, path).status == 422, path
    checked.ids["memory_id"] = checked.fetch("GET", letta_bodies.PASSAGES).json()[0]["id"]
    for path in (
        *(letta_bodies.BLOCK, letta_bodies.OWN_BLOCK, letta_bodies.PASSAGE, letta_bodies.RUN, letta_bodies.AGENT),
        *(letta_bodies.JOB, f"{letta_bodies.SOURCE}/{{file_id}}", letta_bodies.SOURCE),
        letta_bodies.OWN_TOOL,
    ):
        done = 204 if ("DELETE", path) in letta_bodies.WITHOUT_ANSWER else 200
        assert [checked.fetch("DELETE", path).status for _ in range(2)] == [done, 404], path
    assert checked.fetch("POST", letta_bodies.AGENTS, {}).status == 400
    assert checked.fetch("GET", f"{below}/agents", query="?limit=none").status == 422
    checked.ids |= before


def check_vector_dbs(checked: CheckedClient) -> None:
    path = "/v1/vector-dbs/{vector_db_id}"
    checked.ids |= {"vector_db_id": "birds"}
    body = {"vector_db_id": "birds", "embedding_model": "offline"}
    assert checked.fetch("POST", "/v1/vector-dbs", body).status == 200
    assert checked.fetch("GET", "/v1/vector-dbs").status == checked.fetch("GET", path).status == 200
    inserted = {"vector_db_id": "birds", "chunks": [{"content": "a heron", "metadata": {"page": 1}}]}
    assert checked.fetch("POST", "/v1/vector-io/insert", inserted).status == 200
    query = {"vector_db_id": "birds", "query": "heron"}
    assert len(checked.fetch("POST", "/v1/vector-io/query", query).json()["chunks"]) == 1
    assert [checked.fetch("DELETE", path).status for _ in range(2)] == [200, 404]
    assert checked.fetch("POST", "/v1/vector-io/query", query).status == 404


def check_memory_banks(checked: CheckedClient) -> None:
    path = "/v1/memory-banks/{memory_bank_id}"
    checked.ids |= {"memory_bank_id": "shore", "document_id": "a/b"}
    body = {"memory_bank_id": "shore", "params": {"memory_bank_type": "keyword"}, "metadata": {"a": [1]}}
    document = {"document_id": "a/b", "content": "a heron", "metadata": {"page": 1}}
    query = {"query": "heron"}
    for registers, inserts, queries, in_bank in (
        ("/v1/memory-banks", path + "/documents", path + "/query", {}),
        ("/memory-banks/register", "/memory/insert", "/memory/query", {"bank_id": "shore"}),
    ):
        assert checked.fetch("POST", registers, body).status == 200
        assert checked.fetch("POST", inserts, {"documents": [document], **in_bank}).status == 200
        assert len(checked.fetch("POST", queries, {**query, **in_bank}).json()["chunks"]) == 1
    for read in (
        "/v1/memory-banks",
        path,
        path + "/documents",
        path + "/documents/{document_id}",
        "/memory-banks/list",
    ):
        assert checked.fetch("GET", read).status == 200
    assert checked.fetch("GET", "/memory-banks/get", query="?memory_bank_id=shore").status == 200
    into_rag = {"vector_db_id": "shore", "documents": [document]}
    assert checked.fetch("POST", "/v1/tool-runtime/rag-tool/insert", into_rag).status == 200
    about_herons = {"vector_db_ids": ["shore"], "content": "heron"}
    assert checked.fetch("POST", "/v1/tool-runtime/rag-tool/query", about_herons).status == 200
    assert [checked.fetch("DELETE", path + "/documents/{document_id}").status for _ in range(2)] == [200, 404]
    assert checked.fetch("DELETE", path).status == 200
    assert checked.fetch("POST", "/memory-banks/unregister", {"memory_bank_id": "shore"}).status == 404
    assert checked.fetch("POST", "/memory-banks/register", body).status == 200
    assert checked.fetch("POST", "/memory-banks/unregister", {"memory_bank_id": "shore"}).status == 200


def check_files(checked: CheckedClient) -> None:
    files, uploads = "/v1/openai/v1/files", "/v1/openai/v1/uploads"
    file = checked.fetch("POST", files, FormBody(purpose="vision", file="a heron")).json()
    checked.ids |= {"file_id": file["id"]}
    assert checked.fetch("GET", files).json()["data"] == [file]
    assert checked.fetch("GET", f"{files}/{{file_id}}").json() == file
    assert [checked.fetch("DELETE", f"{files}/{{file_id}}").status for _ in range(2)] == [200, 404]
    new = {"bytes": 7, "filename": "a", "mime_type": "text/plain", "purpose": "batch"}
    for ending, body in (("complete", {"part_ids": []}), ("cancel", None)):
        checked.ids["upload_id"] = checked.fetch("POST", uploads, new).json()["id"]
        part = checked.fetch("POST", f"{uploads}/{{upload_id}}/parts", FormBody(data="a heron")).json()
        named = {"part_ids": [part["id"]]} if body else None
        assert checked.fetch("POST", f"{uploads}/{{upload_id}}/{ending}", named).status == 200


def check_vector_stores(checked: CheckedClient) -> None:
    store = f"{STORES}/{{vector_store_id}}"
    file = f"{store}/files/{{file_id}}"
    checked.ids["file_id"] = checked.fetch(
        "POST", "/v1/openai/v1/files", FormBody(purpose="vision", file="a heron")
    ).json()["id"]
    new = {"name": "birds", "embedding_model": "offline", "expires_after": {"anchor": "last_active_at", "days": 1}}
    checked.ids["vector_store_id"] = checked.fetch("POST", STORES, new).json()["id"]
    assert len(checked.fetch("GET", STORES, query="?limit=1").json()["data"]) == 1
    assert checked.fetch("POST", store, {"name": None, "metadata": {"a": "b"}}).json()["metadata"] == {"a": "b"}
    added = checked.fetch("POST", f"{store}/files", {"file_id": checked.ids["file_id"]})
    assert added.json()["id"] == checked.ids["file_id"]
    batch = checked.fetch("POST", f"{store}/file_batches", {"files": [{"file_id": checked.ids["file_id"]}]}).json()
    checked.ids["batch_id"] = batch["id"]
    for path in (store, file, f"{file}/content", f"{store}/files", f"{store}/file_batches/{{batch_id}}"):
        assert checked.fetch("GET", path).status == 200
    assert checked.fetch("GET", f"{store}/file_batches/{{batch_id}}/files").json()["has_more"] is False
    assert checked.fetch("POST", f"{store}/file_batches/{{batch_id}}/cancel").status == 200
    assert checked.fetch("POST", file, {"attributes": {"year": 2026}}).json()["attributes"] == {"year": 2026}
    assert checked.fetch("POST", f"{store}/search", {"query": "heron"}).status == 200
    for path in (file, store):
        assert [checked.fetch("DELETE", path).status for _ in range(2)] == [200, 404]


def check_webhooks(checked: CheckedClient) -> None:
    webhook = "/v1/webhooks/{webhook_id}"
    new = {"url": "https://hooks.invalid/", "event_types": ["turn.completed"], "description": "a heron"}
    made = checked.fetch("POST", "/v1/webhooks", new).json()
    checked.ids["webhook_id"] = made["webhook_id"]
    shown = {name: value for name, value in made.items() if name != "secret"}
    assert checked.fetch("GET", webhook).json() == shown
    assert shown in checked.fetch("GET", "/v1/webhooks").json()["data"]
    rotated = checked.fetch("POST", f"{webhook}/rotate_secret").json()
    assert rotated["secret"] != made["secret"]
    delivery = checked.fetch("POST", f"{webhook}/test").json()
    checked.ids["delivery_id"] = delivery["delivery_id"]
    (listed,) = checked.fetch("GET", f"{webhook}/deliveries", query="?limit=1").json()["data"]
    assert listed["delivery_id"] == delivery["delivery_id"]
    assert checked.fetch("POST", f"{webhook}/deliveries/{{delivery_id}}/resend").json()["status"] == "pending"
    disabled = checked.fetch("POST", webhook, {"status": "disabled"}).json()
    assert (disabled["status"], disabled["disabled_reason"]) == ("disabled", "requested")
    assert [checked.fetch("DELETE", webhook).status for _ in range(2)] == [200, 404]


def check_registries(checked: CheckedClient) -> None:
    checked.ids |= NAMES
    group = {
        "toolgroup_id": "mcp::a",
        "provider_id": "model-context-protocol",
        "mcp_endpoint": {"uri": "https://10.0.0.1/b"},
    }
    registered = {
        "/v1/models/{model_id}": {"model_id": "meta/llama", "metadata": {"a": [1]}},
        "/v1/toolgroups/{toolgroup_id}": group,
        "/v1/shields/{identifier}": {"shield_id": "guard/8b", "provider_id": "pattern", "params": {"words": ["b"]}},
    }
    for path, body in registered.items():
        assert checked.fetch("POST", path.rpartition("/")[0], body).status == 200
        assert checked.fetch("GET", path.rpartition("/")[0]).status == 200
        assert checked.fetch("GET", path).status == 200
        assert checked.fetch("GET", "/v1/openai/v1/models/{model_id}").status == (200 if "model" in path else 404)
        changed = body | {"metadata": {}, "args": {"c": 1}, "params": {"words": ["c"]}}
        assert checked.fetch("POST", path.rpartition("/")[0], changed).status == 409
        assert [checked.fetch("DELETE", path).status for _ in range(2)] == [200, 404]
        if "model" in path:
            assert checked.fetch("POST", "/v1/models", body).status == 200
            deleted = [checked.fetch("DELETE", "/v1/openai/v1/models/{model_id}").status for _ in range(2)]
            assert deleted == [200, 404]
    for path in (
        "/v1/openai/v1/models",
        "/v1/providers",
        "/v1/providers/{provider_id}",
        "/v1/tools/{tool_name}",
        "/v1/tool-runtime/list-tools",
    ):
        assert checked.fetch("GET", path).status == 200
    for kwargs in ({"timezone": "UTC"}, {"timezone": "Nowhere"}):
        assert (
            checked.fetch("POST", "/v1/tool-runtime/invoke", {"tool_name": "current_time", "kwargs": kwargs}).status
            == 200
        )
    checked.fetch("POST", "/v1/shields", registered["/v1/shields/{identifier}"])
    for text in ("a", "b"):
        messages = [{"role": "user", "content": text}]
        body = {"shield_id": "guard/8b", "messages": messages, "params": {}}
        violation = checked.fetch("POST", "/v1/safety/run-shield", body).json()["violation"]
        assert (violation is None) is (text == "a")
    checked.ids["toolgroup_id"] = "builtin::clock"
    assert checked.fetch("DELETE", "/v1/toolgroups/{toolgroup_id}").status == 200


def test_every_refusal_of_a_served_app_matches_the_document(checked: CheckedClient) -> None:
    checked.open_session(FULL_AGENT)
    checked.ids |= NAMES | {"turn_id": checked.send_turn("hello").json()["turn_id"], "step_id": "unknown"}
    response = {"call_id": "a", "tool_name": "add", "content": "3"}
    refused = [
        checked.fetch("POST", "/v1/agents", b"{"),
        checked.fetch("POST", "/v1/agents", {"agent_config": {"model": 1}}),
        checked.fetch("POST", "/v1/agents", {"agent_config": FULL_AGENT | {"tool_choice": "none"}}),
        checked.fetch("GET", "/v1/tools", query="?toolgroup_id=unknown"),
        checked.fetch("POST", TURN + "/resume", {"tool_responses": [response]}),
        checked.fetch("GET", TURN + "/step/{step_id}"),
        checked.fetch("POST", SESSION + "/turn", b" " * 20_001),
        *(checked.fetch(route.method, route.path, {}, origin="http://example.com") for route in ROUTES),
        *(
            checked.fetch(r.method, r.path, {}, x_llamastack_client_version="0.4.0")
            for r in ROUTES
            if r.dialect.checks_client
        ),
    ]
    for name, status in (("one", 200), ("two", 409)):
        body = {"session_name": name}
        assert checked.fetch("POST", "/v1/agents/{agent_id}/session", body, idempotency_key="k").status == status
    checked.ids |= dict.fromkeys(checked.ids, "unknown")
    refused += [checked.fetch("GET", route.path) for route in ROUTES if route.method == "GET" and "{" in route.path]
    assert [answer.status for answer in refused[:7]] == [400, 400, 400, 400, 409, 404, 413]
    assert {answer.status for answer in refused[7:]} == {403, 404, 426}


ERRORS = [
    errors.InvalidRequest("why"),
    errors.InvalidRequest("why", ("messages", 0)),
    errors.Unauthenticated(),
    errors.Forbidden("why"),
    errors.NotFound("turn", "t"),
    errors.AlreadyRegistered("model", "m"),
    errors.LabelTaken("human"),
    errors.ToolNameTaken("roll"),
    errors.UnknownClient("0.4.0"),
    errors.TurnRunning("t"),
    errors.TurnNotAwaiting("t", "completed"),
    errors.IdempotencyMismatch(),
    errors.LeaseLost("t"),
    errors.ContentLost("turn", "t"),
    errors.RecordTooNew("turn", "t", "2"),
    errors.BodyTooLarge(1),
    errors.ModelTimedOut("why"),
    errors.ModelFailed("why"),
    errors.ModelBusy("why", retry_after_s=7),
    errors.ModelNotFound("why"),
    errors.ModelRefused("why"),
    errors.MemoryProviderFailed("p", "why"),
    errors.MemoryProviderMissing("p", "why"),
    errors.MemoryProviderTimedOut("p", "why"),
    errors.ToolgroupUnavailable("mcp::a", "why"),
    errors.CredentialsMissing("mcp::a", "why"),
    errors.CredentialsRefused("mcp::a", "why"),
    errors.Overloaded(1),
    errors.TurnLimitReached(2, 1),
    errors.DayLimitReached(1, timedelta(hours=1)),
    errors.StoreUnavailable("why"),
    errors.IssuerUnavailable("why"),
    InvalidBody([{"loc": (), "msg": "why", "type": "missing"}]),
    ZeroDivisionError("why"),
]


@pytest.mark.parametrize("route", [route for route in ROUTES if TurnReply in answers_of(route)], ids=named)
def test_every_error_has_its_answer_in_the_document(route: Route) -> None:
    assert set(STATUS) - {errors.NotServed} <= {kind for error in ERRORS for kind in type(error).__mro__}
    replies = [failure_reply(Failure(kind=kind, message="why"), route.dialect) for kind in FAILURE_STATUS]
    for reply in [*(error_reply(error, route.dialect) for error in ERRORS), *replies]:
        answer = Answered(reply.status, {"content-type": "application/json", **reply.headers}, reply.body)
        check_answer(route, answer, CLOSED_SIGNED)


def test_a_model_that_does_not_answer_is_in_the_document(tmp_path: Path) -> None:
    with served(tmp_path, model_url="http://127.0.0.1:1/v1") as serving:
        checked = CheckedClient(serving)
        assert checked.fetch("GET", "/v1/models").status == 502
        assert checked.fetch("GET", "/v1/openai/v1/models").status == 502
        checked.ids["model_id"] = "m"
        assert checked.fetch("GET", "/v1/models/{model_id}").status == 502
    for route in ROUTES:
        if route.method == "GET" and route.path.startswith(("/v1/models", "/v1/openai/v1/models")):
            assert {"502", "504"} <= set(operation(route)["responses"])


NOW = datetime(2026, 1, 1, tzinfo=UTC)
IMAGE = Image(url=Url(uri="https://example.com/a.png"))
STEPS: list[Step] = [
    ShieldCallStep(turn_id="t", step_id="s"),
    ShieldCallStep(
        turn_id="t",
        step_id="s",
        started_at=NOW,
        violation=SafetyViolation(violation_level="error", user_message="no", metadata={"why": [1]}),
    ),
    MemoryRetrievalStep(turn_id="t", step_id="s", vector_db_ids="v", inserted_context=(TextItem(text="x"),)),
    ToolExecutionStep(
        turn_id="t",
        step_id="s",
        tool_calls=(ToolCall(call_id="c", tool_name="add", arguments="no JSON"),),
        tool_responses=(ToolResponse(call_id="c", tool_name="add", content=ImageItem(image=IMAGE), metadata={}),),
    ),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.step_type)
def test_steps_that_no_local_server_makes_yet_are_in_the_document(step: Step) -> None:
    named_validator("StepReply").validate(json.loads(StepReply(step=step).model_dump_json()))


def test_a_turn_that_holds_all_it_can_is_in_the_document() -> None:
    attachments = (
        Attachment(content=IMAGE.url or "", mime_type="image/png"),
        Attachment(content=(ImageItem(image=IMAGE), TextItem(text="x")), mime_type="text/plain"),
    )
    turn = Turn(
        turn_id="t",
        session_id="s",
        input_messages=(),
        steps=tuple(STEPS),
        output_message=silent_output(),
        output_attachments=attachments,
        started_at=NOW,
    )
    named_validator("Turn").validate(json.loads(turn.model_dump_json()))


def test_every_event_of_a_stream_is_in_the_document() -> None:
    assert set(get_args(TurnEvent)) - {TurnFailed, StepDetailed} == set(get_args(get_args(StreamedEvent)[0]))
    events: list[TurnEvent] = [
        TurnFailed(turn_id="t", failure=Failure(kind="internal", message="why")),
        StepProgressed(step_type="inference", step_id="s", delta=ImageDelta(image=IMAGE)),
    ]
    for event in events:
        sent = TurnStream().encode(Numbered(event, 1))
        named_validator("TurnStreamChunk").validate(json.loads(sent.removeprefix(b"data: ")))


def test_the_status_header_of_a_turn_is_one_of_its_statuses() -> None:
    schema = DOCUMENT["paths"][TURN]["get"]["responses"]["200"]["headers"]["x-turn-status"]["schema"]
    assert resolved(DOCUMENT, schema)["enum"] == [status.value for status in TurnStatus]


def check_body(route: Route, validator_of_body: jsonschema_rs.Draft202012Validator, body: Any) -> None:
    """Check that document and parser agree. The parser also takes numbers and flags in other forms, if it can."""
    try:
        text = written(body, in_ascii=False).decode()
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return  # not JSON, so outside of any schema
    assert route.body is not None
    is_in_document = validator_of_body.is_valid(value)
    assert is_in_document or not is_taken_exactly(route, text), f"taken, but not in the document: {text}"
    try:
        route.body.model_validate(value)
    except ValidationError as refused:
        is_about_fields = any(problem["type"] not in BEYOND_SCHEMAS for problem in refused.errors())
        assert not (is_in_document and is_about_fields), f"in the document, but refused: {text}"


def is_taken_exactly(route: Route, text: str) -> bool:
    assert route.body is not None
    try:
        route.body.model_validate_json(text, strict=True)
    except ValidationError:
        return False
    return True


# rules that hold between fields, and numbers that JSON allows but no machine
BEYOND_SCHEMAS = {"value_error", "int_parsing_size", "finite_number"}
VALUES = [value for value in JUNK if value != 10**400]
THIRDS = 3
CASES = 20
CASES_AT_NIGHT = 300


@pytest.mark.parametrize("route", WITH_JSON, ids=named)
def test_the_document_and_the_server_accept_and_refuse_the_same_bodies(route: Route) -> None:
    """Each position receives a third of the values, the next position the next third."""
    check_values(route, [VALUES[first::THIRDS] for first in range(THIRDS)])


@pytest.mark.nightly
@pytest.mark.parametrize("route", WITH_JSON, ids=named)
def test_the_document_and_the_server_accept_and_refuse_the_same_values_everywhere(route: Route) -> None:
    check_values(route, [VALUES])


def check_values(route: Route, values: Sequence[Sequence[Any]]) -> None:
    """Change each position of each valid body; successive positions use successive lists of values."""
    validator_of_body = body_validator(route)
    in_turn = cycle(values)
    for valid in BODIES[route.method, route.path].valid:
        assert validator_of_body.is_valid(valid)
        for where, _ in enumerate(slots_in({"body": valid})):
            for way, value in [("remove", None), ("wrap", None), *(("replace", value) for value in next(in_turn))]:
                check_body(route, validator_of_body, changed(valid, [(where, way, value)]))


@pytest.mark.parametrize("route", WITH_JSON, ids=named)
def test_document_and_server_agree_on_bodies_with_several_errors(route: Route) -> None:
    check_changes(route, CASES)


@pytest.mark.nightly
@pytest.mark.parametrize("route", WITH_JSON, ids=named)
def test_document_and_server_agree_on_other_bodies_with_several_errors(route: Route, fresh_seed: int) -> None:
    check_changes(route, CASES_AT_NIGHT, fresh_seed)


def check_changes(route: Route, count: int, seed: int | None = None) -> None:
    validator_of_body = body_validator(route)

    @generated(count, seed)
    @given(CHANGES)
    def check(changes: list[tuple[int, str, Any]]) -> None:
        for valid in BODIES[route.method, route.path].valid:
            check_body(route, validator_of_body, changed(valid, changes))

    check()


def test_the_document_is_printed_the_same_in_every_process() -> None:
    for arguments, document in (([], DOCUMENT), (["--sigv4"], SIGNED)):
        printed = run("-m", "turnstone", "openapi", *arguments, PYTHONHASHSEED="7")
        assert printed == json.dumps(document, indent=2) + "\n"


def test_to_serve_costs_no_schema() -> None:
    serve = """
import sys, pydantic.json_schema as made
made.GenerateJsonSchema.__init__ = None
import functions.local.server
print([name for name in ("openapi", "wire_schemas") if f"turnstone.http.document.{name}" in sys.modules])
"""
    assert run("-c", serve) == "[]\n"


def run(*arguments: str, **variables: str) -> str:
    """Return the output of a Python process."""
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "character", ["\x0b", "\x1c", "\x85", "\xa0", "\u180e", "\u2028", "\u3000", "\ufeff", "ü"], ids=ascii
)
def test_document_and_server_agree_on_white_space(character: str) -> None:
    # it reads patterns as JSON schemas do, whose white space differs from that of Python and Rust
    judge = jsonschema_rs.Draft202012Validator(DOCUMENT["components"]["schemas"]["McpEndpoint"])
    for uri in (f"https://{character}", f"https://a{character}", f"https://a/{character}"):
        try:
            McpEndpoint(uri=uri)
        except ValidationError:
            is_taken = False
        else:
            is_taken = True
        assert judge.is_valid({"uri": uri}) is is_taken


def test_operation_ids_are_unique_and_begin_with_the_dialect_of_a_folder_of_its_own() -> None:
    ids = [operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids)
    dialects = {each.name for each in pkgutil.iter_modules(turnstone.dialects.__path__) if each.ispkg}
    for route in SERVED:
        folder = route.endpoint.__module__.split(".")[1]
        assert (route.dialect.name == folder) is (folder in dialects)
        assert route.dialect.is_in_ids is (folder in dialects)
        assert not route.endpoint.__name__.endswith("_2024")
    assert {"create_turn", "llama_stack_2024_create_turn", "create_turn_v1alpha", "create_chat_completion"} <= set(ids)


def test_the_routes_of_a_whole_server_are_those_that_the_document_of_a_function_finds() -> None:
    found = declared_routes("functions.server")
    assert sorted(found, key=lambda route: (route.path, route.method)) == sorted(
        SERVED, key=lambda route: (route.path, route.method)
    )
