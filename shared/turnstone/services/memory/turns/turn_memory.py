"""The memory of turns: their query, and the context that the banks have for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.agents.defined_tools import memory_tool_of
from turnstone.domain.errors import MemoryProviderError, MemoryUnusable, NotFound
from turnstone.domain.memory.lent_banks import LentBanks
from turnstone.domain.memory.memory_query import MemoryQuery, Retrieved
from turnstone.domain.memory.questions import BankQuestion, Hit
from turnstone.domain.memory.texts.excerpts import context_of, titled
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.tools.memory_tools import AgentMemory, GraphMemory, KeyValueMemory, MemoryTool
from turnstone.domain.turns.retrieval import QuerySource, TurnMemory
from turnstone.domain.values.content import text_of
from turnstone.ports.memory import QueryTools
from turnstone.services.memory.recalling import RecalledBank, Recalling
from turnstone.services.memory.turns.lending import Lending, caller_of
from turnstone.services.memory.turns.query_making import QueryMaking
from turnstone.services.memory.turns.session_banks import SessionBanks, SessionText
from turnstone.store.memory.bank_reads import OpenedBank


@dataclass(frozen=True, slots=True)
class TurnMemoryDeps:
    lending: Lending
    queries: QueryMaking
    recalling: Recalling
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
        tenant, configs = turn.ref.tenant, settings.memory_bank_configs
        names = [*(each.bank_id for each in configs), *turn.banks.of_session]
        opened = self._deps.lending.open(tenant, turn.banks, names)
        most = min(settings.max_chunks, settings.max_tokens_in_context)  # a chunk has one token at least
        banks = [recalled for bank in opened for recalled in _recalled(bank, configs)]
        question = BankQuestion(query, None, max_chunks=most)
        hits = hits_of(self._deps.recalling, tenant, banks, question, turn.provider_data)
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


def hits_of(
    recalling: Recalling,
    tenant: str,
    banks: Sequence[RecalledBank],
    question: BankQuestion,
    provider_data: ProviderData,
) -> tuple[Hit, ...]:
    """Return the content that the banks have for the question. Raises InvalidRequest, ModelError, ContentLost."""
    if not banks:
        return ()
    try:
        return recalling.recall(caller_of(tenant, Ownership()), banks, question, provider_data)
    except (NotFound, MemoryProviderError) as problem:  # deleted since it was read, or its store fails
        raise MemoryUnusable(str(problem)) from problem


def _recalled(bank: OpenedBank, configs: Sequence[AgentMemory]) -> Iterator[RecalledBank]:
    """Yield the bank to query, once for each of its configurations with other keys or entities."""
    named: dict[tuple[tuple[str, ...], tuple[str, ...]], None] = {}
    for config in configs:
        if config.bank_id == bank.ref.bank_id:
            keys = config.keys if isinstance(config, KeyValueMemory) else ()
            entities = config.entities if isinstance(config, GraphMemory) else ()
            named[keys, entities] = None
    for keys, entities in named or {((), ()): None}:
        yield RecalledBank(bank.stored, keys, entities, view=bank.view)
