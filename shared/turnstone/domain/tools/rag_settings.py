"""Settings of `builtin::rag`: the query, the number and the form of results.

Source: `QueryConfig` of `llama-stack-client` 0.2.12 and 0.2.23; null stands for the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.lent_banks import BANK_ARGUMENTS, RAG, banks_in_arguments
from turnstone.domain.memory.questions import QuestionFields, Ranker, ReciprocalRank, SearchMode, Weighted
from turnstone.domain.tools.memory_tools import JoinedQuery, WrittenQuery
from turnstone.domain.values.frozen import NullMeansDefault
from turnstone.domain.values.numbers import Count, count_schema

MOST_TOKENS = 1_000_000
MOST_CHUNKS = 1_000
FIELDS = QuestionFields(("query_config", "mode"), ("query_config", "ranker"), ("query_config", "max_chunks"))
CONTENT = "{chunk.content}"
_PLACEHOLDERS = re.compile(r"\{(index|chunk\.content|metadata)\}")
DEFAULT_TEMPLATE = "Result {index}\nContent: {chunk.content}\nMetadata: {metadata}\n"


def _refuse_without_content(template: str) -> str:
    if CONTENT not in template:
        raise ValueError(f"must contain {CONTENT}")
    return template


class SeparatedQuery(NullMeansDefault):
    type: Literal["default"] = "default"
    separator: str = " "


class RagRrfRanker(NullMeansDefault):
    type: Literal["rrf"]
    impact_factor: float = Field(default=60.0, gt=0, le=1e6, strict=True)


class RagWeightedRanker(NullMeansDefault):
    type: Literal["weighted"]
    alpha: float = Field(default=0.5, ge=0, le=1, strict=True)


class RagSettings(NullMeansDefault):
    """How `knowledge_search` searches. Without a mode, by vectors and keywords."""

    query_generator_config: Annotated[SeparatedQuery | WrittenQuery, Field(discriminator="type")] = (
        SeparatedQuery.model_construct()
    )
    max_tokens_in_context: Annotated[Count, Field(le=MOST_TOKENS), count_schema(MOST_TOKENS)] = 4_096
    max_chunks: Annotated[Count, Field(le=MOST_CHUNKS), count_schema(MOST_CHUNKS)] = 5
    chunk_template: Annotated[str, Field(max_length=4_096), AfterValidator(_refuse_without_content)] = DEFAULT_TEMPLATE
    mode: Literal["vector", "keyword", "hybrid"] = "hybrid"
    ranker: Annotated[RagRrfRanker | RagWeightedRanker, Field(discriminator="type")] | None = None

    @property
    def chosen_mode(self) -> SearchMode | None:
        """The mode, None if it was left out."""
        return self.mode if "mode" in self.model_fields_set else None

    @property
    def generator(self) -> JoinedQuery | WrittenQuery:
        """The query's generator in the form of memory tools."""
        given = self.query_generator_config
        return JoinedQuery(sep=given.separator) if isinstance(given, SeparatedQuery) else given

    @property
    def fusion(self) -> Ranker:
        """The ranker in the form of questions to banks."""
        match self.ranker:
            case RagRrfRanker(impact_factor=k):
                return ReciprocalRank(k)
            case RagWeightedRanker(alpha=alpha):
                return Weighted(alpha)
        return Weighted()

    def shown(self, index: int, content: str, metadata: str) -> str:
        """Return a result in the form of the template."""
        values = {"index": str(index), "chunk.content": content, "metadata": metadata}
        return _PLACEHOLDERS.sub(lambda found: values[found[1]], self.chunk_template)


def refuse_wrong_arguments(arguments: Mapping[str, Any], location: tuple[str | int, ...]) -> None:
    """Raise InvalidRequest, naming the key, for arguments of `builtin::rag` that are wrong or have no effect."""
    _refuse_unknown(arguments, (*BANK_ARGUMENTS, "query_config"), location)
    given, where = arguments.get("query_config"), (*location, "query_config")
    if isinstance(given, Mapping):
        _refuse_unknown(given, tuple(RagSettings.model_fields), where)
    rag_settings(given, where)
    for _ in banks_in_arguments(arguments, location):
        pass


def _refuse_unknown(given: Mapping[str, Any], fields: Sequence[str], location: tuple[str | int, ...]) -> None:
    if unknown := [name for name in given if name not in fields]:
        where = (*location, unknown[0])
        message = f"{'.'.join(map(str, where))}: this is no argument of {RAG}; there are {', '.join(fields)}"
        raise InvalidRequest(message, where)


def rag_settings(given: Any, location: tuple[str | int, ...] = ("query_config",)) -> RagSettings:
    """Return the settings in arguments, the defaults for none. Raises InvalidRequest, naming the field."""
    try:
        return RagSettings.model_validate({} if given is None else given)
    except ValidationError as wrong:
        problem = wrong.errors(include_input=False, include_url=False)[0]
        where = (*location, *problem["loc"])
        raise InvalidRequest(f"{'.'.join(map(str, where))}: {problem['msg']}", where) from None
