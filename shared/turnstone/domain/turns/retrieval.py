"""Retrieval of memory for one turn, before its first inference: the query, and the context that was found."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.frozen import Frozen

if TYPE_CHECKING:
    from turnstone.domain.messages.messages import Message
    from turnstone.domain.values.cancellation import StopSignal


class MemoryQuery(Frozen):
    """The query to memory.

    Attributes:
        usage: the tokens used, where a model wrote it.
        model: the agent's name of that model.
    """

    text: str
    usage: TokenUsage | None = None
    model: str = ""


class QuerySource(NamedTuple):
    """The parts of a conversation from which a query is made.

    Attributes:
        messages: of the turn, without its documents.
        history: of earlier turns, as far as its model is shown them.
        stop: cancels the request to a model or a tool.
        about: ids of the turn, for the log.
    """

    messages: tuple[Message, ...]
    history: tuple[Message, ...] = ()
    stop: StopSignal | None = None
    about: Mapping[str, str] = MappingProxyType({})


class Retrieved(NamedTuple):
    """The content of banks for a query; the context is empty if they have nothing."""

    bank_ids: tuple[str, ...]
    context: str
