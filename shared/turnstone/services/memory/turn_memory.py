"""The memory of turns: their query, and the context that the banks have for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.agents.defined_tools import memory_tool_of
from turnstone.domain.memory.excerpts import context_of, titled
from turnstone.domain.memory.lent_banks import LentBanks
from turnstone.domain.memory.memory_query import MemoryQuery, Retrieved
from turnstone.domain.memory.questions import BankQuestion, Hit
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.tools.memory_tools import MemoryTool
from turnstone.domain.turns.retrieval import QuerySource, TurnMemory
from turnstone.domain.values.content import text_of
from turnstone.ports.memory import QueryTools
from turnstone.services.memory.lending import Lending, caller_of
from turnstone.services.memory.query_making import QueryMaking
from turnstone.services.memory.searching import Searching
from turnstone.services.memory.session_banks import SessionBanks, SessionText
from turnstone.store.memory.bank_reads import OpenedBank


@dataclass(frozen=True, slots=True)
class TurnMemoryDeps:
    """Dependencies of the memory of turns; what searches and inserts is loaded for the first turn that has memory."""

    lending: Lending
    queries: QueryMaking
    searching: Callable[[], Searching]
    session_banks: SessionBanks


class MemoryOfTurns:
    def __init__(self, deps: TurnMemoryDeps) -> None:
        self._deps = deps

    def refuse(self, tenant: str, config: AgentConfig, banks: LentBanks) -> None:
        """Raise InvalidRequest, naming the field, for memory that no turn of the configuration can read."""
        memory = memory_tool_of(config)
        if memory is not None:
            self._deps.queries.refuse_unknown(tenant, memory.query_generator_config)
        self._deps.lending.refuse_unusable(tenant, banks.named)

    def of(self, turn: TurnMemory, tools: QueryTools) -> RetrievalOfTurn:
        """Return the memory of the turn, whose query may be made by one of these tools."""
        return RetrievalOfTurn(self._deps, turn, tools)


class RetrievalOfTurn:
    """The memory of one turn."""

    def __init__(self, deps: TurnMemoryDeps, turn: TurnMemory, tools: QueryTools) -> None:
        self._deps = deps
        self._turn = turn
        self._tools = tools
        self._settings = memory_tool_of(turn.config) or MemoryTool(type="memory")
        self.input_shields = self._settings.input_shields
        self.output_shields = self._settings.output_shields

    def query(self, source: QuerySource) -> MemoryQuery:
        """Return the query, as the agent's memory tool has it made."""
        generator = self._settings.query_generator_config
        turn = self._turn
        key = f"{turn.ref.turn_id}:memory"

        def call(name: str, values: Mapping[str, Any]) -> str:
            return self._tools.query_by(name, values, key, source.stop)

        return self._deps.queries.query(turn.ref.tenant, generator, source, call, turn.provider_data)

    def retrieve(self, query: str) -> Retrieved:
        """Store the turn's attachments, and return the context that the banks have for the query."""
        turn, settings = self._turn, self._settings
        if turn.attachments:
            self._keep_attachments()
        names = [each.bank_id for each in settings.memory_bank_configs]
        opened = self._deps.lending.open(turn.ref.tenant, turn.banks, [*names, *turn.banks.of_session])
        most = min(settings.max_chunks, settings.max_tokens_in_context)  # a chunk has one token at least
        question = BankQuestion(query, None, max_chunks=most)
        hits = found_in(self._deps.searching, opened, question, turn.provider_data) if query.strip() else ()
        context = context_of([titled(hit) for hit in hits], settings.max_tokens_in_context)
        return Retrieved(tuple(bank.ref.bank_id for bank in opened), context)

    def _keep_attachments(self) -> None:
        turn = self._turn
        (stamp,) = {each.by for each in turn.banks.named if each.is_optional}
        texts = [
            SessionText(f"{turn.ref.turn_id}-{number}", text_of(given.content), given.mime_type)
            for number, given in enumerate(turn.attachments)
        ]
        self._deps.session_banks.keep(turn.ref.session, stamp, texts, turn.provider_data)


def found_in(
    searching: Callable[[], Searching],
    opened: Sequence[OpenedBank],
    question: BankQuestion,
    provider_data: ProviderData,
) -> tuple[Hit, ...]:
    """Return the best chunks of these banks, as of one. Raises MemoryUnusable, ModelError."""
    if not opened:
        return ()
    caller = caller_of(opened[0].ref.tenant, opened[0].stored.bank.stamp)
    banks, views = [bank.stored for bank in opened], [bank.view for bank in opened]
    return searching().search_banks(caller, banks, question, provider_data, views)
