"""An OpenAPI document as an HTML page to read and to try, with its own script and style, without outside resources."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from turnstone.domain.unserved import Unserved

Part = Mapping[str, Any]
OF_2024 = "_2024"
JSON = "application/json"
MOST_OF_EXAMPLE = 160
KEY = """<div class="access">
<label>Key or token, kept in this field only:
<input id="key" type="text" autocomplete="off" autocapitalize="off" spellcheck="false"></label>
<button id="forget" type="button">Forget it</button></div>"""
SIGNED = "<p>Requests to this server have to be signed, which this page can't do: it is to be read only.</p>"


def api_page(document: Part, unserved: Sequence[Unserved] = (), base: str = "") -> str:
    """Return the page.

    Args:
        document: the OpenAPI document.
        unserved: methods that the page lists as not served, at its end.
        base: prefix of the API's paths in the page's own URL.
    """
    info = document["info"]
    title = f"{info['title']} {info['version']}"
    operations = list(_operations(document))
    can_try = "sigv4" not in document["components"].get("securitySchemes", {})
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}: API</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<style>{_file("css")}</style></head><body data-base="{escape(base)}">',
            f"<h1>{escape(title)}</h1><p>{_text(info['description'])}</p>",
            '<p>The same as a document for programs: <a href="openapi.json">openapi.json</a>.</p>',
            *_access(document),
            *_contents(document, operations),
            *(line for tag in document["tags"] for line in _family(tag["name"], operations, document, can_try=can_try)),
            *_not_served(unserved),
            "<h2>Schemas</h2>",
            *(_schema(name, schema) for name, schema in document["components"]["schemas"].items()),
            f"<script>{_file('js')}</script></body></html>",
            "",
        ]
    )


@cache
def content_security_policy() -> str:
    """Return the page's policy: its own script and style, and requests to its own server."""
    style, script = (b64encode(sha256(_file(kind).encode()).digest()).decode() for kind in ("css", "js"))
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )


@cache
def _file(kind: str) -> str:
    return Path(__file__).with_name(f"page.{kind}").read_text()


def _access(document: Part) -> Iterator[str]:
    schemes = document["components"].get("securitySchemes", {})
    if "bearer" in schemes:
        yield KEY
    elif schemes:
        yield SIGNED


def _operations(document: Part) -> Iterator[tuple[str, str, Part]]:
    """Yield method, path and operation, without aliases."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if "x-same-as" not in operation:
                yield method.upper(), path, operation


def _contents(document: Part, operations: list[tuple[str, str, Part]]) -> Iterator[str]:
    yield "<nav><ul>"
    for tag in document["tags"]:
        links = (
            f'<li><a href="#{operation["operationId"]}"><code>{method} {escape(path)}</code></a> '
            f"{_text(operation['summary'])}</li>"
            for method, path, operation in operations
            if tag["name"] in operation["tags"]
        )
        yield f"<li>{escape(_titled(tag['name']))}<ul>{''.join(links)}</ul></li>"
    yield '<li><a href="#not-served">Not served</a></li></ul></nav>'


def _titled(tag: str) -> str:
    return f"{tag.removesuffix(OF_2024)}, for clients of September 2024" if tag.endswith(OF_2024) else tag


def _family(name: str, operations: list[tuple[str, str, Part]], document: Part, *, can_try: bool) -> Iterator[str]:
    yield f"<h2>{escape(_titled(name))}</h2>"
    for method, path, operation in operations:
        if name in operation["tags"]:
            yield f'<section id="{operation["operationId"]}"><h3><code>{method} {escape(path)}</code></h3>'
            yield f"<p>{_text(operation['summary'])}.</p>"
            yield from (f"<p>Also <code>{escape(alias)}</code>.</p>" for alias in _aliases(operation, document))
            yield from _request(operation, document)
            yield from _answers(operation, document)
            if can_try:
                yield _try(method, path, operation)
            yield "</section>"


def _try(method: str, path: str, operation: Part) -> str:
    """Return the element from which the script makes a form; it sends no files."""
    if any(kind != JSON for kind in operation.get("requestBody", {}).get("content", ())):
        return ""
    query = [parameter["name"] for parameter in operation.get("parameters", ()) if parameter.get("in") == "query"]
    content = operation.get("requestBody", {}).get("content", {}).get(JSON, {})
    body = json.dumps(content.get("example", {})) if content and method != "GET" else ""
    data = {"method": method, "path": path, "query": json.dumps(query), "body": body}
    return f'<div class="try" {" ".join(f"""data-{name}="{escape(text)}" """ for name, text in data.items())}></div>'


def _not_served(unserved: Sequence[Unserved]) -> Iterator[str]:
    if unserved:
        yield '<h2 id="not-served">Not served</h2>'
        yield "<p>What the clients have a method for and this server has not: 501.</p>"
        rows = ((_code(f"{row.method} {row.path}"), _code(row.called), _text(row.instead)) for row in unserved)
        yield _table(("request", "method of the clients", "instead"), rows)


def _aliases(operation: Part, document: Part) -> Iterator[str]:
    for path, item in document["paths"].items():
        if any(other.get("x-same-as") == operation["operationId"] for other in item.values()):
            yield path


def _request(operation: Part, document: Part) -> Iterator[str]:
    given = [_resolved(parameter, document) for parameter in operation.get("parameters", ())]
    if given:
        rows = ((_code(p["name"]), escape(p["in"]), _rules(p)) for p in given)
        yield _table(("parameter", "in", ""), rows)
    if "requestBody" in operation:
        ((kind, content),) = operation["requestBody"]["content"].items()
        form = "" if kind == JSON else f" <small>{escape(kind)}</small>"
        yield f"<p>Body: {_kind(content['schema'])}{form}</p>"
        if "example" in content:
            yield f"<pre>{escape(json.dumps(content['example'], indent=2, ensure_ascii=False))}</pre>"


def _answers(operation: Part, document: Part) -> Iterator[str]:
    rows = []
    for status, answer in operation["responses"].items():
        response = _resolved(answer, document)
        kinds = "<br>".join(
            f"{_kind(content['schema'])} <small>{escape(kind)}</small>"
            for kind, content in response.get("content", {}).items()
        )
        headers = "".join(f"<br>header {_code(name)}" for name in response.get("headers", {}))
        rows.append((_code(status), _text(response["description"]) + headers, kinds))
    yield _table(("status", "", "body"), rows)


def _schema(name: str, schema: Part) -> str:
    description = f"<p>{_text(schema['description'])}</p>" if "description" in schema else ""
    required = schema.get("required", ())
    rows = [
        (_code(field) + ("" if field in required else " <small>optional</small>"), _kind(kind), _rules(kind))
        for field, kind in schema.get("properties", {}).items()
    ]
    body = _table(("field", "type", ""), rows) if rows else f"<p>{_kind(schema)}</p>"
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{description}{body}</section>'


def _kind(schema: Part) -> str:
    """Return the kind of the schema's values, in a few words with links."""
    match schema:
        case {"$ref": ref}:
            name = escape(ref.rpartition("/")[2])
            return f'<a href="#{name}">{name}</a>'
        case {"anyOf": choices} | {"oneOf": choices}:
            return " or ".join(dict.fromkeys(map(_kind, choices)))
        case {"const": value}:
            return _code(repr(value) if not isinstance(value, str) else f'"{value}"')
        case {"enum": values}:
            return " or ".join(_code(f'"{value}"') for value in values)
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}"
        case {"type": list(names)}:
            return " or ".join(map(escape, names))
        case {"type": str(name)}:
            return escape(name) + (f" ({escape(schema['format'])})" if "format" in schema else "")
    return "anything"


def _rules(schema: Part) -> str:
    """Return a field's description, default, bounds and example."""
    names = ("minimum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "default")
    ruled = [part for part in (schema, *schema.get("anyOf", ())) if isinstance(part, Mapping)]
    rules = [f"{name} {_code(str(part[name]))}" for part in ruled for name in names if part.get(name) is not None]
    examples = [schema["example"]] if "example" in schema else schema.get("examples", ())
    shown = [json.dumps(example, ensure_ascii=False) for example in examples]
    description = [_text(schema["description"])] if "description" in schema else []
    rules += (f"such as {_code(text)}" for text in shown if len(text) <= MOST_OF_EXAMPLE)
    sentence = "; ".join(rules)
    return " ".join([*description, f"{sentence[0].upper()}{sentence[1:]}."] if sentence else description)


def _resolved(part: Part, document: Part) -> Part:
    if "$ref" not in part:
        return part
    _, _, kind, name = part["$ref"].split("/")
    found: Part = document["components"][kind][name]
    return found


def _table(heads: tuple[str, ...], rows: Any) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _text(text: str) -> str:
    """Return prose as HTML, words in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
