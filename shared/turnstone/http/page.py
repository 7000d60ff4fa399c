"""An OpenAPI document as a page to read: HTML that needs no script and nothing from elsewhere."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Part = Mapping[str, Any]
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --mark: #0a6cc4 }
@media (prefers-color-scheme: dark) { :root { --mark: #6cb6ff } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem }
a { color: var(--mark) } h2 { border-bottom: 1px solid var(--line); margin-top: 3rem }
section { margin: 2rem 0 } h3 { font-size: 1rem; overflow-wrap: anywhere; margin-bottom: .3rem }
code { font: .875rem/1.5 ui-monospace, monospace; background: var(--soft); padding: .1em .3em; border-radius: 3px }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; display: block; overflow-x: auto }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; font-size: .875rem } nav li { overflow-wrap: anywhere } p { margin: .3rem 0 }
"""


def api_page(document: Part) -> str:
    """Return the page."""
    info = document["info"]
    title = f"{info['title']} {info['version']}"
    operations = list(_operations(document))
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}: API</title>',
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>',
            f"<h1>{escape(title)}</h1><p>{_text(info['description'])}</p>",
            '<p>The same as a document for programs: <a href="openapi.json">openapi.json</a>.</p>',
            *_contents(document, operations),
            *(line for tag in document["tags"] for line in _family(tag["name"], operations, document)),
            "<h2>Schemas</h2>",
            *(_schema(name, schema) for name, schema in document["components"]["schemas"].items()),
            "</body></html>",
            "",
        ]
    )


def _operations(document: Part) -> Iterator[tuple[str, str, Part]]:
    """Yield method, path and operation, aliases left out."""
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
        yield f"<li>{escape(tag['name'])}<ul>{''.join(links)}</ul></li>"
    yield "</ul></nav>"


def _family(name: str, operations: list[tuple[str, str, Part]], document: Part) -> Iterator[str]:
    yield f"<h2>{escape(name)}</h2>"
    for method, path, operation in operations:
        if name in operation["tags"]:
            yield f'<section id="{operation["operationId"]}"><h3><code>{method} {escape(path)}</code></h3>'
            yield f"<p>{_text(operation['summary'])}.</p>"
            yield from (f"<p>Also <code>{escape(alias)}</code>.</p>" for alias in _aliases(operation, document))
            yield from _request(operation, document)
            yield from _answers(operation, document)
            yield "</section>"


def _aliases(operation: Part, document: Part) -> Iterator[str]:
    for path, item in document["paths"].items():
        if any(other.get("x-same-as") == operation["operationId"] for other in item.values()):
            yield path


def _request(operation: Part, document: Part) -> Iterator[str]:
    given = [_resolved(parameter, document) for parameter in operation.get("parameters", ())]
    if given:
        rows = ((_code(p["name"]), escape(p["in"]), _text(p.get("description", ""))) for p in given)
        yield _table(("parameter", "in", ""), rows)
    if "requestBody" in operation:
        yield f"<p>Body: {_kind(operation['requestBody']['content']['application/json']['schema'])}</p>"


def _answers(operation: Part, document: Part) -> Iterator[str]:
    rows = []
    for status, answer in operation["responses"].items():
        told = _resolved(answer, document)
        kinds = "<br>".join(
            f"{_kind(content['schema'])} <small>{escape(kind)}</small>"
            for kind, content in told.get("content", {}).items()
        )
        headers = "".join(f"<br>header {_code(name)}" for name in told.get("headers", {}))
        rows.append((_code(status), _text(told["description"]) + headers, kinds))
    yield _table(("status", "", "body"), rows)


def _schema(name: str, schema: Part) -> str:
    said = f"<p>{_text(schema['description'])}</p>" if "description" in schema else ""
    required = schema.get("required", ())
    rows = [
        (_code(field) + ("" if field in required else " <small>optional</small>"), _kind(kind), _rules(kind))
        for field, kind in schema.get("properties", {}).items()
    ]
    body = _table(("field", "type", ""), rows) if rows else f"<p>{_kind(schema)}</p>"
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{said}{body}</section>'


def _kind(schema: Part) -> str:
    """Return what values the schema takes, in a few words with links."""
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
    """Return what else is said of a field: its description, its default, its bounds."""
    names = ("minimum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "default")
    ruled = [part for part in (schema, *schema.get("anyOf", ())) if isinstance(part, Mapping)]
    rules = [f"{name} {_code(str(part[name]))}" for part in ruled for name in names if part.get(name) is not None]
    return "; ".join([*([_text(schema["description"])] if "description" in schema else []), *rules])


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
    """Return prose in which `words` may stand in backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
