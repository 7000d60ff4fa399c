"""Archival memory of Letta's API: passages, and requests about them."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field, RootModel

from turnstone.dialects.letta.agents import EMBEDDING_DEFAULTS
from turnstone.dialects.letta.ids import bare, organization_id, shown, user_id
from turnstone.dialects.letta.message_requests import LIMIT, TEXT, limit_in
from turnstone.domain.agents.archives import LONGEST_TEXT, PASSAGE_KIND, Passage, PassageQuery
from turnstone.domain.letta.agents import LettaAgent
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


class LettaPassage(Frozen):
    """A passage of an agent's archival memory."""

    created_by_id: str
    last_updated_by_id: str
    created_at: str
    updated_at: str
    is_deleted: bool = False
    organization_id: str
    agent_id: str
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
    """Return the passages of the agent as the API shows them."""
    user = user_id(agent.owner)
    return LettaPassages(
        tuple(
            LettaPassage(
                created_by_id=user,
                last_updated_by_id=user,
                created_at=each.created_at.isoformat(),
                updated_at=each.created_at.isoformat(),
                organization_id=organization_id(tenant),
                agent_id=shown("agent", agent.agent_id),
                id=shown(PASSAGE_KIND, each.passage_id),
                text=each.text,
                embedding_config={**EMBEDDING_DEFAULTS, **(agent.fields.embedding_config or {})},
            )
            for each in passages
        )
    )


def passages_query(query: Mapping[str, list[str]]) -> PassageQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    after, before = (
        None if texts.get(name) is None else bare(PASSAGE_KIND, texts[name]) for name in ("after", "before")
    )
    return PassageQuery(limit_in(texts.get("limit"), DEFAULT_PASSAGES), after, before)
