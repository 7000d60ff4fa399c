"""Queries for retrieval outside of turns: several vector databases as one, and an answer within a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.memory.banks import SEARCHED
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.tools.memory_tools import WrittenQuery
from turnstone.domain.tools.rag_settings import FIELDS, RagSettings
from turnstone.domain.tools.tool_runs import ToolResult
from turnstone.domain.turns.retrieval import QuerySource
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.searching import Searching
from turnstone.services.memory.turns.query_making import QueryMaking
from turnstone.services.memory.turns.rag_toolbox import answer_of, no_tool
from turnstone.store.memory.banks import KIND, StoredBank


@dataclass(frozen=True, slots=True)
class RagQueryDeps:
    """Dependencies of queries. `slot` holds a slot for a direct request to a model."""

    banks: Banks
    searching: Searching
    queries: QueryMaking
    slot: Callable[[Caller], AbstractContextManager[None]]


class RagQueries:
    def __init__(self, deps: RagQueryDeps) -> None:
        self._deps = deps

    def query(
        self, caller: Caller, bank_ids: Sequence[str], text: str, settings: RagSettings, provider_data: ProviderData
    ) -> ToolResult:
        """Return the best results as an answer for a model, and which they are as metadata.

        Raises:
            NotFound: one of the banks is missing, or is not one that is searched.
            InvalidRequest: the template makes too much of the text, or a bank has no vectors for this mode.
            DayLimitReached, Overloaded: a model writes the query, and has no slot for that now.
            ModelError: the query could not be written or embedded.
        """
        banks = [self._searched(caller, bank_id) for bank_id in dict.fromkeys(bank_ids)]
        generator = settings.generator
        with self._deps.slot(caller) if isinstance(generator, WrittenQuery) else nullcontext():
            source = QuerySource((UserMessage(content=text),))
            written = self._deps.queries.query(caller.tenant, generator, source, no_tool, provider_data)
        most = min(settings.max_chunks, settings.max_tokens_in_context)  # a chunk has one token at least
        mode, ranker = settings.chosen_mode, settings.fusion
        question = BankQuestion(written.text, None, mode, most, ranker=ranker, fields=FIELDS)
        hits = self._deps.searching.search_banks(caller, banks, question, provider_data) if banks else ()
        return answer_of(hits, text, settings)

    def _searched(self, caller: Caller, bank_id: str) -> StoredBank:
        stored = self._deps.banks.visible(caller, bank_id)
        if stored.bank.kind not in SEARCHED:
            raise NotFound(KIND, bank_id)
        return stored
