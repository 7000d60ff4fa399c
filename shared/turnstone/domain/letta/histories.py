"""An agent to import: its messages are turns that have ended. Pure."""

from datetime import datetime
from typing import NamedTuple

from turnstone.domain.letta.agents import NewLettaAgent
from turnstone.domain.letta.tools import CustomTool
from turnstone.domain.messages.messages import Message
from turnstone.domain.tools.tools import ToolCall, ToolResponse


class PastInference(NamedTuple):
    """An answer of the model: its text, and its calls."""

    text: str
    calls: tuple[ToolCall, ...]
    at: datetime


class PastAnswers(NamedTuple):
    """Answers of tools to calls of the inference before them, with those calls."""

    calls: tuple[ToolCall, ...]
    answers: tuple[ToolResponse, ...]
    at: datetime


class PastTurn(NamedTuple):
    """A turn that has ended elsewhere.

    Attributes:
        at: when it began.
    """

    messages: tuple[Message, ...]
    steps: tuple[PastInference | PastAnswers, ...]
    at: datetime


class Imported(NamedTuple):
    """An agent to create.

    Attributes:
        tools: its tools of Python, which may exist.
        replaces_tools: whether existing tools of their names are replaced; they are used otherwise.
    """

    new: NewLettaAgent
    past: tuple[PastTurn, ...] = ()
    tools: tuple[CustomTool, ...] = ()
    replaces_tools: bool = True
