"""Toolgroup `builtin::core_memory`: edits of the memory blocks of the agent whose turn calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.domain.errors import InvalidRequest, NotFound, ToolFailed
from turnstone.domain.tools.base_tools import APPEND, APPEND_NAME, REPLACE
from turnstone.domain.tools.tool_runs import ToolResult

if TYPE_CHECKING:
    from turnstone.domain.agents.blocks import MemoryBlock
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.ports.system import Clock
    from turnstone.store.agents.agents import AgentStore
    from turnstone.store.agents.blocks import BlockStore


class CoreMemoryToolbox:
    def __init__(self, agents: AgentStore, blocks: BlockStore, clock: Clock) -> None:
        self._agents = agents
        self._blocks = blocks
        self._clock = clock

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the tools of the group."""
        return (APPEND, REPLACE)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Make the edit, once for its idempotency key. Raises ToolFailed."""
        label = _text(invocation, "label")
        if invocation.call.tool_name == APPEND_NAME:
            content = _text(invocation, "content")
            act = lambda block: block.appended(content, self._clock.now())  # noqa: E731 - one of two edits
        else:
            old, new = _text(invocation, "old_content"), _text(invocation, "new_content")
            act = lambda block: block.replaced(old, new, self._clock.now())  # noqa: E731
        try:
            block_id = self._found(invocation, label).block_id
            edited = self._blocks.edit(invocation.asker.tenant, block_id, invocation.idempotency_key, act)
        except (InvalidRequest, NotFound) as problem:
            raise ToolFailed(str(problem)) from problem
        return ToolResult(f"The block {label!r} has {len(edited.value)} of {edited.limit} characters now.")

    def _found(self, invocation: ToolInvocation, label: str) -> MemoryBlock:
        """Return the agent's block of that label. Raises ToolFailed, NotFound."""
        if invocation.ref is None:
            raise ToolFailed("Outside a session there is no agent whose memory blocks could be changed.")
        tenant = invocation.asker.tenant
        config = self._agents.get(tenant, invocation.ref.agent_id).agent.agent_config
        blocks = [stored.block for stored in self._blocks.gather(tenant, config.memory_blocks)]
        for block in blocks:
            if block.label == label:
                return block
        labels = ", ".join(repr(block.label) for block in blocks) or "none"
        raise ToolFailed(f"There is no memory block {label!r}; the blocks are: {labels}.")


def _text(invocation: ToolInvocation, name: str) -> str:
    given = invocation.arguments.get(name)
    if not isinstance(given, str):
        raise ToolFailed(f"{name}: must be a text")
    return given
