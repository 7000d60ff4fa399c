"""Searches in a vector store on OpenAI's wire.

Source: the types of `openai` 3.54.0, and of `llama-stack-client` 0.2.12 to 0.3.5, whose `search_mode` names the index.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field
from pydantic import Strict as ByType

from turnstone.dialects.openai.strict import StrictRequest
from turnstone.dialects.openai.vector_stores.chunking import whole
from turnstone.dialects.openai.vector_stores.store_files import StoreText
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.questions import (
    LONGEST_QUESTION,
    BankQuestion,
    QuestionFields,
    ReciprocalRank,
    SearchMode,
    Weighted,
    check_question,
)
from turnstone.domain.memory.vector_stores import StoreHit
from turnstone.domain.values.frozen import Frozen, JsonValue, Many
from turnstone.domain.values.numbers import Flag

MOST_QUERIES = 16
MOST_RESULTS, USUAL_RESULTS = 50, 10
FIELDS = QuestionFields(("search_mode",), ("ranking_options", "ranker"), ("max_num_results",))
# The limit is checked apart from the type, so that an error names the field as the request has it.
SearchedText = Annotated[str, Field(json_schema_extra={"maxLength": LONGEST_QUESTION})]


class RankingOptions(StrictRequest):
    """How results are ranked, and the least score of one."""

    ranker: Literal["auto", "default-2024-11-15", "none", "weighted", "rrf"] = "auto"
    score_threshold: Annotated[float, Field(ge=0, le=1), ByType()] = 0.0


class SearchVectorStore(StrictRequest):
    """A search; of several queries, a chunk has the score of the one that it answers best.

    All queries together have 32,768 characters at most.
    """

    query: SearchedText | Annotated[Many[SearchedText], Field(min_length=1, max_length=MOST_QUERIES)]
    filters: JsonValue = None
    max_num_results: Annotated[int, Field(ge=1, le=MOST_RESULTS), BeforeValidator(whole)] = USUAL_RESULTS
    ranking_options: RankingOptions = RankingOptions.model_construct()
    rewrite_query: Flag = False
    search_mode: SearchMode | None = None

    def to_questions(self) -> list[BankQuestion]:
        """Return the questions.

        Raises:
            InvalidRequest: for a filter, or a query that is blank or too long.
            Unsupported: to rewrite the query.
        """
        if self.rewrite_query:
            problem = "this server searches for the query as it is; send false, or leave it out"
            raise Unsupported(f"rewrite_query: {problem}", ("rewrite_query",))
        filters = None if self.filters is None else parsed(self.filters, ("filters",))
        ranker = ReciprocalRank() if self.ranking_options.ranker == "rrf" else Weighted()
        return [
            BankQuestion(
                text,
                None,
                self._mode(),
                self.max_num_results,
                filters,
                ranker,
                self.ranking_options.score_threshold,
                fields=FIELDS,
            )
            for text in self._texts()
        ]

    def _texts(self) -> Sequence[str]:
        texts = (self.query,) if isinstance(self.query, str) else self.query
        for number, text in enumerate(texts):
            location = ("query",) if isinstance(self.query, str) else ("query", number)
            if not text.strip():
                raise InvalidRequest(f"{'.'.join(map(str, location))}: must have a text", ("query",))
        check_question("".join(texts), ("query",))
        return texts

    def _mode(self) -> SearchMode | None:
        """Return the indexes to search, None for those that the store has.

        Without a ranker nothing is fused: the order is that of vectors alone.
        """
        if self.ranking_options.ranker != "none":
            return self.search_mode
        if self.search_mode == "hybrid":
            problem = "'none' fuses no scores; leave search_mode out, or send 'vector' or 'keyword'"
            raise InvalidRequest(f"ranking_options.ranker: {problem}", ("ranking_options", "ranker"))
        return self.search_mode or "vector"


class StoreResult(Frozen):
    """A found chunk of a file."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, Any]
    content: tuple[StoreText, ...]

    @classmethod
    def of(cls, found: StoreHit) -> Self:
        values = {**found.hit.chunk.metadata, **found.hit.attributes}
        return cls(
            file_id=found.file_id,
            filename=found.filename,
            score=found.hit.score,
            attributes={name: value for name, value in values.items() if isinstance(value, str | int | float)},
            content=(StoreText(text=found.hit.chunk.text),),
        )


class StoreResults(Frozen):
    """The results of a search, the best first."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: str | tuple[str, ...]
    data: tuple[StoreResult, ...]
    has_more: Literal[False] = False
    next_page: None = None

    @classmethod
    def of(cls, query: str | tuple[str, ...], hits: Sequence[StoreHit]) -> Self:
        return cls(search_query=query, data=tuple(map(StoreResult.of, hits)))
