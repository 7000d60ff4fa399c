"""JSON schemas of what goes over the wire, made from the models that parse and write it.

Never imported by a route: building schemas is for those who print the document, not for those who serve.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from turnstone.domain.values.frozen import NullMeansDefault

Schema = dict[str, Any]
REF = "#/components/schemas/{model}"
NULL: Schema = {"type": "null"}


@dataclass(frozen=True, slots=True)
class WireSchemas:
    """Schemas by the type they describe, as it is read and as it is written, and the named ones they refer to."""

    read: Mapping[Any, Schema]
    written: Mapping[Any, Schema]
    named: Mapping[str, Schema]


def build_wire_schemas(read: Iterable[Any], written: Iterable[Any]) -> WireSchemas:
    """Return the schemas of the types. One that looks different read and written has two names."""
    directions: list[tuple[Iterable[Any], Literal["validation", "serialization"]]] = [
        (read, "validation"),
        (written, "serialization"),
    ]
    adapters = [(kind, mode, TypeAdapter(kind)) for kinds, mode in directions for kind in dict.fromkeys(kinds)]
    schemas, defined = TypeAdapter.json_schemas(adapters, ref_template=REF, schema_generator=_WireSchema)
    return WireSchemas(
        read={kind: schema for (kind, mode), schema in schemas.items() if mode == "validation"},
        written={kind: schema for (kind, mode), schema in schemas.items() if mode == "serialization"},
        named=defined.get("$defs", {}),
    )


class _WireSchema(GenerateJsonSchema):
    """Says of our models what pydantic can't see in them, and leaves out what tells a client nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the answer is the same for all
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Answers hold every field, nulls and defaults too, but for those that say when they are left out.

        Bodies need the tags that tell a union's members apart.
        """
        if self.mode == "serialization":
            return "serialization_exclude_if" not in field
        return _is_tag(field["schema"]) or super().field_is_required(field, total)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if self.mode == "serialization" or _is_tag(schema):
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        made = super().enum_schema(schema)
        _keep_first_paragraph(made)
        return made

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        del made["title"]
        _keep_first_paragraph(made)
        if self.mode == "validation" and issubclass(schema["cls"], NullMeansDefault):
            required = made.get("required", ())
            for name, value in made.get("properties", {}).items():
                if name not in required:
                    made["properties"][name] = _nullable(value)
        return made


def _keep_first_paragraph(made: JsonSchemaValue) -> None:
    """Shorten a description that is a docstring: what follows its first paragraph is for readers of the code."""
    if "description" in made:
        made["description"] = " ".join(made["description"].split("\n\n")[0].split())


def _is_tag(schema: Any) -> bool:
    """Tell whether a field's schema is that of a tag: its default is the only value it can have."""
    inner = schema["schema"] if schema["type"] == "default" else None
    return inner is not None and inner["type"] == "literal" and len(inner["expected"]) == 1


def _nullable(schema: Schema) -> Schema:
    """Return the schema of a value that may be null as well; its default stays where readers look for it."""
    choices = {name: value for name, value in schema.items() if name != "default"}
    if not choices or NULL in choices.get("anyOf", ()):
        return schema
    default = {"default": schema["default"]} if "default" in schema else {}
    return {"anyOf": [choices, NULL], **default}
