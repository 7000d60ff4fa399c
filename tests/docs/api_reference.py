"""The API reference as a Markdown page, generated from the OpenAPI document of the routes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from functions.local.routes import ROUTES
from turnstone.http.document.openapi import openapi_document
from turnstone.http.route import Route

Schema = Mapping[str, Any]

PAGE = "docs/reference/api.md"
REF = "#/components/schemas/"
METHODS = ("get", "post", "put", "patch", "delete")
OPENAI = "/v1/openai/v1/"
MAX_DEFAULT_CHARACTERS = 40
MAX_CHOICES = 12
INTRODUCTION = """# API reference

Generated from the OpenAPI document by `make docs`; do not edit. A running server serves the same document at
`/openapi.json`, and as a page to try requests at `/docs`; a key that is entered there stays in its field.

Paths that differ only by their prefix are one entry: the first path is the principal one, the others are aliases.
Errors are listed in [errors](errors.md); how a caller authenticates is in
[authentication](../operate/authentication.md). Every answer has the header `x-request-id`.
"""
KINDS = {
    "Llama Stack": "The Agents API 0.2.x. Clients of 0.3 use the same routes below `/v1alpha`.",
    "OpenAI": "Chat completions, completions, embeddings and models, below `/v1/openai/v1` and, except for the list of"
    " models, below `/v1`.",
    "Llama Stack, September 2024": "The Agents API of clients 0.0.x: ids in the body, below `/agents` and `/alpha`.",
}


class Operation(NamedTuple):
    """An operation of the document, with the paths that are aliases of its own."""

    method: str
    path: str
    spec: Schema
    aliases: Sequence[str]

    @property
    def dialect(self) -> str:
        if self.tag.endswith("_2024"):
            return "Llama Stack, September 2024"
        return "OpenAI" if self.path.startswith(OPENAI) else "Llama Stack"

    @property
    def tag(self) -> str:
        return str(self.spec["tags"][0])

    @property
    def heading(self) -> str:
        return f"{self.method.upper()} {self.path}"


def reference() -> str:
    """Return the page, for a server without authentication."""
    document = openapi_document(ROUTES)
    return "\n".join([INTRODUCTION, *_page(document)]).rstrip() + "\n"


def operations_of(document: Schema) -> list[Operation]:
    """Return the operations, each once, in the order of the document's tags."""
    aliases: dict[str, list[str]] = {}
    own = []
    for path, methods in document["paths"].items():
        for method in METHODS:
            if (spec := methods.get(method)) is None:
                continue
            if same := spec.get("x-same-as"):
                aliases.setdefault(same, []).append(path)
            else:
                own.append(Operation(method, path, spec, aliases.setdefault(spec["operationId"], [])))
    tags = [tag["name"] for tag in document["tags"]]
    return sorted(own, key=lambda each: (tags.index(each.tag), each.path, METHODS.index(each.method)))


def _page(document: Schema) -> Iterator[str]:
    operations = operations_of(document)
    for dialect in KINDS:
        yield f"- [{dialect}](#{_anchor(dialect)})"
        for tag in dict.fromkeys(each.tag for each in operations if each.dialect == dialect):
            those = [each for each in operations if (each.dialect, each.tag) == (dialect, tag)]
            links = (f"[{each.spec['operationId']}](#{each.spec['operationId']})" for each in those)
            yield f"  - {tag}: {', '.join(links)}"
    yield "- [Pages](#pages)"
    yield "- [Types](#types)\n"
    for dialect, explanation in KINDS.items():
        yield f"## {dialect}\n\n{explanation}\n"
        for operation in operations:
            if operation.dialect == dialect:
                yield from _operation(operation, document)
    yield "## Pages\n"
    yield "These answer with a document, not with a type of the API.\n"
    for route in sorted((route for route in ROUTES if not route.reply), key=lambda route: route.path):
        yield from _document_route(route)
    yield "## Types\n"
    for name, schema in document["components"]["schemas"].items():
        yield from _type(name, schema)


def _operation(operation: Operation, document: Schema) -> Iterator[str]:
    spec = operation.spec
    yield f'<a id="{spec["operationId"]}"></a>\n'
    yield f"### {operation.heading}\n"
    yield f"{spec['summary']}.\n"
    if operation.aliases:
        paths = ", ".join(f"`{path}`" for path in operation.aliases)
        yield f"Also at {paths}.\n"
    parameters = [_resolved(each, document) for each in spec.get("parameters", ())]
    if parameters:
        yield "| parameter | in | type | |"
        yield "|---|---|---|---|"
        for each in parameters:
            name = f"`{each['name']}`" + (", required" if each.get("required") else "")
            yield f"| {name} | {each['in']} | {_kind(each['schema'])} | {_cell(each.get('description', ''))} |"
        yield ""
    if body := spec.get("requestBody"):
        ((kind, content),) = body["content"].items()
        form = "" if kind == "application/json" else f", as `{kind}`"
        yield f"Body: {_kind(content['schema'])}{form}{'' if body['required'] else ', optional'}\n"
    yield from _answers(spec["responses"], document)


def _document_route(route: Route) -> Iterator[str]:
    _, _, summary = (sys.modules[route.endpoint.__module__].__doc__ or "").partition(": ")
    aliases = ", ".join(f"`{path}`" for path in route.paths[1:])
    yield f"### {route.method} {route.path}\n"
    text = _cell(summary.removesuffix("."))
    yield f"{text[:1].upper()}{text[1:]}.{f' Also at {aliases}.' if aliases else ''}\n"


def _answers(responses: Schema, document: Schema) -> Iterator[str]:
    yield "| status | answer |"
    yield "|---|---|"
    refused = []
    for status, response in responses.items():
        response = _resolved(response, document)
        if int(status) < 400:
            kinds = [f"{_kind(each['schema'])} ({media})" for media, each in response.get("content", {}).items()]
            headers = [f"`{name}`" for name in response.get("headers", {}) if name != "x-request-id"]
            beside = f"; headers {', '.join(headers)}" if headers else ""
            yield f"| {status} | {', or '.join(kinds) or response['description']}{beside} |"
        else:
            refused.append(status)
    yield f"| {', '.join(refused)} | an [error](errors.md) |\n"


def _type(name: str, schema: Schema) -> Iterator[str]:
    yield f'<a id="{_type_anchor(name)}"></a>\n'
    yield f"### {_type_name(name)}\n"
    if described := schema.get("description"):
        yield f"{_cell(described)}\n"
    fields = schema.get("properties")
    if not fields:
        yield f"{_kind(schema)}\n"
        return
    yield "| field | type | default | |"
    yield "|---|---|---|---|"
    for field, of_field in fields.items():
        default = "required" if field in schema.get("required", ()) else _default(of_field)
        yield f"| `{field}` | {_kind(of_field)} | {default} | {_cell(of_field.get('description', ''))} |"
    yield ""


def _default(schema: Schema) -> str:
    if "default" not in schema:
        return ""
    text = json.dumps(schema["default"], ensure_ascii=False)
    return f"`{text}`" if len(text) <= MAX_DEFAULT_CHARACTERS else "see the type"


def _kind(schema: Schema) -> str:
    """Return the type in words, named types as links."""
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix(REF)
        return f"[{_type_name(name)}](#{_type_anchor(name)})"
    if "const" in schema:
        return _code(schema["const"])
    if "enum" in schema:
        shown = [_code(each) for each in schema["enum"]]
        return " \\| ".join(shown if len(shown) <= MAX_CHOICES else [*shown[:MAX_CHOICES], "…"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(map(_kind, schema[several])))
    return _plain_kind(schema)


def _plain_kind(schema: Schema) -> str:
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"array of {_kind(schema['items'])}" if schema.get("items") else "array"
    if kind == "object" and schema.get("properties"):
        inner = ", ".join(f"`{name}`: {_kind(each)}" for name, each in schema["properties"].items())
        return f"object {{{inner}}}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    return f"{kind}{_bounds(schema)}"


def _bounds(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if schema.get("pattern") and schema.get("type") == "string":
        return " (digits)" if "0-9" in schema["pattern"] and "a-z" not in schema["pattern"] else ""
    if least is None and most is None:
        return ""
    return f" ({'' if least is None else least}…{'' if most is None else most})"


def _resolved(found: Schema, document: Schema) -> Schema:
    """Return the parameter or the answer that a reference names."""
    if "$ref" not in found:
        return found
    steps: Any = document
    for step in str(found["$ref"]).removeprefix("#/").split("/"):
        steps = steps[step]
    resolved: Schema = steps
    return resolved


def _type_name(name: str) -> str:
    *modules, own = name.split("__")
    plain, _, direction = own.partition("-")
    of_module = f" of {modules[-1]}" if modules else ""
    return plain + of_module + {"": "", "Input": " (request)", "Output": " (answer)"}[direction]


def _type_anchor(name: str) -> str:
    return f"type-{name.lower()}"


def _anchor(heading: str) -> str:
    return heading.lower().replace(",", "").replace(" ", "-")


def _code(value: object) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
