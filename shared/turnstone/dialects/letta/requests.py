"""Requests of Letta's API about agents. A field without an effect here is refused by its name."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from turnstone.dialects.letta.blocks import CreateBlock
from turnstone.dialects.letta.default_prompt import DEFAULT_SYSTEM
from turnstone.dialects.letta.environment import Variables
from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.message_requests import MOST_MESSAGES, MessageCreate
from turnstone.dialects.letta.sources import EMBEDDING_DEFAULTS
from turnstone.dialects.letta.tool_rules import WireToolRule, to_rule
from turnstone.dialects.letta.tools import toolgroups_of_ids
from turnstone.domain.agents.agents import MOST_BLOCKS, AgentConfig
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.letta.agents import (
    ALL_TOOLS,
    BASE_TOOLS,
    DEFAULT_TYPE,
    MULTI_AGENT_TOOLS,
    LettaFields,
    NewLettaAgent,
    toolgroups_of,
)
from turnstone.domain.letta.histories import Imported, PastTurn
from turnstone.domain.letta.sources import MOST_SOURCES, source_id_in
from turnstone.domain.values.frozen import Frozen, JsonObject, Many, NullMeansDefault

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9 _-]{1,50}$")]
Handle = Annotated[str, Field(max_length=256)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
Tags = Annotated[Many[Tag], Field(max_length=100)]
Ids = Annotated[Many[str], Field(max_length=MOST_BLOCKS)]
SourceIds = Annotated[Many[str], Field(max_length=MOST_SOURCES)]
Rules = Annotated[Many[WireToolRule], Field(max_length=100)]
FirstMessages = Annotated[Many[MessageCreate], Field(max_length=MOST_MESSAGES)]
NO_MODEL = "Must specify either llm or llm_config in request"
REFUSED = {
    "from_template": "this server has no templates; leave it out",
    "template": "this server has no templates; leave it out",
    "project": "this server has no projects; leave it out",
    "variables": "this server has no templates; leave it out",
    "memory_variables": "this server has no templates; leave it out",
    "context_window_limit": "the operator of this server sets the context window of each model; leave it out",
    "message_ids": "the messages of an agent can't be chosen; reset them instead",
}


class LlmConfig(Frozen):
    """The model of an agent. Its endpoint is shown again, and never requested: models come from this server.

    Attributes:
        put_inner_thoughts_in_kwargs: whether tools take the thoughts of the model as an argument.
    """

    model: Annotated[str, Field(min_length=1)]
    model_endpoint_type: str = "openai"
    model_endpoint: str | None = None
    model_wrapper: str | None = None
    context_window: int = 8_192
    put_inner_thoughts_in_kwargs: bool = True
    handle: str | None = None


def refuse_other_size(size: int | None) -> int | None:
    """Return the size. Raises ValueError for one that passages do not have here."""
    if size and size != (own := EMBEDDING_DEFAULTS["embedding_chunk_size"]):
        raise ValueError(f"passages have at most {own} tokens here; leave it out")
    return size


def refuse_without_effect(value: Any, field: ValidationInfo) -> Any:
    """Return the value that stands for none. Raises ValueError for a field that would have no effect."""
    if value:
        raise ValueError(REFUSED[str(field.field_name)])
    return None


class CreateLettaAgent(NullMeansDefault):
    """A new agent."""

    name: Name | None = None
    memory_blocks: Annotated[Many[CreateBlock], Field(max_length=MOST_BLOCKS)] = ()
    tools: Annotated[Many[str], Field(max_length=100)] = ()
    tool_ids: Ids = ()
    source_ids: SourceIds = ()
    block_ids: Ids = ()
    tool_rules: Rules | None = None
    tags: Tags = ()
    system: str | None = None
    agent_type: str = DEFAULT_TYPE
    llm_config: LlmConfig | None = None
    embedding_config: JsonObject | None = None
    initial_message_sequence: FirstMessages = ()
    include_base_tools: bool = True
    include_multi_agent_tools: bool = False
    description: str | None = None
    metadata_: JsonObject | None = None
    llm: str | None = None
    embedding: Handle | None = None
    context_window_limit: int | None = None
    embedding_chunk_size: Annotated[int | None, AfterValidator(refuse_other_size)] = None
    from_template: str | None = None
    template: bool | None = None
    project: str | None = None
    tool_exec_environment_variables: Variables = {}
    variables: JsonObject | None = None
    memory_variables: JsonObject | None = None

    _refuse = field_validator(*(set(REFUSED) - {"message_ids"}))(refuse_without_effect)

    def to_new(self, name: str) -> NewLettaAgent:
        """Return the agent to create, of that name without one in the request.

        Raises InvalidRequest without a model, NotFound for a tool that this server lacks.
        """
        if self.llm_config is None and not self.llm:
            raise InvalidRequest(NO_MODEL)
        llm = self.llm_config or LlmConfig(model=str(self.llm).rpartition("/")[2], handle=self.llm)
        base = tuple(BASE_TOOLS) if self.include_base_tools else ()
        between = tuple(MULTI_AGENT_TOOLS) if self.include_multi_agent_tools else ()
        named = (*base, *between, *(each for each in self.tools if each in ALL_TOOLS))
        toolgroups = (*toolgroups_of(named), *toolgroups_of_ids(self.tool_ids))
        config = AgentConfig(
            model=self.llm or llm.handle or llm.model,
            instructions=DEFAULT_SYSTEM if self.system is None else self.system,
            name=self.name or name,
            toolgroups=tuple(dict.fromkeys(toolgroups)),
            enable_session_persistence=True,
        )
        fields = LettaFields(
            agent_type=self.agent_type,
            llm_config=llm.model_dump(),
            embedding_config=self._embedding(),
            tool_rules=None if self.tool_rules is None else tuple(map(to_rule, self.tool_rules)),
            tags=tuple(dict.fromkeys(self.tags)),
            description=self.description,
            metadata=self.metadata_,
        )
        if self.source_ids:
            fields = fields.model_copy(update={"source_ids": tuple(map(source_id_in, self.source_ids))})
        block_ids = tuple(bare("block", each) for each in self.block_ids)
        return NewLettaAgent(
            config,
            fields,
            tuple(block.to_new() for block in self.memory_blocks),
            block_ids,
            tuple(each for each in self.tools if each not in ALL_TOOLS),
            self.tool_exec_environment_variables,
        )

    def to_imported(self, name: str, now: datetime) -> Imported:
        """Return the agent to create with its first messages, which are one turn without an answer.

        Raises as `to_new` does.
        """
        messages = tuple(each.to_message() for each in self.initial_message_sequence)
        return Imported(self.to_new(name), (PastTurn(messages, (), now),) if messages else ())

    def _embedding(self) -> JsonObject | None:
        """Return the configuration that is shown again, or that of the handle; the operator chooses the model."""
        if self.embedding_config is not None or not self.embedding:
            return self.embedding_config
        return {"embedding_model": self.embedding.rpartition("/")[2], "handle": self.embedding}


class UpdateLettaAgent(NullMeansDefault):
    """Changes of an agent; a missing or null field stays as it is, and a list replaces the list before."""

    name: Name | None = None
    tool_ids: Ids | None = None
    source_ids: SourceIds | None = None
    block_ids: Ids | None = None
    tags: Tags | None = None
    system: str | None = None
    tool_rules: Rules | None = None
    llm_config: LlmConfig | None = None
    embedding_config: JsonObject | None = None
    message_ids: Many[str] | None = None
    description: str | None = None
    metadata_: JsonObject | None = None
    tool_exec_environment_variables: Variables | None = None

    _refuse = field_validator("message_ids")(refuse_without_effect)

    def to_config(self) -> Mapping[str, Any]:
        """Return the changes of the configuration. Raises NotFound for a tool that this server lacks."""
        changes: dict[str, Any] = {}
        if self.name is not None:
            changes["name"] = self.name
        if self.system is not None:
            changes["instructions"] = self.system
        if self.llm_config is not None:
            changes["model"] = self.llm_config.handle or self.llm_config.model
        if self.tool_ids is not None:
            changes["toolgroups"] = toolgroups_of_ids(self.tool_ids)
        return changes

    def to_fields(self) -> Mapping[str, Any]:
        """Return the changes of the fields that only this API has."""
        changes: dict[str, Any] = {
            "embedding_config": self.embedding_config,
            "description": self.description,
            "metadata": self.metadata_,
            "tags": None if self.tags is None else tuple(dict.fromkeys(self.tags)),
            "tool_rules": None if self.tool_rules is None else tuple(map(to_rule, self.tool_rules)),
            "llm_config": None if self.llm_config is None else self.llm_config.model_dump(),
            "source_ids": None if self.source_ids is None else tuple(map(source_id_in, self.source_ids)),
            "environment": self.tool_exec_environment_variables,
        }
        return {name: value for name, value in changes.items() if value is not None}

    def to_block_ids(self) -> tuple[str, ...] | None:
        """Return the ids of the blocks, None if they stay."""
        return None if self.block_ids is None else tuple(bare("block", each) for each in self.block_ids)
