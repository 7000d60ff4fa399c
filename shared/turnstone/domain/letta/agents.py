"""Agents as Letta's API has them: fields that other APIs lack, kept beside the agent. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from turnstone.domain.agents.agents import AgentConfig, ToolGroup, toolgroup_name
from turnstone.domain.agents.blocks import BLOCK_KIND, MemoryBlock, NewBlock
from turnstone.domain.errors import NotFound
from turnstone.domain.letta.tools import CustomTool, EnvironmentVariable
from turnstone.domain.memory.banks import SOURCE_KIND, Bank
from turnstone.domain.tools.base_tools import (
    APPEND,
    ARCHIVAL_INSERT,
    ARCHIVAL_MEMORY,
    ARCHIVAL_SEARCH,
    CALL_AGENT,
    CALL_AGENTS,
    CONVERSATION_SEARCH,
    CORE_MEMORY,
    MULTI_AGENT,
    NOTIFY_AGENT,
    REPLACE,
    SEND,
)
from turnstone.domain.tools.tool_rules import ToolRule
from turnstone.domain.tools.tool_runs import MESSAGING
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.loop_policies import LETTA, LoopPolicy
from turnstone.domain.values.frozen import Frozen, JsonObject

NAMESPACE = UUID("6d1f2a54-5a0f-4f0e-9d4e-2f8f6a3f7c11")
MAIN = "main"
DEFAULT_TYPE = "memgpt_agent"
DEFAULT_CHUNK_SIZE = 300
# the base tools, each with its toolgroup
BASE_TOOLS: Mapping[str, tuple[str, ToolDef]] = {
    SEND.name: (MESSAGING, SEND),
    APPEND.name: (CORE_MEMORY, APPEND),
    REPLACE.name: (CORE_MEMORY, REPLACE),
    ARCHIVAL_INSERT.name: (ARCHIVAL_MEMORY, ARCHIVAL_INSERT),
    ARCHIVAL_SEARCH.name: (ARCHIVAL_MEMORY, ARCHIVAL_SEARCH),
    CONVERSATION_SEARCH.name: (MESSAGING, CONVERSATION_SEARCH),
}
MULTI_AGENT_TOOLS: Mapping[str, tuple[str, ToolDef]] = {
    each.name: (MULTI_AGENT, each) for each in (CALL_AGENT, NOTIFY_AGENT, CALL_AGENTS)
}
ALL_TOOLS: Mapping[str, tuple[str, ToolDef]] = {**BASE_TOOLS, **MULTI_AGENT_TOOLS}


class LettaFields(Frozen):
    """The fields of an agent that only Letta's API has.

    Attributes:
        llm_config: as sent; of it, the model and `put_inner_thoughts_in_kwargs` have an effect.
        embedding_config: as sent, None without one.
        source_ids: of the attached sources, in the order of their attachment; some may be deleted since.
        environment: variables of the runs of its tools of Python.
        generation: the number of times that its messages were reset; each has a session of its own.
    """

    agent_type: str = DEFAULT_TYPE
    llm_config: JsonObject = {}
    embedding_config: JsonObject | None = None
    tool_rules: tuple[ToolRule, ...] | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None
    metadata: JsonObject | None = None
    source_ids: tuple[str, ...] = ()
    environment: tuple[EnvironmentVariable, ...] = ()
    generation: int = 0
    updated_at: datetime | None = None

    @property
    def policy(self) -> LoopPolicy:
        """The rules of the agent's loop."""
        changes: dict[str, object] = {"tool_rules": self.tool_rules or ()}
        if self.llm_config.get("put_inner_thoughts_in_kwargs") is False:
            changes["loop_arguments"] = ()
        return LETTA.model_copy(update=changes)


class LettaAgent(Frozen):
    """An agent with its fields, its memory blocks, in the order of the prompt, its sources and its tools of Python."""

    agent_id: str
    config: AgentConfig
    created_at: datetime
    owner: str | None
    fields: LettaFields
    blocks: tuple[MemoryBlock, ...]
    sources: tuple[Bank, ...] = ()
    tools: tuple[CustomTool, ...] = ()

    def block(self, label: str) -> MemoryBlock:
        """Return the block of that label. Raises NotFound."""
        for block in self.blocks:
            if block.label == label:
                return block
        raise NotFound(BLOCK_KIND, label)

    def source(self, source_id: str) -> Bank:
        """Return the source of that id. Raises NotFound."""
        for source in self.sources:
            if source.bank_id == source_id:
                return source
        raise NotFound(SOURCE_KIND, source_id)


class NewLettaAgent(NamedTuple):
    """An agent to create: new blocks come before existing ones in its prompt.

    Attributes:
        tool_names: of its tools of Python, beside those in its configuration.
        environment: variables of the runs of its tools of Python.
    """

    config: AgentConfig
    fields: LettaFields
    new_blocks: tuple[NewBlock, ...]
    block_ids: tuple[str, ...]
    tool_names: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}


class LettaQuery(NamedTuple):
    """The requested part of the list of agents.

    Attributes:
        after: the id of the last agent of the part before.
        text: a part of the name, in any case.
        tags: of which an agent has all, or one if not `has_all_tags`.
    """

    limit: int
    after: str | None = None
    name: str | None = None
    text: str | None = None
    tags: tuple[str, ...] = ()
    has_all_tags: bool = False

    def names(self, name: str | None) -> bool:
        """Return whether an agent of that name is requested."""
        is_named = self.name is None or name == self.name
        return is_named and (self.text is None or self.text.lower() in (name or "").lower())

    def matches(self, tags: Sequence[str]) -> bool:
        """Return whether an agent with those tags is requested."""
        if not self.tags:
            return True
        return (all if self.has_all_tags else any)(tag in tags for tag in self.tags)


class TagQuery(NamedTuple):
    """The requested part of the tags.

    Attributes:
        after: the last tag of the part before.
        text: a part of the tag, in any case.
    """

    limit: int
    after: str | None = None
    text: str | None = None

    def matches(self, tag: str) -> bool:
        """Return whether the tag is requested."""
        is_after = self.after is None or tag > self.after
        return is_after and (self.text is None or self.text.lower() in tag.lower())


def main_session(agent_id: str, generation: int) -> str:
    """Return the id of the agent's session with its messages."""
    return str(uuid5(NAMESPACE, f"{agent_id}:{MAIN}:{generation}"))


def tool_id(name: str) -> str:
    """Return the id of the base tool, the same for every tenant."""
    return str(uuid5(NAMESPACE, f"tool:{name}"))


TOOL_NAMES: Mapping[str, str] = {tool_id(name): name for name in ALL_TOOLS}


def toolgroups_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the toolgroups of the base tools, each for its tool alone."""
    return tuple(f"{ALL_TOOLS[name][0]}/{name}" for name in dict.fromkeys(names))


def tools_of(config: AgentConfig) -> tuple[str, ...]:
    """Return the names of the base tools of the agent, in their usual order."""
    groups = {toolgroup_name(toolgroup) for toolgroup in config.toolgroups}
    return tuple(name for name, (group, _) in ALL_TOOLS.items() if group in groups or f"{group}/{name}" in groups)


def calls_agents(config: AgentConfig) -> bool:
    """Return whether the agent has a tool by which it sends messages to other agents."""
    return not MULTI_AGENT_TOOLS.keys().isdisjoint(tools_of(config))


def with_tool(config: AgentConfig, name: str) -> tuple[ToolGroup, ...]:
    """Return the toolgroups of an agent with that base tool, too."""
    return config.toolgroups if name in tools_of(config) else (*config.toolgroups, *toolgroups_of([name]))


def without_tool(config: AgentConfig, name: str) -> tuple[ToolGroup, ...]:
    """Return the toolgroups of an agent without that base tool; a whole group leaves its other tools."""
    group = ALL_TOOLS[name][0]
    others = toolgroups_of(each for each, (own, _) in ALL_TOOLS.items() if own == group and each != name)
    left: list[ToolGroup] = []
    for toolgroup in config.toolgroups:
        given = toolgroup_name(toolgroup)
        if given == group:
            left += others
        elif given != f"{group}/{name}":
            left.append(toolgroup)
    return tuple(each for index, each in enumerate(left) if each not in left[:index])
