"""Tools of a response that this server runs, as a request declares them.

Source: the types of `openai` 3.54.0. A setting that the server's tool has not is refused, but not its neutral value,
which some clients always send.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic import Strict as ByType

from turnstone.dialects.openai.strict import StrictRequest
from turnstone.dialects.openai.vector_stores.chunking import whole
from turnstone.dialects.openai.vector_stores.searches import MOST_RESULTS, RankingOptions
from turnstone.domain.agents.agents import ToolGroupWithArgs
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.lent_banks import FILE_SEARCH
from turnstone.domain.values.frozen import JsonObject, JsonValue, Many

MOST_STORES = 64
Weight = Annotated[float, Field(ge=0, le=1e6), ByType()]


class HostedRequest(StrictRequest):
    """A tool that this server runs."""

    def to_echo(self) -> JsonObject:
        """Return the tool as a response shows it."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_toolgroup(self) -> ToolGroupWithArgs:
        """Return the toolgroup that runs it, with its settings as fixed arguments."""
        raise NotImplementedError


class HybridSearch(StrictRequest):
    """The weights of vectors and of keywords in a search."""

    embedding_weight: Weight
    text_weight: Weight

    @model_validator(mode="after")
    def have_weight(self) -> Self:
        if not self.embedding_weight + self.text_weight:
            raise ValueError("one of embedding_weight and text_weight must be above 0")
        return self


class FileSearchRanking(RankingOptions):
    hybrid_search: HybridSearch | None = None

    @model_validator(mode="after")
    def fuse_once(self) -> Self:
        if self.hybrid_search is not None and self.ranker in ("none", "rrf"):
            raise ValueError(f"hybrid_search: {self.ranker!r} has no weights; leave one of them out")
        return self


class FileSearch(HostedRequest):
    type: Literal["file_search"]
    vector_store_ids: Annotated[Many[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=MOST_STORES)]
    filters: JsonValue = None
    max_num_results: Annotated[int, Field(ge=1, le=MOST_RESULTS), BeforeValidator(whole)] | None = None
    ranking_options: FileSearchRanking | None = None

    @field_validator("filters")
    @classmethod
    def refuse_unreadable(cls, value: Any) -> Any:
        if value is not None:
            try:
                parsed(value, ("filters",))
            except InvalidRequest as wrong:
                raise ValueError(str(wrong).removeprefix("filters: ")) from wrong
        return value

    def to_toolgroup(self) -> ToolGroupWithArgs:
        args = self.model_dump(mode="json", exclude_none=True, exclude={"type"})
        return ToolGroupWithArgs(name=FILE_SEARCH, args=args)
