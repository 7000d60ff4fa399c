"""The OpenAPI document of declared routes, as `turnstone openapi` prints it. Imported when it is first requested."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from types import UnionType
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import Field

from turnstone import VERSION
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.turns.events import (
    StepCompleted,
    StepProgressed,
    StepStarted,
    TurnAwaitsInput,
    TurnCompleted,
    TurnStarted,
)
from turnstone.domain.values.numbers import counts_up_to
from turnstone.http.document.field_texts import add_field_texts
from turnstone.http.document.links import PARAMETER, links_of
from turnstone.http.document.wire_schemas import Schema, WireSchemas, build_wire_schemas
from turnstone.http.envelopes import ErrorEnvelope
from turnstone.http.errors import FAILURE_STATUS, STATUS
from turnstone.http.replies import TurnReply, TurnStreamReply
from turnstone.http.route import FileBytes, NoContent, Null, Route

StreamedEvent = Annotated[
    TurnStarted | StepStarted | StepProgressed | StepCompleted | TurnCompleted | TurnAwaitsInput,
    Field(discriminator="event_type"),
]
# Source: the scheme in documents that API Gateway exports
SIGV4: Mapping[str, Schema] = {
    "sigv4": {
        "type": "apiKey",
        "name": "Authorization",
        "in": "header",
        "x-amazon-apigateway-authtype": "awsSigv4",
    }
}
BEARER: Mapping[str, Schema] = {"bearer": {"type": "http", "scheme": "bearer"}}
SCHEMES = {name: schemes for schemes in (BEARER, SIGV4) for name in schemes}
INFO: Schema = {
    "title": "Turnstone",
    "version": VERSION,
    "description": "A home for AI agents, which speaks the Llama Stack Agents API: it stores agents, sessions, turns "
    "and steps, runs the agent loop, and pauses a turn while the client runs its own tools.",
    "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
}
OF_NO_MODEL: Mapping[object, Schema] = {
    NoContent: {"204": {"description": "Done"}},
    Null: {"200": {"description": "Done", "content": {"application/json": {"schema": {"type": "null"}}}}},
    FileBytes: {"200": {"description": "OK", "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}},
}
REFUSALS: Mapping[int, tuple[str, str]] = {
    400: ("InvalidRequest", "The request can't be accepted; the text names what is wrong with it."),
    422: ("InvalidFields", "Fields of the request are invalid; each has its problem."),
    401: ("Unauthenticated", "The request proves no identity."),
    403: ("Forbidden", "The caller may not use this server, or not an MCP server with these `mcp_headers`."),
    404: ("NotFound", "There is no such thing, or the caller may not see it."),
    409: ("Conflict", "The session, the turn or the Idempotency-Key is in a state that forbids this."),
    410: ("ContentLost", "The server's stored copy is missing or damaged; no repetition brings it back."),
    413: ("BodyTooLarge", "The body has more bytes than the server takes."),
    426: ("UnknownClient", "The header `X-LlamaStack-Client-Version` names none of the versions 0.1 to 0.3."),
    500: ("InternalError", "An internal error of the server."),
    502: (
        "ModelFailed",
        "The model, or the provider of a memory bank, refused or broke. A failed turn keeps its finished steps.",
    ),
    429: (
        "LimitReached",
        "A token limit of this server is reached, or the model takes no more requests now.",
    ),
    503: ("Unavailable", "The server can't do this now; the same request may be sent again shortly."),
    504: ("ModelTimedOut", "The model, or the provider of a memory bank, was silent for too long."),
}
STREAM_ERROR: Schema = {"$ref": "#/components/schemas/StreamError"}
RETRY_HEADERS: Schema = {
    "retry-after": {"description": "Seconds after which to try again.", "schema": {"type": "string"}},
    "x-should-retry": {"description": "`false` where a repetition can't help.", "schema": {"const": "false"}},
}
CHALLENGE: Schema = {
    "www-authenticate": {
        "description": "How to authenticate a request.",
        "required": True,
        "schema": {"const": "Bearer"},
    }
}
IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes the request safe to repeat for 24 hours: a second one is answered as the first was.",
    "schema": {"type": "string"},
}
PREFER: Schema = {
    "name": "Prefer",
    "in": "header",
    "description": "`respond-async` for an answer 202 at once, while the turn runs in the background. Not applied "
    "with `stream`, nor where the messages answer calls of tools.",
    "schema": {"type": "string"},
}
ACCEPTED: Mapping[str, Schema] = {
    "location": {"description": "The path of the turn.", "required": True, "schema": {"type": "string"}},
    "preference-applied": {"required": True, "schema": {"const": "respond-async"}},
}
REQUEST_ID: Schema = {"x-request-id": {"schema": {"type": "string"}}}
ORDER = {method: position for position, method in enumerate(("GET", "POST", "PUT", "PATCH", "DELETE"))}


def openapi_document(
    routes: Sequence[Route], security_schemes: Mapping[str, Schema] | None = None, max_infer_iters: int = 100
) -> Schema:
    """Return the OpenAPI 3.1 document of the routes; a caller has to satisfy one of the schemes, if there are any.

    An operation id is the dialect and the name of the route's function, such as `llama_stack_2024_create_turn`. Llama
    Stack and OpenAI have no prefix, such as `create_turn`. The operation id of an alias ends in the first part of its
    path, such as `create_turn_v1alpha`. Ids are unique and stable, because clients are generated from them.

    Routes without a `reply` are left out. Paths are sorted. The operations of an alias name the original in
    `x-same-as`.
    """
    routes = sorted((route for route in routes if route.reply), key=lambda route: (route.path, ORDER[route.method]))
    schemas = build_wire_schemas(
        read=[route.body for route in routes if route.body],
        written=[ErrorCode, StreamedEvent, *(kind for route in routes for kind in _written(route))],
    )
    for route in routes:
        _add_file(route, schemas)
    security_schemes = security_schemes or {}
    paths: dict[str, Schema] = {}
    for route in routes:
        operation = _operation(route, schemas, security_schemes)
        if links := links_of(route, routes):
            operation["responses"]["200"]["links"] = links
        paths.setdefault(route.path, {})[route.method.lower()] = operation
        for alias in route.paths[1:]:
            own = operation["operationId"]
            same = {**operation, "operationId": f"{own}_{alias.split('/')[1]}", "x-same-as": own}
            paths.setdefault(alias, {})[route.method.lower()] = same
    used = {
        _refusal_name(status, route.dialect.envelope): _refusal(status, route.dialect.envelope, security_schemes)
        for route in routes
        for status in _refused_with(route, security_schemes)
    }
    bounded = {name: _with_bound(schema, max_infer_iters) for name, schema in schemas.named.items()}
    named = {**bounded, **_envelopes(routes, schemas), **_streams(routes, schemas)}
    document: Schema = {
        "openapi": "3.1.0",
        "info": INFO,
        "tags": [{"name": name} for name in _tags(routes)],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {name: named[name] for name in sorted(named)},
            "responses": dict(sorted(used.items())),
            "parameters": {"IdempotencyKey": dict(IDEMPOTENCY_KEY), "Prefer": dict(PREFER)},
        },
    }
    if security_schemes:
        document["components"]["securitySchemes"] = dict(security_schemes)
        document["security"] = [{name: []} for name in security_schemes]
    add_field_texts(document)
    return document


def _written(route: Route) -> Iterator[Any]:
    """Yield the types of the route's answer, events and headers."""
    if route.reply not in OF_NO_MODEL:
        yield route.reply
    if route.chunk is not None:
        yield route.chunk
    if route.accepted is not None:
        yield route.accepted
    yield from route.headers.values()


def _add_file(route: Route, schemas: WireSchemas) -> None:
    """Add the file of a form to the schema of its fields."""
    if route.file is None or route.body is None:
        return
    form = schemas.named[schemas.read[route.body]["$ref"].rpartition("/")[2]]
    file = {route.file.name: {"type": "string", "format": "binary"}}
    form["properties"] = {**file, **form["properties"]}
    form["required"] = [*file, *form.get("required", ())]


def answers_of(route: Route) -> tuple[type, ...]:
    """Return the kinds of `Answer` that the route returns, by the annotation of its function."""
    answered = get_type_hints(route.endpoint)["return"]
    return get_args(answered) if isinstance(answered, UnionType) else (answered,)


def _operation(route: Route, schemas: WireSchemas, security_schemes: Mapping[str, Schema]) -> Schema:
    _, _, text = (sys.modules[route.endpoint.__module__].__doc__ or "").partition(": ")
    summary = text.split("\n\n")[0].strip().removesuffix(".")
    operation: Schema = {
        "operationId": route.operation_id,
        "summary": summary[:1].upper() + summary[1:],
        "tags": [_family(route)],
    }
    if parameters := list(_parameters(route)):
        operation["parameters"] = parameters
    if route.body is not None:
        kind = "application/json" if route.file is None else "multipart/form-data"
        content = {kind: {"schema": schemas.read[route.body]}}
        operation["requestBody"] = {"required": route.method != "GET", "content": content}
    refusals = {
        str(status): {"$ref": f"#/components/responses/{_refusal_name(status, route.dialect.envelope)}"}
        for status in _refused_with(route, security_schemes)
    }
    operation["responses"] = {**_success(route, schemas), **refusals}
    if route.is_open and security_schemes:
        operation["security"] = []
    return operation


def _parameters(route: Route) -> Iterator[Schema]:
    for name in PARAMETER.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name, declared in route.query.items():
        several = {"description": declared, "schema": {"type": "array", "items": {"type": "string"}}}
        yield {"name": name, "in": "query", **(several if isinstance(declared, str) else declared)}
    if route.method == "POST" and route.stores:
        yield {"$ref": "#/components/parameters/IdempotencyKey"}
    if route.accepted is not None:
        yield {"$ref": "#/components/parameters/Prefer"}


def _success(route: Route, schemas: WireSchemas) -> Schema:
    if route.reply in OF_NO_MODEL:
        replies = OF_NO_MODEL[route.reply].items()
        return {status: {**response, "headers": deepcopy(REQUEST_ID)} for status, response in replies}
    content = {"application/json": {"schema": schemas.written[route.reply]}}
    if answers_of(route) == (TurnStreamReply,):
        content = {}
    if TurnStreamReply in answers_of(route):
        content["text/event-stream"] = {"schema": {"$ref": "#/components/schemas/TurnStreamChunk"}}
    if route.chunk is not None:
        content["text/event-stream"] = {"schema": {"$ref": f"#/components/schemas/{_stream_name(route)}"}}
    success: Schema = {"description": "OK", "content": content}
    is_always = TurnStreamReply not in answers_of(route)  # a stream begins before its turn has a status
    own = {name: {"required": is_always, "schema": schemas.written[kind]} for name, kind in route.headers.items()}
    success["headers"] = {**own, **deepcopy(REQUEST_ID)}
    if route.accepted is None:
        return {"200": success}
    accepted: Schema = {
        "description": "The turn runs in the background",
        "content": {"application/json": {"schema": schemas.written[route.accepted]}},
        "headers": {**deepcopy(ACCEPTED), **deepcopy(success["headers"])},
    }
    return {"200": success, "202": accepted}


def _with_bound(schema: Schema, max_infer_iters: int) -> Schema:
    """Return the schema of a body with the server's bound of `max_infer_iters`; schemas of answers stay unbounded."""
    field = schema.get("properties", {}).get("max_infer_iters", {})
    for choice in field.get("anyOf", ()):
        for as_sent in choice.get("anyOf", (choice,)):
            if as_sent["type"] == "integer":
                as_sent["maximum"] = max_infer_iters
            elif as_sent["type"] == "string":
                as_sent["pattern"] = f"^({counts_up_to(max_infer_iters)})$"
    return schema


def _refused_with(route: Route, security_schemes: Mapping[str, Schema]) -> list[int]:
    """Return the statuses of the route's errors."""
    statuses = {403, 413, 426, 500, *(STATUS[error] for error in route.raises)}
    if route.body:
        statuses |= set(route.dialect.statuses.values())
    if security_schemes and not route.is_open:
        statuses |= {401}
    if "bearer" in security_schemes and not route.is_open:
        statuses |= {503}  # the store or the token issuer may be unavailable to identify the caller
    if route.body or route.query:
        statuses |= {400, route.dialect.validation_status}
    if PARAMETER.search(route.path):
        statuses |= {404, 503}
    if route.method == "POST":
        statuses |= {409, 503} if route.stores else {503}
    if 404 in statuses:
        statuses |= {410}
    if TurnReply in answers_of(route):
        statuses |= set(FAILURE_STATUS.values())
    return sorted(statuses)


def _refusal_name(status: int, envelope: ErrorEnvelope) -> str:
    return envelope.name + REFUSALS[status][0]


def _refusal(status: int, envelope: ErrorEnvelope, security_schemes: Mapping[str, Schema]) -> Schema:
    schema: Schema = (
        {"$ref": f"#/components/schemas/{_error_name(envelope)}"} if envelope.name else envelope.schema(status)
    )
    if status == 403 and security_schemes:
        schema = {"anyOf": [_object(message={"type": "string"}), schema]}  # the gateway's own, and ours
    answer: Schema = {"description": REFUSALS[status][1], "content": {"application/json": {"schema": schema}}}
    headers = RETRY_HEADERS if status in (401, 403, 404, 409, 410, 429) or status >= 500 else {}
    if status == 401 and "bearer" in security_schemes:
        headers = {**CHALLENGE, **headers}
    return {**answer, "headers": deepcopy({**headers, **REQUEST_ID})}


def _error_name(envelope: ErrorEnvelope) -> str:
    return f"{envelope.name}Error"


def _envelopes(routes: Sequence[Route], schemas: WireSchemas) -> Schema:
    """Return the schemas of the envelopes of errors and events, see `http/envelopes.py` and a dialect's `stream`."""
    text = {"type": "string"}
    location = {"type": "array", "items": {"type": ["string", "integer"]}}
    problem = _object(loc=location, msg=text, type=text)
    problems = {"type": "array", "items": problem, "minItems": 1}
    code = schemas.written[ErrorCode]
    event = _object(event=_object(payload=schemas.written[StreamedEvent]))
    description = "The data of one event of the stream. A stream that can't continue ends with an error."
    return {
        "Refusal": _object(detail=text, code=code),
        **{_error_name(each): each.schema(500) for each in (route.dialect.envelope for route in routes) if each.name},
        "InvalidFields": _object(error=_object(detail=_object(errors=problems, code=code))),
        "StreamError": _object(error=_object(message=text, code=code)),
        "TurnStreamChunk": {"description": description, "anyOf": [event, STREAM_ERROR]},
    }


def _streams(routes: Sequence[Route], schemas: WireSchemas) -> Schema:
    """Return the schemas of one event of each stream with a model of its own."""
    return {_stream_name(route): _stream(route, schemas) for route in routes if route.chunk is not None}


def _stream(route: Route, schemas: WireSchemas) -> Schema:
    description = "The data of one event of the stream. A stream that can't continue ends with an error"
    if route.dialect.envelope.name:
        failed: Schema = {"$ref": f"#/components/schemas/{_error_name(route.dialect.envelope)}"}
        return {
            "description": f"{description}, a whole one with the text `[DONE]`.",
            "anyOf": [schemas.written[route.chunk], failed],
        }
    return {"description": f"{description}.", "anyOf": [schemas.written[route.chunk], STREAM_ERROR]}


def _stream_name(route: Route) -> str:
    """Return the name of the schema of one event, after the body's in dialects with a prefix, else the function's."""
    if route.dialect.is_in_ids and route.body is not None:
        return f"{route.body.__name__}Stream"
    return "".join(word.capitalize() for word in route.endpoint.__name__.split("_")) + "Stream"


def _object(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _tags(routes: Sequence[Route]) -> list[str]:
    """Return the families of the routes, by their first path with a version, and dialects without a prefix first."""
    in_order = sorted(routes, key=lambda route: (route.dialect.is_in_ids, not route.path.startswith("/v")))
    return list(dict.fromkeys(map(_family, in_order)))


def _family(route: Route) -> str:
    return route.family.rpartition(".")[2]
