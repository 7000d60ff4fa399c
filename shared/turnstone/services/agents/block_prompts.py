"""Prompts of agents with memory blocks: read before each inference, so that each shows the newest edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.domain.agents.blocks import with_core_memory
from turnstone.domain.messages.messages import Message, SystemMessage

if TYPE_CHECKING:
    from turnstone.domain.agents.agents import AgentConfig
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.turns.turns import TurnState
    from turnstone.store.agents.blocks import BlockStore


class BlockPrompt:
    """The prompt source of one turn."""

    def __init__(self, store: BlockStore, ref: TurnRef, config: AgentConfig) -> None:
        self._store = store
        self._ref = ref
        self._config = config
        self._newest: tuple[Message, ...] | None = None

    def system(self, state: TurnState) -> tuple[Message, ...]:  # noqa: ARG002 - the same at each point of a turn
        """Return the instructions with the blocks. Raises ContentLost, StoreUnavailable."""
        stored = self._store.gather(self._ref.tenant, self._config.memory_blocks)
        text = with_core_memory(self._config.instructions, [each.block for each in stored])
        self._newest = (SystemMessage(content=text),)
        return self._newest

    def newest(self, state: TurnState) -> tuple[Message, ...]:
        """Return the messages of the last inference; before one, as `system` does."""
        return self.system(state) if self._newest is None else self._newest


class BlockPrompts:
    """Makes the prompt sources of turns."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store

    def of(self, ref: TurnRef, config: AgentConfig) -> BlockPrompt:
        """Return the prompt source of the turn."""
        return BlockPrompt(self._store, ref, config)
