"""Requests of Letta's API about tools of Python."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import to_json

from turnstone.dialects.letta.environment import Variables
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.letta.python_runs import SourceRun
from turnstone.domain.letta.python_source import PythonFunction, function_in
from turnstone.domain.letta.tools import (
    MOST_RETURN,
    MOST_SOURCE,
    RETURN_CHARACTERS,
    CustomTool,
    ReturnLimit,
)
from turnstone.domain.values.frozen import JsonObject, Many, NullMeansDefault
from turnstone.domain.values.object_schemas import refuse_no_object

MOST_SCHEMA_BYTES = 50_000


def refuse_no_tool(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema. Raises ValueError unless it describes a tool by its parameters."""
    if not isinstance(schema.get("parameters"), dict):
        raise ValueError("must have parameters, a JSON schema of an object")
    refuse_no_object(schema["parameters"])
    if len(to_json(schema)) > MOST_SCHEMA_BYTES:
        raise ValueError(f"has more than {MOST_SCHEMA_BYTES} bytes as JSON")
    return schema


Source = Annotated[str, Field(min_length=1, max_length=MOST_SOURCE)]
FunctionName = Annotated[str, Field(min_length=1, max_length=64)]
About = Annotated[str, Field(max_length=10_000)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
Tags = Annotated[Many[Tag], Field(max_length=100)]
ToolSchema = Annotated[JsonObject, AfterValidator(refuse_no_tool)]


class CreateTool(NullMeansDefault):
    """A new tool of Python."""

    source_code: Source
    name: FunctionName | None = None
    description: About | None = None
    tags: Tags = ()
    source_type: Literal["python"] | None = None
    json_schema: ToolSchema | None = None
    return_char_limit: ReturnLimit = RETURN_CHARACTERS

    def to_new(self) -> CustomTool:
        """Return the tool to create. Raises InvalidRequest for source that no tool can be made of."""
        found = _function(self.source_code, self.name, self.json_schema)
        return CustomTool(
            tool_id="",
            tags=tuple(dict.fromkeys(self.tags)),
            source_code=self.source_code,
            return_char_limit=self.return_char_limit,
            **{**_fields_of(found), **({} if self.description is None else {"description": self.description})},
        )


class UpdateTool(NullMeansDefault):
    """Changes of a tool of Python; a missing or null field stays as it is."""

    description: About | None = None
    name: FunctionName | None = None
    tags: Tags | None = None
    source_code: Source | None = None
    source_type: Literal["python"] | None = None
    json_schema: ToolSchema | None = None
    return_char_limit: ReturnLimit | None = None

    def to_change(self) -> Callable[[CustomTool], CustomTool]:
        """Return the change of a tool, which raises InvalidRequest for source that no tool can be made of."""

        def change(tool: CustomTool) -> CustomTool:
            changes: dict[str, Any] = {}
            if self.source_code is not None or self.name is not None or self.json_schema is not None:
                source = self.source_code or tool.source_code
                name = self.name if self.source_code is not None or self.name is not None else tool.name
                changes = {"source_code": source, **_fields_of(_function(source, name, self.json_schema))}
            if self.tags is not None:
                changes["tags"] = tuple(dict.fromkeys(self.tags))
            for name in ("description", "return_char_limit"):
                if getattr(self, name) is not None:
                    changes[name] = getattr(self, name)
            return tool.model_copy(update=changes)

        return change


class RunTool(NullMeansDefault):
    """A run of a function that is not stored."""

    source_code: Source
    args: JsonObject
    env_vars: Variables = {}
    name: FunctionName | None = None
    source_type: Literal["python"] | None = None

    def to_run(self) -> SourceRun:
        """Return the function to run. Raises InvalidRequest for source that no tool can be made of."""
        found = function_in(self.source_code, self.name)
        tool = CustomTool(tool_id="", source_code=self.source_code, return_char_limit=MOST_RETURN, **_fields_of(found))
        return SourceRun(tool, self.args, self.env_vars)


def _function(source: str, name: str | None, schema: Mapping[str, Any] | None) -> PythonFunction:
    """Return the function. Raises InvalidRequest, also for a schema of another name."""
    found = function_in(source, name, schema)
    named = None if schema is None else schema.get("name")
    if named is not None and named != found.name:
        raise InvalidRequest(f"json_schema: its name must be that of the function, {found.name!r}", ("json_schema",))
    return found


def _fields_of(found: PythonFunction) -> dict[str, Any]:
    return found._asdict()
