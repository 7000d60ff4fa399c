"""Agent files: an agent with its blocks, tools and messages, in the schema of 2025 and in the one before it.

Ids in a file connect its parts; an import gives new ones.

Source: the fields of the agent files of Letta 0.11.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, model_validator
from pydantic import ValidationError as Invalid

from turnstone.dialects.letta.agents import state_of
from turnstone.dialects.letta.custom.requests import CreateTool
from turnstone.dialects.letta.files.messages import FileMessage, file_messages, past_turns
from turnstone.dialects.letta.files.rules import file_rules, rules_in
from turnstone.dialects.letta.files.unsupported import EMPTY_LISTS, REFUSED
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.dialects.letta.tools import tools_shown
from turnstone.domain.agents.agents import MOST_BLOCKS
from turnstone.domain.agents.blocks import DEFAULT_LIMIT
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.letta.agents import ALL_TOOLS, LettaAgent
from turnstone.domain.letta.histories import Imported
from turnstone.domain.letta.tools import CustomTool
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Frozen, JsonObject, Many, NullMeansDefault
from turnstone.domain.values.numbers import Flag

Part = TypeVar("Part")
Model = TypeVar("Model", bound=NullMeansDefault)
MOST_FILE_BYTES = 8_000_000
MOST_MESSAGES = 5_000
MOST_TOOLS = 100
COPY = "_copy"
NAME_CHARACTERS = 50
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE_AGENT = "agents: this server imports one agent from a file"


class FileBlock(NullMeansDefault):
    """A memory block."""

    id: str = ""
    label: str
    value: str = ""
    limit: int = DEFAULT_LIMIT
    template_name: str | None = None
    is_template: bool = False
    description: str | None = None
    metadata: JsonObject = {}
    metadata_: JsonObject = {}
    read_only: bool = False

    @model_validator(mode="after")
    def be_writable(self) -> "FileBlock":
        """Raise ValueError for a block that no agent may change."""
        if self.read_only:
            raise ValueError("read_only: an agent edits its blocks here; leave it out")
        return self

    @property
    def request(self) -> dict[str, Any]:
        """The fields of a new block."""
        names = ("label", "value", "limit", "is_template", "description")
        fields = {name: getattr(self, name) for name in names}
        return {**fields, "name": self.template_name, "metadata_": self.metadata or self.metadata_}


class FileTool(NullMeansDefault):
    """A tool: one of the server by its name, or one of Python with its source."""

    id: str = ""
    name: str
    source_code: str | None = None
    json_schema: JsonObject | None = None
    description: str | None = None
    tags: Many[str] = ()
    return_char_limit: int | None = None

    def to_new(self) -> CustomTool:
        """Return the tool to create. Raises InvalidRequest for one that this server lacks, and for invalid source."""
        if self.source_code is None:
            raise InvalidRequest(f"tools: this server has no tool {self.name[:100]!r}; leave it out of the file")
        names = ("name", "source_code", "json_schema", "description", "tags", "return_char_limit")
        return _checked(CreateTool, {name: getattr(self, name) for name in names}).to_new()


class FileTag(NullMeansDefault):
    """A tag of an agent in the older schema."""

    tag: str


class _FileAgent(NullMeansDefault):
    name: str
    system: str = ""
    agent_type: str | None = None
    llm_config: JsonObject = {}
    embedding_config: JsonObject | None = None
    description: str | None = None
    tool_rules: Many[JsonObject] = Field(default=(), max_length=100)
    messages: Many[FileMessage] = Field(default=(), max_length=MOST_MESSAGES)
    source_ids: Any = None
    folder_ids: Any = None
    files_agents: Any = None
    group_ids: Any = None
    multi_agent_group: Any = None
    identity_ids: Any = None
    tool_exec_environment_variables: Any = None
    secrets: Any = None
    memory_variables: Any = None
    from_template: Any = None
    template: Any = None
    initial_message_sequence: Any = None
    message_buffer_autoclear: Any = None
    enable_sleeptime: Any = None
    response_format: Any = None
    context_window_limit: Any = None
    max_tokens: Any = None

    @model_validator(mode="after")
    def refuse_without_effect(self) -> "_FileAgent":
        """Raise ValueError for a field that would have no effect."""
        for name, reason in REFUSED.items():
            if getattr(self, name):
                raise ValueError(f"{name}: {reason}; leave it out")
        return self


class FileAgent(_FileAgent):
    """An agent; its blocks and tools are named by ids."""

    id: str = ""
    tags: Many[str] = ()
    tools: Many[str] = Field(default=(), max_length=MOST_TOOLS)
    tool_ids: Many[str] = Field(default=(), max_length=MOST_TOOLS)
    block_ids: Many[str] = Field(default=(), max_length=MOST_BLOCKS)
    memory_blocks: Many[FileBlock] = Field(default=(), max_length=MOST_BLOCKS)
    metadata: JsonObject | None = None


class AgentFile(NullMeansDefault):
    """A file with an agent, its blocks and its tools."""

    agents: Annotated[Many[FileAgent], Field(min_length=1, max_length=10)]
    blocks: Many[FileBlock] = Field(default=(), max_length=MOST_BLOCKS)
    tools: Many[FileTool] = Field(default=(), max_length=MOST_TOOLS)
    groups: Many[JsonObject] = ()
    files: Many[JsonObject] = ()
    sources: Many[JsonObject] = ()
    mcp_servers: Many[JsonObject] = ()
    skills: Many[JsonObject] = ()

    @model_validator(mode="after")
    def refuse_without_effect(self) -> "AgentFile":
        """Raise ValueError for parts that would have no effect."""
        for name, reason in EMPTY_LISTS.items():
            if getattr(self, name):
                raise ValueError(f"{name}: {reason}; leave them out")
        if len(self.agents) > 1:
            raise ValueError(ONE_AGENT)
        return self

    def parts(self) -> "FileParts":
        """Return the parts of the agent. Raises InvalidRequest for an id that the file lacks."""
        (agent,) = self.agents
        blocks, tools = {each.id: each for each in self.blocks}, {each.id: each for each in self.tools}
        named = [_found(blocks, each, "block_ids") for each in agent.block_ids]
        by_name = {each.name: each for each in self.tools}
        own = [by_name.get(name) or FileTool(name=name) for name in agent.tools]
        found = [*own, *(_found(tools, each, "tool_ids") for each in agent.tool_ids)]
        return FileParts(agent, [*agent.memory_blocks, *named], found, agent.tags, agent.metadata)


class OldAgentFile(_FileAgent):
    """An agent with its blocks and tools, as files before 2025-07 have it."""

    core_memory: Annotated[Many[FileBlock], Field(max_length=MOST_BLOCKS)]
    tools: Many[FileTool] = Field(default=(), max_length=MOST_TOOLS)
    tags: Many[FileTag] = ()
    metadata_: JsonObject | None = None

    def parts(self) -> "FileParts":
        """Return the parts of the agent."""
        tags = [each.tag for each in self.tags]
        return FileParts(self, list(self.core_memory), self.tools, tags, self.metadata_)


class FileParts(NamedTuple):
    """The parts of the agent of a file of either schema."""

    agent: _FileAgent
    blocks: Sequence[FileBlock]
    tools: Sequence[FileTool]
    tags: Sequence[str]
    metadata: JsonObject | None


class ImportFields(NullMeansDefault):
    """How a file is imported: a form, whose fields are texts."""

    append_copy_suffix: Flag = True
    override_existing_tools: Flag = True
    strip_messages: Flag = False
    name: str | None = None
    override_name: str | None = None
    model: str | None = None
    override_model_handle: str | None = None
    embedding: str | None = None
    override_embedding_handle: str | None = None
    env_vars_json: str | None = None
    secrets: str | None = None
    project_id: str | None = None

    @model_validator(mode="after")
    def refuse_without_effect(self) -> "ImportFields":
        """Raise ValueError for a field that would have no effect."""
        if self.embedding or self.override_embedding_handle:
            raise ValueError(
                "embedding: the operator of this server chooses the model of archival memory; leave it out"
            )
        if (self.env_vars_json or self.secrets or "{}").strip() not in ("", "{}"):
            raise ValueError("secrets: this server imports no environment variables; leave it out")
        if self.project_id:
            raise ValueError("project_id: this server has no projects; leave it out")
        return self


class ImportedAgents(Frozen):
    """The agents that an import made."""

    agent_ids: tuple[str, ...]


class ExportedAgent(Frozen):
    """A file with an agent, its blocks, its tools and its messages; ids connect its parts."""

    agents: tuple[JsonObject, ...]
    groups: tuple[JsonObject, ...] = ()
    blocks: tuple[JsonObject, ...]
    files: tuple[JsonObject, ...] = ()
    sources: tuple[JsonObject, ...] = ()
    tools: tuple[JsonObject, ...]
    mcp_servers: tuple[JsonObject, ...] = ()
    skills: tuple[JsonObject, ...] = ()
    metadata: JsonObject = {}
    created_at: datetime | None = None


def schema_of(content: object) -> type[AgentFile | OldAgentFile]:
    """Return the schema of the file."""
    is_old = isinstance(content, dict) and "agents" not in content and "core_memory" in content
    return OldAgentFile if is_old else AgentFile


def import_of(file: AgentFile | OldAgentFile, fields: ImportFields, now: datetime) -> Imported:
    """Return the agent to create, with its turns and tools. Raises InvalidRequest for what this server lacks."""
    parts = file.parts()
    own = {each.name: each.to_new() for each in parts.tools if each.name not in ALL_TOOLS}
    agent, model = parts.agent, fields.model or fields.override_model_handle
    request: dict[str, Any] = {
        "name": _name(agent.name, fields),
        "memory_blocks": [block.request for block in parts.blocks],
        "tools": list(dict.fromkeys(each.name for each in parts.tools)),
        "tags": list(parts.tags),
        "system": agent.system,
        "agent_type": agent.agent_type,
        "llm_config": {**agent.llm_config, "handle": model} if model else agent.llm_config,
        "embedding_config": agent.embedding_config,
        "include_base_tools": False,
        "description": agent.description,
        "metadata_": parts.metadata,
    }
    try:
        rules = rules_in(agent.tool_rules) or None
    except ValueError as wrong:
        raise InvalidRequest(f"tool_rules: {wrong}") from wrong
    new = _checked(CreateLettaAgent, {**request, "tool_rules": rules}).to_new(agent.name)
    past = () if fields.strip_messages else past_turns(agent.messages, now)
    return Imported(new, past, tuple(own.values()), replaces_tools=fields.override_existing_tools)


def _checked(model: type[Model], fields: Mapping[str, Any]) -> Model:
    """Return the request of these fields of a file. Raises InvalidRequest."""
    try:
        return model.model_validate(fields)
    except Invalid as wrong:
        first = wrong.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise InvalidRequest(f"{field}: {first['msg']}") from wrong


def exported(agent: LettaAgent, states: Sequence[TurnState], tenant: str) -> ExportedAgent:
    """Return the file of the agent with these turns, oldest first."""
    shown = state_of(agent, tenant)
    rows = [_system_row(agent, states), *file_messages(states, agent.config.model)] if states else []
    messages = [{**row, "id": f"message-{number}", "agent_id": "agent-0"} for number, row in enumerate(rows)]
    tools = [{**tool, "id": f"tool-{number}"} for number, tool in enumerate(_tools(agent, tenant))]
    blocks = [
        {
            "value": block.value,
            "limit": block.limit,
            "template_name": block.name,
            "is_template": block.is_template,
            "label": block.label,
            "read_only": False,
            "description": block.description,
            "metadata": block.metadata,
            "id": f"block-{number}",
        }
        for number, block in enumerate(agent.blocks)
    ]
    config = {
        "name": shown.name,
        "memory_blocks": [],
        "tools": [],
        "tool_ids": [tool["id"] for tool in tools],
        "source_ids": [],
        "block_ids": [block["id"] for block in blocks],
        "tool_rules": file_rules(agent.fields.tool_rules),
        "tags": shown.tags,
        "system": shown.system,
        "agent_type": shown.agent_type,
        "llm_config": shown.llm_config,
        "embedding_config": shown.embedding_config,
        "include_base_tools": False,
        "include_multi_agent_tools": False,
        "description": shown.description,
        "metadata": shown.metadata_,
        "id": "agent-0",
        "in_context_message_ids": [message["id"] for message in messages],
        "messages": messages,
        "files_agents": [],
        "group_ids": [],
    }
    return ExportedAgent.model_construct(agents=(config,), blocks=tuple(blocks), tools=tuple(tools))


def _system_row(agent: LettaAgent, states: Sequence[TurnState]) -> dict[str, Any]:
    at = states[0].turn.started_at if states else EPOCH
    parts = {"role": "system", "content": [{"type": "text", "text": agent.config.instructions}]}
    return {"type": "message", **parts, "created_at": at.isoformat()}


def _tools(agent: LettaAgent, tenant: str) -> list[dict[str, Any]]:
    own = {"organization_id", "created_by_id", "last_updated_by_id"}
    return [tool.model_dump(exclude=own) for tool in tools_shown(agent, tenant)]


def _name(name: str, fields: ImportFields) -> str:
    chosen = fields.name or fields.override_name
    if chosen:
        return chosen
    return f"{name[: NAME_CHARACTERS - len(COPY)]}{COPY}" if fields.append_copy_suffix else name


def _found(parts: Mapping[str, Part], identifier: str, field: str) -> Part:
    if identifier not in parts:
        raise InvalidRequest(f"{field}: the file has no part with the id {identifier[:100]!r}")
    return parts[identifier]


def newest_within(states: Iterable[TurnState], most: int = MOST_MESSAGES) -> list[TurnState]:
    """Return the newest ended turns that have so many messages at most, oldest first; these come newest first."""
    chosen: list[TurnState] = []
    left = most - 1
    for state in states:
        if not state.status.is_terminal:
            continue
        left -= sum(1 for _ in file_messages((state,), ""))
        if left < 0:
            break
        chosen.append(state)
    return chosen[::-1]
