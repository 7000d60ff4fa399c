"""Retrieval of memory for one turn, before its first inference: the sources of its query, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.memory.lent_banks import NO_BANKS, RAG, RAG_SEARCH, LentBanks
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData

if TYPE_CHECKING:
    from turnstone.domain.agents.agents import AgentConfig
    from turnstone.domain.messages.messages import Message
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.tools.tool_runs import ToolOffer
    from turnstone.domain.turns.turn_settings import TurnDocument
    from turnstone.domain.values.cancellation import StopSignal


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


class TurnMemory(NamedTuple):
    """The settings of a turn from which its memory follows.

    Attributes:
        banks: those that it may read.
        attachments: texts that are added to its session's bank first.
        provider_data: keys of the caller, for this run only.
    """

    ref: TurnRef
    config: AgentConfig
    banks: LentBanks = NO_BANKS
    attachments: tuple[TurnDocument, ...] = ()
    provider_data: ProviderData = NO_PROVIDER_DATA


def reads_memory(turn: TurnMemory, offer: ToolOffer) -> bool:
    """Return whether the turn reads memory before its first inference.

    It does for its attachments, for the banks of its memory tool, and for those of its session unless its model is
    offered a tool that searches them.
    """
    if turn.attachments:
        return True
    memory = next((tool for tool in turn.config.tools if tool.type == "memory"), None)
    if memory is not None:
        return bool(memory.memory_bank_configs or turn.banks.of_session)
    is_searched = any(tool.toolgroup == RAG and tool.runs_as == RAG_SEARCH for tool in offer.server.values())
    return bool(turn.banks.of_session) and not is_searched
