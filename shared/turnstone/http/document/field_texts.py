"""A description and an example of every field of the API's document, read from `fields.toml`.

Imported with the document only, so that no route of agents loads it.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

Schema = dict[str, Any]
FILE = Path(__file__).with_name("fields.toml")
REF = "#/components/schemas/"
NULL = {"null": True}
MISSING = object()


class FieldText(NamedTuple):
    """The table's text of a field; the example is MISSING if the field's schema shows one."""

    description: str
    example: Any = MISSING


def add_field_texts(document: Schema) -> None:
    """Describe every field, parameter and header of the document, and give an example of each, and of each body."""
    document["components"]["schemas"] = _unshared(document["components"]["schemas"])
    examples = _Examples(document["components"]["schemas"])
    for name, schema in document["components"]["schemas"].items():
        for path, field in fields_in(schema, plain_name(name)):
            _describe(field, _text(path), examples.of(field, path))
    for operation in (operation for item in document["paths"].values() for operation in item.values()):
        for parameter in operation.get("parameters", ()):
            _describe_parameter(parameter, examples)
        answers = (operation["responses"].get(status, {}) for status in ("200", "202"))
        for holder in (operation.get("requestBody", {}), *answers):
            for kind, content in holder.get("content", {}).items():
                example = examples.of(content["schema"])
                if kind == "application/json" and example is not MISSING:
                    content["example"] = example
        _describe_headers(operation["responses"])
    _describe_headers(document["components"]["responses"])
    for parameter in document["components"]["parameters"].values():
        _describe_parameter(parameter, examples)


def fields_in(schema: Any, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield each field within the schema with its path, without the fields of referenced schemas."""
    if isinstance(schema, list):
        for part in schema:
            yield from fields_in(part, path)
    elif isinstance(schema, dict):
        for name, field in schema.get("properties", {}).items():
            yield f"{path}.{name}", field
            yield from fields_in(field, f"{path}.{name}")
        for keyword in ("items", "anyOf", "oneOf"):
            yield from fields_in(schema.get(keyword), path)


def plain_name(schema: str) -> str:
    """Return the name of a schema in the table."""
    return schema.rpartition("__")[2].removesuffix("-Input").removesuffix("-Output")


@cache
def field_texts() -> Mapping[str, FieldText]:
    """Return the texts of the table, by its keys."""
    return {key: FieldText(*map(_value, row)) for key, row in tomllib.loads(FILE.read_text()).items()}


def _unshared(part: Any) -> Any:
    """Return a deep copy without shared objects: the text of one field must not appear at another."""
    if isinstance(part, dict):
        return {name: _unshared(value) for name, value in part.items()}
    return [_unshared(value) for value in part] if isinstance(part, list) else part


def _value(written: Any) -> Any:
    """Return a value of the table, None for `NULL`: TOML has no null."""
    return None if written == NULL else written


def _text(path: str) -> FieldText:
    """Return the table's text of the field at the path, else of all fields with its name."""
    texts = field_texts()
    name = path.rpartition(".")[2]
    text = texts.get(path) or texts.get(name, FieldText(""))
    if text.description or name not in texts:
        return text
    return text._replace(description=texts[name].description)


def _shown(schema: Schema, path: str) -> Any:
    """Return the example of the table's line for the field's path, else the schema's own, else that of its name."""
    if "examples" in schema and path not in field_texts():
        return schema["examples"][0]
    return _text(path).example if path else MISSING


def _describe(field: Schema, text: FieldText, example: Any) -> None:
    if text.description:
        field.setdefault("description", text.description)
    if example is not MISSING:
        field.setdefault("examples", [example])


def _describe_parameter(parameter: Schema, examples: "_Examples") -> None:
    if "$ref" in parameter:
        return
    path = f"{parameter['in']}.{parameter['name'].lower() if parameter['in'] == 'header' else parameter['name']}"
    text = _text(path)
    example = text.example if text.example is not MISSING else examples.of(parameter["schema"])
    if parameter["schema"].get("type") == "array" and not isinstance(example, list):
        example = [example]
    if text.description:
        parameter.setdefault("description", text.description)
    if example is not MISSING:
        parameter.setdefault("example", example)


def _describe_headers(responses: Schema) -> None:
    for response in responses.values():
        for name, header in response.get("headers", {}).items():
            text = _text(f"header.{name}")
            if text.description:
                header.setdefault("description", text.description)
            example = header["schema"].get("const", text.example)
            if example is not MISSING:
                header.setdefault("example", example)


class _Examples:
    """Examples of schemas: from the table, else from the schema, else made of its fields' examples."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._made: dict[str, Any] = {}

    def of(self, schema: Schema, path: str = "") -> Any:
        """Return an example of the schema of the field at the path, MISSING if there is none."""
        if (shown := _shown(schema, path)) is not MISSING:
            return shown
        for keyword in ("const", "default"):
            if schema.get(keyword) is not None:
                return schema[keyword]
        if "$ref" in schema:
            return self._of_named(schema["$ref"].removeprefix(REF))
        if "enum" in schema:
            return schema["enum"][0]
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                return self._of_choices(schema[keyword], path)
        if schema.get("type") == "array":
            items = schema.get("items", {})
            member = self._of_object(items, path) if "properties" in items else self.of(items)
            return MISSING if member is MISSING else [member]
        if "properties" in schema:
            return self._of_object(schema, path)
        return {"boolean": True, "null": None}.get(str(schema.get("type")), MISSING)

    def _of_choices(self, choices: list[Schema], path: str) -> Any:
        """Return an example of the first choice that has one, null only if no other choice exists."""
        chosen = [choice for choice in choices if choice != {"type": "null"}]
        made = (self.of(choice) if "properties" not in choice else self._of_object(choice, path) for choice in chosen)
        found = next((example for example in made if example is not MISSING), MISSING)
        return None if found is MISSING and not chosen else found

    def _of_named(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = MISSING  # a recursive schema has no example within its own
            written = field_texts().get(plain_name(name), FieldText("")).example
            schema = self._schemas[name]
            made = self._of_object(schema, plain_name(name)) if "properties" in schema else self.of(schema)
            self._made[name] = made if written is MISSING else written
        return self._made[name]

    def _of_object(self, schema: Schema, path: str) -> Any:
        """Return an object of the required fields, without those that have no example."""
        required = schema.get("required", ())
        made = {
            name: self.of(field, f"{path}.{name}") for name, field in schema["properties"].items() if name in required
        }
        return {name: example for name, example in made.items() if example is not MISSING}
