"""JSON schemas of requests and answers, made from the models that parse and write them.

Imported with the OpenAPI document only, so that no route of agents builds schemas.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from turnstone.domain.values.frozen import NullMeansDefault

Schema = dict[str, Any]
REF = "#/components/schemas/{model}"
NULL: Schema = {"type": "null"}


@dataclass(frozen=True, slots=True)
class WireSchemas:
    """Schemas by type, for reading and for writing, and the named schemas that they reference."""

    read: Mapping[Any, Schema]
    written: Mapping[Any, Schema]
    named: Mapping[str, Schema]


def build_wire_schemas(read: Iterable[Any], written: Iterable[Any]) -> WireSchemas:
    """Return the schemas of the types. A type whose schemas differ for reading and writing has two names."""
    built = _built(tuple(dict.fromkeys(read)), tuple(dict.fromkeys(written)))
    of_read, of_written = ({kind: deepcopy(schema) for kind, schema in each.items()} for each in built[:2])
    return WireSchemas(read=of_read, written=of_written, named=deepcopy(built.named))


class _Built(NamedTuple):
    read: dict[Any, Schema]
    written: dict[Any, Schema]
    named: dict[str, Schema]


@lru_cache(maxsize=1)  # the document and its page, which one process serves, have the same schemas
def _built(read: tuple[Any, ...], written: tuple[Any, ...]) -> _Built:
    directions: list[tuple[Iterable[Any], Literal["validation", "serialization"]]] = [
        (read, "validation"),
        (written, "serialization"),
    ]
    adapters = [(kind, mode, TypeAdapter(kind)) for kinds, mode in directions for kind in kinds]
    schemas, defined = TypeAdapter.json_schemas(adapters, ref_template=REF, schema_generator=_WireSchema)
    return _Built(
        {kind: schema for (kind, mode), schema in schemas.items() if mode == "validation"},
        {kind: schema for (kind, mode), schema in schemas.items() if mode == "serialization"},
        defined.get("$defs", {}),
    )


class _WireSchema(GenerateJsonSchema):
    """Schemas with rules of our models that pydantic can't see, without titles, which are of no use to a client."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the answer is the same for all
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Return whether the field is always present.

        Answers hold every field, nulls and defaults included, except those with a condition for leaving them out.
        Bodies have to hold the tags that distinguish the members of a union.
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
    """Shorten a docstring to its first paragraph; the rest is for readers of the code."""
    if "description" in made:
        made["description"] = " ".join(made["description"].split("\n\n")[0].split())


def _is_tag(schema: Any) -> bool:
    """Return whether the schema is that of a tag: a literal with one value."""
    inner = schema["schema"] if schema["type"] == "default" else None
    return inner is not None and inner["type"] == "literal" and len(inner["expected"]) == 1


def _nullable(schema: Schema) -> Schema:
    """Return the schema with null as a further choice, the default at its top level."""
    choices = {name: value for name, value in schema.items() if name != "default"}
    if not choices or NULL in choices.get("anyOf", ()):
        return schema
    default = {"default": schema["default"]} if "default" in schema else {}
    return {"anyOf": [choices, NULL], **default}
