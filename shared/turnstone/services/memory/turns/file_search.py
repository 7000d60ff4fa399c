"""Toolgroup `builtin::file_search`: search in the vector stores that a request names, with results to cite.

Source: the tool `file_search` of OpenAI's Responses API. The request fixes the stores and the settings of the search; a
model chooses the query alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnstone.domain.errors import InvalidRequest, ModelError, NotFound, ToolFailed
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.lent_banks import banks_in_arguments
from turnstone.domain.memory.questions import BankQuestion, Hit, QuestionFields, Ranker, ReciprocalRank, Weighted
from turnstone.domain.memory.vector_stores import file_of
from turnstone.domain.tools.cited_results import MOST_RESULTS, CitedResult, numbered_from, written_results
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef, ToolParameter
from turnstone.services.memory.recalling import RecalledBank, Recalling
from turnstone.services.memory.turns.lending import Lending
from turnstone.services.memory.turns.turn_memory import hits_of
from turnstone.store.memory.documents import StoredDocument

if TYPE_CHECKING:
    from turnstone.store.memory.bank_reads import OpenedBank

NAME = "file_search"
# returns those of the documents that a bank has, by id
DocumentsOf = Callable[[BankRef, Sequence[str]], Mapping[str, StoredDocument]]
USUAL_RESULTS = 10
FIELDS = QuestionFields(("ranking_options", "ranker"), ("ranking_options", "ranker"), ("max_num_results",))
SEARCH = ToolDef(
    name=NAME,
    description="Search the user's files for passages that help to answer.",
    parameters=(
        ToolParameter(
            name="query",
            parameter_type="string",
            description="What to search for: a question, a natural language sentence or keywords.",
        ),
    ),
)


class FileSearchToolbox:
    def __init__(self, lending: Lending, recalling: Recalling, documents: DocumentsOf) -> None:
        self._lending = lending
        self._recalling = recalling
        self._documents_of = documents

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the toolgroup's only tool."""
        return (SEARCH,)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Return the best passages, each under its mark. Raises ToolFailed."""
        query = invocation.arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ToolFailed("query: must be a text")
        try:
            return self._search(query, invocation)
        except (InvalidRequest, ModelError, NotFound) as problem:
            raise ToolFailed(str(problem)) from problem

    def _search(self, query: str, invocation: ToolInvocation) -> ToolResult:
        tenant, chosen = invocation.asker.tenant, invocation.fixed_arguments
        named = [bank_id for _, bank_id in banks_in_arguments(chosen)]
        opened = self._lending.open(tenant, invocation.banks, named)
        if not opened:
            raise ToolFailed("There is no vector store to search.")
        recalled = [RecalledBank(bank.stored, view=bank.view) for bank in opened]
        hits = hits_of(self._recalling, tenant, recalled, question_of(query, chosen), invocation.asker.provider_data)
        first = numbered_from(invocation.position)
        about = self._about(opened, hits)
        results = [CitedResult(first + index, about[index], hit.chunk.text) for index, hit in enumerate(hits)]
        return ToolResult(written_results(NAME, results))

    def _about(self, opened: Sequence[OpenedBank], hits: Sequence[Hit]) -> list[Mapping[str, Any]]:
        """Return file, score and attributes of each hit."""
        filenames: dict[tuple[str, str], str] = {}
        for bank in opened:
            names = sorted({hit.chunk.document_id for hit in hits if hit.bank_id == bank.ref.bank_id})
            for name, found in self._documents_of(bank.ref, names).items():
                filenames[bank.ref.bank_id, name] = found.document.filename or ""
        return [
            {
                "file_id": file_of(hit),
                "filename": filenames.get((hit.bank_id, hit.chunk.document_id)) or file_of(hit),
                "score": round(hit.score, 4),
                "attributes": _shown({**hit.chunk.metadata, **hit.attributes}),
            }
            for hit in hits
        ]


def question_of(query: str, chosen: Mapping[str, Any]) -> BankQuestion:
    """Return the question with the settings in the arguments of the toolgroup. Raises InvalidRequest for a filter."""
    filters, ranking = chosen.get("filters"), chosen.get("ranking_options") or {}
    return BankQuestion(
        query,
        None,
        mode="vector" if ranking.get("ranker") == "none" else None,
        max_chunks=min(int(chosen.get("max_num_results") or USUAL_RESULTS), MOST_RESULTS),
        filters=None if filters is None else parsed(filters, ("filters",)),
        ranker=_ranker(ranking),
        threshold=float(ranking.get("score_threshold") or 0.0),
        fields=FIELDS,
    )


def _ranker(ranking: Mapping[str, Any]) -> Ranker:
    if ranking.get("ranker") == "rrf":
        return ReciprocalRank()
    weights = ranking.get("hybrid_search")
    if not weights:
        return Weighted()
    of_vectors, of_keywords = float(weights["embedding_weight"]), float(weights["text_weight"])
    return Weighted(of_vectors / (of_vectors + of_keywords))


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)}
