"""Archival memory of Letta's API: passages, and requests about them."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field, RootModel

from turnstone.dialects.letta.blocks import refused_names
from turnstone.dialects.letta.ids import bare, organization_id, shown, user_id
from turnstone.dialects.letta.message_requests import LIMIT, TEXT, flag_in, limit_in
from turnstone.dialects.letta.sources import EMBEDDING_DEFAULTS, embedding_of
from turnstone.domain.agents.archives import LONGEST_TEXT, PASSAGE_KIND, Passage, PassageQuery
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.letta.agents import LettaAgent
from turnstone.domain.memory.banks import Bank
from turnstone.domain.values.frozen import Frozen, JsonObject, NullMeansDefault

DEFAULT_PASSAGES = 50
PASSAGES_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "after": {"description": "The id of a passage; only later ones are returned.", "schema": TEXT},
    "before": {
        "description": "The id of a passage; without `after`, those directly before it are returned.",
        "schema": TEXT,
    },
    "limit": {"description": "How many passages to return at most.", "schema": LIMIT},
}


class CreatePassage(NullMeansDefault):
    """A text to keep."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]

    _later = refused_names("created_at", "tags")


class LettaPassage(Frozen):
    """A passage of an agent's archival memory, or of a source."""

    created_by_id: str
    last_updated_by_id: str
    created_at: str
    updated_at: str
    is_deleted: bool = False
    organization_id: str
    agent_id: str | None
    source_id: str | None = None
    file_id: str | None = None
    metadata_: JsonObject = {}
    id: str
    text: str
    embedding: tuple[float, ...] | None = None
    embedding_config: JsonObject


class LettaPassages(RootModel[tuple[LettaPassage, ...]]):
    """Passages, oldest first."""


class ArchivalSummary(Frozen):
    """The number of passages."""

    size: int


class PassageDeleted(Frozen):
    """The confirmation of a deletion."""

    message: str


def passages_of(passages: Iterable[Passage], agent: LettaAgent, tenant: str) -> LettaPassages:
    """Return the passages of the agent and of its sources as the API shows them."""
    user, agent_id = user_id(agent.owner), shown("agent", agent.agent_id)
    embedding = {**EMBEDDING_DEFAULTS, **(agent.fields.embedding_config or {})}
    return LettaPassages(
        tuple(
            _shown(each, tenant, user, agent_id, embedding)
            if each.source is None
            else _of_source(each, tenant, each.source)
            for each in passages
        )
    )


def passages_of_source(passages: Iterable[Passage], tenant: str) -> LettaPassages:
    """Return the passages of a source as the API shows them."""
    return LettaPassages(tuple(_of_source(each, tenant, each.source) for each in passages if each.source is not None))


def _of_source(passage: Passage, tenant: str, source: Bank) -> LettaPassage:
    return _shown(passage, tenant, user_id(source.stamp.owner), None, embedding_of(source))


def _shown(
    passage: Passage, tenant: str, user: str, agent_id: str | None, embedding: Mapping[str, Any]
) -> LettaPassage:
    return LettaPassage(
        created_by_id=user,
        last_updated_by_id=user,
        created_at=passage.created_at.isoformat(),
        updated_at=passage.created_at.isoformat(),
        organization_id=organization_id(tenant),
        agent_id=agent_id,
        source_id=None if passage.source is None else passage.source.bank_id,
        file_id=passage.file_id,
        id=shown(PASSAGE_KIND, passage.passage_id),
        text=passage.text,
        embedding_config=dict(embedding),
    )


def refuse_search(texts: Mapping[str, str]) -> None:
    """Raise InvalidRequest for the parameters of later clients that the list does not have."""
    if "search" in texts:
        raise InvalidRequest("search: the tool archival_memory_search does that; leave it out", ("query", "search"))
    if "ascending" in texts and not flag_in("ascending", texts["ascending"]):
        raise InvalidRequest("ascending: the oldest passage comes first; leave it out", ("query", "ascending"))


def passages_query(query: Mapping[str, list[str]]) -> PassageQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    after, before = (
        None if texts.get(name) is None else bare(PASSAGE_KIND, texts[name]) for name in ("after", "before")
    )
    refuse_search(texts)
    return PassageQuery(limit_in(texts.get("limit"), DEFAULT_PASSAGES), after, before)
