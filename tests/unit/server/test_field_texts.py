"""Every field of the API has a description and an example, which its schema takes and the server accepts.

Covers: functions/local/server, http/document/field_texts, http/document/openapi, http/document/page, http/route
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator, oas31_format_checker

from functions.local.routes import ROUTES
from tests.support.server.asgi_client import Raw, Served, served
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.http.document.field_texts import FILE, field_texts, fields_in, plain_name
from turnstone.http.document.openapi import BEARER, openapi_document
from turnstone.http.document.page import api_page
from turnstone.http.route import Route

DOCUMENT = openapi_document(ROUTES, BEARER)
OPERATIONS = [
    (f"{method.upper()} {path}", operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
]
WITH_BODY = [route for route in ROUTES if route.body and route.method == "POST" and not route.file]


def fields() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        yield from fields_in(schema, plain_name(name))
    for name, operation in OPERATIONS:
        for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
            for content in holder.get("content", {}).values():
                yield from fields_in(content["schema"], name)


def parameters() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for operation_name, operation in OPERATIONS:
        for parameter in operation.get("parameters", ()):
            if "$ref" not in parameter:
                yield f"{operation_name}: {parameter['in']}.{parameter['name']}", parameter
        for status, response in operation["responses"].items():
            yield from (
                (f"{operation_name} {status}: {name}", header) for name, header in response.get("headers", {}).items()
            )
    for name, response in DOCUMENT["components"]["responses"].items():
        yield from ((f"{name}: {header}", part) for header, part in response.get("headers", {}).items())
    yield from DOCUMENT["components"]["parameters"].items()


def is_valid(schema: Mapping[str, Any], example: Any) -> bool:
    within = {**schema, "components": DOCUMENT["components"]}
    return bool(OAS31Validator(within, format_checker=oas31_format_checker).is_valid(example))


def test_every_field_has_a_description_and_an_example() -> None:
    documented = list(fields())
    assert len(documented) > 700
    lacking = sorted({path for path, field in documented if not field.get("description") or "examples" not in field})
    assert lacking == [], f"add a line for each of these fields to {FILE}"


def test_every_parameter_and_header_has_a_description_and_an_example() -> None:
    documented = list(parameters())
    assert len(documented) > 100
    lacking = sorted({name for name, part in documented if not part.get("description") or "example" not in part})
    assert lacking == [], f"add a line for each of these to {FILE}"


def test_every_example_is_valid_under_its_schema() -> None:
    wrong = [
        (path, example) for path, field in fields() for example in field["examples"] if not is_valid(field, example)
    ]
    wrong += [(name, part["example"]) for name, part in parameters() if not is_valid(part["schema"], part["example"])]
    assert wrong == []


@pytest.mark.parametrize(("name", "operation"), OPERATIONS, ids=[name for name, _ in OPERATIONS])
def test_the_example_of_a_body_is_valid_under_its_schema(name: str, operation: Mapping[str, Any]) -> None:
    for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
        content = holder.get("content", {}).get("application/json")
        if content is not None and content["schema"] != {"type": "null"}:
            assert is_valid(content["schema"], content["example"]), (name, content["example"])


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: f"{route.method} {route.path}")
def test_the_example_of_a_body_is_parsed_by_its_route(route: Route) -> None:
    assert route.body is not None
    route.body.model_validate(example_of(route))


def example_of(route: Route) -> Any:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    return operation["requestBody"]["content"]["application/json"]["example"]


def test_every_line_of_the_table_is_used() -> None:
    paths = [path for path, _ in fields()]
    used = {*paths, *(path.rpartition(".")[2] for path in paths), *map(plain_name, DOCUMENT["components"]["schemas"])}
    variables = [(part["in"], part["name"]) for _, part in parameters() if part.get("in") in ("path", "query")]
    used |= {name for _, name in variables} | {f"{location}.{name}" for location, name in variables}
    used |= {f"header.{name.rpartition(': ')[2].lower()}" for name, _ in parameters()} | {"header.idempotency-key"}
    assert sorted(field_texts().keys() - used) == []


def test_texts_are_sentences() -> None:
    for key, text in field_texts().items():
        assert text.description == "" or (text.description[0].isupper() and text.description[-1] in ".`"), key


def test_the_page_writes_bounds_and_examples_as_sentences_of_their_own() -> None:
    page = api_page(DOCUMENT)
    assert re.search(r"How many entries to leave out\. (Minimum|Such as) [^.]*</code>\.", page)
    assert not re.findall(r"[.`] (?:such as|minimum|maximum|minLength|maxLength|pattern|default) <code>", page)
    assert not re.findall(r"uch as <code>[^<]*</code></td>", page)


# ---- the examples, sent

LAST = (
    "/v1/safety/run-shield",
    "/agents/session/delete",
    "/agents/delete",
    "/memory-banks/unregister",
)  # need or delete objects of others


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("examples")) as serving:
        yield serving


def sent(server: Served, route: Route, ids: Mapping[str, str], **more: Any) -> tuple[int, bytes]:
    body = {**example_of(route), **{name: ids[name] for name in example_of(route) if name in ids}, **more}
    path = route.path.format_map(ids).encode()
    answer = server.client.send(Raw(route.method, path, (json.dumps(body).encode(),)))
    return answer.status, answer.body


def test_every_example_of_a_body_is_accepted_by_a_server(server: Served) -> None:
    by_name = {route.endpoint.__name__: route for route in WITH_BODY}
    ids: dict[str, str] = {}
    ids["agent_id"] = json.loads(sent(server, by_name.pop("create_agent"), ids)[1])["agent_id"]
    ids["session_id"] = json.loads(sent(server, by_name.pop("create_session"), ids)[1])["session_id"]
    _, stream = sent(server, by_name.pop("create_turn"), ids)
    ids |= {name: re.findall(rf'"{name}":"([^"]+)"', stream.decode())[0] for name in ("turn_id", "step_id")}
    ids["completion_id"] = json.loads(sent(server, by_name["create_chat_completion"], ids, store=True)[1])["id"]
    ids["memory_bank_id"] = json.loads(sent(server, by_name["register_memory_bank"], ids)[1])["identifier"]
    ids["upload_id"] = json.loads(sent(server, by_name["create_upload"], ids, bytes=0)[1])["id"]
    files, herons = server.server.core.files, [b"Herons nest in colonies."]
    ids["file_id"] = files.create(LOCAL_CALLER, "herons.txt", "text/plain", "assistants", herons).file_id
    ids["vector_store_id"] = json.loads(sent(server, by_name["create_vector_store"], ids)[1])["id"]
    ids["conversation_id"] = json.loads(sent(server, by_name["create_conversation"], ids)[1])["id"]
    ids["response_id"] = json.loads(sent(server, by_name["create_response"], ids, background=True)[1])["id"]
    ids["webhook_id"] = json.loads(sent(server, by_name["create_webhook"], ids)[1])["webhook_id"]
    in_order = sorted(by_name.values(), key=lambda route: LAST.index(route.path) if route.path in LAST else -1)
    answers = {f"{route.method} {route.path}": sent(server, route, ids) for route in in_order}
    completion = answers.pop("POST /v1/openai/v1/uploads/{upload_id}/complete")
    assert "the upload has no part" in completion[1].decode()  # an example cannot name one
    batch = answers.pop("POST /v1/openai/v1/vector_stores/{vector_store_id}/file_batches")
    assert "file_not_found" in batch[1].decode()  # likewise: its list has no name of a field
    assert {name: answer for name, answer in answers.items() if answer[0] != 200} == {}
