"""Formats in which a model without native tools writes calls. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnstone.adapters.models.prompted import function_tags, json_objects, python_lists
from turnstone.adapters.models.prompted.calls import Names, WrittenCall
from turnstone.adapters.models.prompted.cursor import Cursor
from turnstone.domain.agents.agents import ToolPromptFormat


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A format of calls.

    Attributes:
        how: the instructions for the model.
        written: formats calls, given by name and arguments, as text.
        read: parses the calls at a position in a text.
        is_bare: whether a call may stand alone in a line.
    """

    how: str
    written: Callable[[Sequence[tuple[str, Mapping[str, Any]]]], str]
    read: Callable[[Cursor, Names], tuple[WrittenCall, ...]]
    is_bare: bool = False


FORMATS: Mapping[ToolPromptFormat, ToolFormat] = {
    "json": ToolFormat(json_objects.HOW, json_objects.written, json_objects.read),
    "function_tag": ToolFormat(function_tags.HOW, function_tags.written, function_tags.read),
    "python_list": ToolFormat(python_lists.HOW, python_lists.written, python_lists.read, is_bare=True),
}
