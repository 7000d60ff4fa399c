"""Memory blocks: labelled texts in the prompt of an agent, which it can edit, and which agents can share. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from turnstone.domain.access.access import Ownership
from turnstone.domain.errors import InvalidRequest, LabelTaken
from turnstone.domain.values.frozen import Frozen, JsonObject

BLOCK_KIND = "block"
MARKER = "{CORE_MEMORY}"
DEFAULT_LIMIT = 5_000
MOST_CHARACTERS = 50_000  # a block in UTF-8 fits in one record
KEYS_KEPT = 16
Limit = Annotated[int, Field(ge=1, le=MOST_CHARACTERS)]
Label = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^<>\x00-\x1f\x7f]+$")]
# of a request; stored blocks may have others
NewLabel = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^/<>\x00-\x1f\x7f]+$")]


class MemoryBlock(Frozen):
    """A memory block.

    Attributes:
        label: its name in the prompt, unique among the blocks of an agent.
        limit: of the value, in characters.
        name: of a template.
        is_template: whether it is a model for other blocks.
    """

    block_id: str
    label: Label
    value: str = ""
    limit: Limit = DEFAULT_LIMIT
    name: str | None = None
    is_template: bool = False
    description: str | None = None
    metadata: JsonObject = {}
    updated_at: datetime

    def with_value(self, value: str, now: datetime) -> "MemoryBlock":
        """Return the block with that value. Raises InvalidRequest for one over the limit."""
        refuse_long_value(value, self.limit)
        return self.model_copy(update={"value": value, "updated_at": now})

    def appended(self, text: str, now: datetime) -> "MemoryBlock":
        """Return the block with the text on a new line at its end. Raises InvalidRequest over the limit."""
        return self.with_value(f"{self.value}\n{text}" if self.value else text, now)

    def replaced(self, old: str, new: str, now: datetime) -> "MemoryBlock":
        """Return the block with each occurrence of the old text replaced.

        Raises InvalidRequest if the text does not occur, and over the limit.
        """
        if not old or old not in self.value:
            raise InvalidRequest(f"the block {self.label!r} does not contain the text {old[:200]!r}", ("old_content",))
        return self.with_value(self.value.replace(old, new), now)


class NewBlock(NamedTuple):
    """The fields of a new block, as in `MemoryBlock`."""

    label: str
    value: str
    fields: Mapping[str, Any]


class BlockQuery(NamedTuple):
    """The requested part of the list of blocks.

    Attributes:
        after: the id of the last block of the part before.
        is_template: whether only models for other blocks are requested.
    """

    limit: int | None = None
    after: str | None = None
    label: str | None = None
    name: str | None = None
    is_template: bool = False

    def matches(self, shown: Mapping[str, Any]) -> bool:
        """Return whether a block with these fields is requested."""
        is_named = self.label in (None, shown["label"]) and self.name in (None, shown["name"])
        return is_named and (bool(shown["is_template"]) or not self.is_template)


class StoredBlock(Frozen):
    """A block with the data that no reader of blocks gets.

    Attributes:
        order: its position in the list of its tenant.
        stamp: the owner and the access list.
        agents: the ids of the agents that have the block.
        is_kept: whether it stays when no agent has it, because it was created on its own.
        applied: keys of the last edits, so that an edit repeated after a crash is made once.
        rev: revision of the record this was read from, 0 before it is stored.
    """

    block: MemoryBlock
    order: str
    stamp: Ownership = Ownership.model_construct()
    agents: tuple[str, ...] = ()
    is_kept: bool = True
    applied: tuple[str, ...] = ()
    rev: int = 0

    def attached_to(self, agent_id: str) -> "StoredBlock":
        """Return the block as one of the agent's."""
        agents = self.agents if agent_id in self.agents else (*self.agents, agent_id)
        return self.model_copy(update={"agents": agents})

    def detached_from(self, agent_id: str) -> "StoredBlock":
        """Return the block as none of the agent's."""
        return self.model_copy(update={"agents": tuple(each for each in self.agents if each != agent_id)})

    @property
    def is_left(self) -> bool:
        """Whether no agent has it, and it was created with one."""
        return not self.agents and not self.is_kept

    def edited(self, block: MemoryBlock, key: str | None) -> "StoredBlock":
        """Return the edited block, which remembers the key of the edit."""
        applied = self.applied if key is None else (*self.applied, key)[-KEYS_KEPT:]
        return self.model_copy(update={"block": block, "applied": applied})


def refuse_long_value(value: str, limit: int) -> None:
    """Raise InvalidRequest for a value over the limit."""
    if len(value) > limit:
        raise InvalidRequest(f"the value has {len(value)} characters, over the block's limit of {limit}")


def refuse_same_labels(labels: Iterable[str]) -> None:
    """Raise InvalidRequest if two blocks of one agent have the same label."""
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise InvalidRequest(f"two memory blocks have the label {label!r}; an agent has one of each label")
        seen.add(label)


def refuse_taken_label(label: str, others: Iterable[MemoryBlock]) -> None:
    """Raise LabelTaken if one of the other blocks of an agent has that label."""
    if any(other.label == label for other in others):
        raise LabelTaken(label)


def with_core_memory(instructions: str, blocks: Sequence[MemoryBlock], lines: Sequence[str] = ()) -> str:
    """Return the instructions with the blocks in place of each marker, or at their end without one.

    Args:
        lines: shown before the blocks.
    """
    memory = compiled(blocks, lines)
    if MARKER in instructions:
        return instructions.replace(MARKER, memory)
    return f"{instructions}\n\n{memory}" if instructions else memory


def compiled(blocks: Sequence[MemoryBlock], lines: Sequence[str] = ()) -> str:
    """Return the text of the blocks in a prompt."""
    return "\n".join([head_of(blocks), *lines, *map(_shown, blocks)])


def head_of(blocks: Sequence[MemoryBlock]) -> str:
    """Return the line before the blocks in a prompt."""
    changed = max((block.updated_at for block in blocks), default=None)
    return f"Memory, last changed at {changed.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC." if changed else "Memory."


def texts_of(blocks: Sequence[MemoryBlock]) -> str:
    """Return the blocks as a prompt shows them, without the line before them."""
    return "\n".join(map(_shown, blocks))


def _shown(block: MemoryBlock) -> str:
    return f'<{block.label} characters="{len(block.value)}/{block.limit}">\n{block.value}\n</{block.label}>'
