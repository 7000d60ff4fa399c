"""Queries to memory, and the context that was found for them."""

from __future__ import annotations

from typing import NamedTuple

from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.frozen import Frozen


class MemoryQuery(Frozen):
    """The query to memory.

    Attributes:
        usage: the tokens used, where a model wrote it.
        model: the agent's name of that model.
    """

    text: str
    usage: TokenUsage | None = None
    model: str = ""


class Retrieved(NamedTuple):
    """The content of banks for a query; the context is empty if they have nothing."""

    bank_ids: tuple[str, ...]
    context: str
