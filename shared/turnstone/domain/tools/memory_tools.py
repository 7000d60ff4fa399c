"""The memory tool of an agent as in September 2024: the banks that its turns read, and the query to them.

Source: the API of that time, as far as `llama-stack-2024.md` of the contract describes it. There a query of the type
`custom` had no implementation, and so no settings.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from turnstone.domain.values.frozen import Many, NullMeansDefault
from turnstone.domain.values.numbers import Count

MOST_BANKS = 64
MOST_NAMES = 100


def _refuse_unreadable(template: str) -> str:
    from turnstone.domain.memory.query_templates import parsed_template  # few agents have a template

    parsed_template(template)
    return template


BankName = Annotated[str, Field(min_length=1, max_length=256)]
MemoryNames = Annotated[Many[str], Field(max_length=MOST_NAMES)]
QueryTemplate = Annotated[str, AfterValidator(_refuse_unreadable)]


class VectorMemory(NullMeansDefault):
    type: Literal["vector"]
    bank_id: BankName


class KeywordMemory(NullMeansDefault):
    type: Literal["keyword"]
    bank_id: BankName


class KeyValueMemory(NullMeansDefault):
    """A bank of which the values of these keys are read, in this order."""

    type: Literal["keyvalue"]
    bank_id: BankName
    keys: MemoryNames = ()


class GraphMemory(NullMeansDefault):
    """A bank of which the edges around these entities are read; without any, around those that the query names."""

    type: Literal["graph"]
    bank_id: BankName
    entities: MemoryNames = ()


AgentMemory = Annotated[VectorMemory | KeywordMemory | KeyValueMemory | GraphMemory, Field(discriminator="type")]


class JoinedQuery(NullMeansDefault):
    """The query is the text of the turn's messages, joined by the separator."""

    type: Literal["default"] = "default"
    sep: str = " "


class WrittenQuery(NullMeansDefault):
    """A model writes the query, from the template with the conversation; see `memory/query_templates`."""

    type: Literal["llm"]
    model: Annotated[str, Field(min_length=1)]
    template: QueryTemplate


class CalledQuery(NullMeansDefault):
    """The query is the answer of a registered tool, named as `group/tool`."""

    type: Literal["custom"]
    tool: Annotated[str, Field(pattern="^[^/]+/[^/].*$")]


QueryGenerator = Annotated[JoinedQuery | WrittenQuery | CalledQuery, Field(discriminator="type")]


class MemoryTool(NullMeansDefault):
    """Reads memory before the first inference of each turn.

    Attributes:
        max_tokens_in_context: the limit of the inserted context.
        max_chunks: the limit of inserted chunks.
        input_shields: judge the query.
        output_shields: judge the context before it is inserted.
    """

    type: Literal["memory"]
    input_shields: Many[str] = ()
    output_shields: Many[str] = ()
    memory_bank_configs: Annotated[Many[AgentMemory], Field(max_length=MOST_BANKS)] = ()
    query_generator_config: QueryGenerator = JoinedQuery.model_construct()
    max_tokens_in_context: Count = 4_096
    max_chunks: Count = 10
