"""Memory blocks of Letta's API."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, RootModel, model_validator
from pydantic_core import to_json

from turnstone.dialects.letta.ids import organization_id, shown, user_id
from turnstone.domain.agents.blocks import DEFAULT_LIMIT, MARKER, Limit, MemoryBlock, NewBlock, NewLabel, StoredBlock
from turnstone.domain.letta.agents import LettaAgent
from turnstone.domain.values.frozen import Frozen, JsonObject, NullMeansDefault
from turnstone.domain.values.numbers import Flag

# the client's names of fields that are called otherwise here
RENAMED = {"metadata_": "metadata"}


MOST_METADATA_BYTES = 16_000


def refuse_long_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata. Raises ValueError for more than a block may have."""
    if len(to_json(metadata)) > MOST_METADATA_BYTES:
        raise ValueError(f"the metadata has more than {MOST_METADATA_BYTES} bytes as JSON")
    return metadata


BlockName = Annotated[str, Field(max_length=256)]
Description = Annotated[str, Field(max_length=1_000)]
BlockMetadata = Annotated[JsonObject, AfterValidator(refuse_long_metadata)]


# fields of later clients, which also call some of the others differently
RENAMED_FIELDS = {"metadata": "metadata_"}
OF_LATER_BLOCKS = ("read_only", "tags", "hidden", "preserve_on_migration", "project_id")


def refused_names(*names: str) -> Any:
    """Return the validator of a body that refuses these fields of later clients, unless they are empty."""

    def refuse(body: Any) -> Any:
        for name in names if isinstance(body, dict) else ():
            if body.get(name):
                own = RENAMED_FIELDS.get(name)
                raise ValueError(f"{name}: " + (f"is called {own} here" if own else "has no effect here; leave it out"))
        return body

    return model_validator(mode="before")(refuse)


def named_by_either_name(body: Any) -> Any:
    """Return the body with the name of the block, which the client of Letta's own package sends as `template_name`."""
    if isinstance(body, dict) and body.get("name") is None and "template_name" in body:
        return {**body, "name": body["template_name"]}
    return body


class CreateBlock(NullMeansDefault):
    """A new block."""

    label: NewLabel
    value: str
    limit: Limit = DEFAULT_LIMIT
    name: BlockName | None = None
    is_template: Flag = False
    description: Description | None = None
    metadata_: BlockMetadata = {}

    _later = refused_names(*RENAMED_FIELDS, *OF_LATER_BLOCKS)
    _name = model_validator(mode="before")(named_by_either_name)

    def to_new(self) -> NewBlock:
        """Return the block to create."""
        names = ("limit", "name", "is_template", "description")
        fields = {name: getattr(self, name) for name in names}
        return NewBlock(self.label, self.value, {**fields, "metadata": self.metadata_})


class BlockUpdate(NullMeansDefault):
    """Changes of a block; a missing or null field stays as it is."""

    label: NewLabel | None = None
    value: str | None = None
    limit: Limit | None = None
    name: BlockName | None = None
    is_template: Flag | None = None
    description: Description | None = None
    metadata_: BlockMetadata | None = None

    _later = refused_names(*RENAMED_FIELDS, *OF_LATER_BLOCKS)
    _name = model_validator(mode="before")(named_by_either_name)

    def to_changes(self) -> Mapping[str, Any]:
        """Return the changed fields."""
        given = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {RENAMED.get(name, name): value for name, value in given if value is not None}


class LettaBlock(Frozen):
    """A block."""

    value: str
    limit: int
    name: str | None
    is_template: bool
    label: str
    description: str | None
    metadata_: JsonObject
    id: str
    organization_id: str
    created_by_id: str | None
    last_updated_by_id: str | None


class LettaBlocks(RootModel[tuple[LettaBlock, ...]]):
    """Blocks in the order of the prompt."""


class LettaMemory(Frozen):
    """The memory of an agent."""

    blocks: tuple[LettaBlock, ...]
    prompt_template: str


def block_of(block: MemoryBlock, tenant: str, principal: str | None) -> LettaBlock:
    """Return the block as the API shows it."""
    return LettaBlock(
        value=block.value,
        limit=block.limit,
        name=block.name,
        is_template=block.is_template,
        label=block.label,
        description=block.description,
        metadata_=block.metadata,
        id=shown("block", block.block_id),
        organization_id=organization_id(tenant),
        created_by_id=user_id(principal),
        last_updated_by_id=user_id(principal),
    )


def blocks_of(blocks: Iterable[MemoryBlock], tenant: str, principal: str | None) -> tuple[LettaBlock, ...]:
    """Return the blocks as the API shows them."""
    return tuple(block_of(block, tenant, principal) for block in blocks)


def memory_of(agent: LettaAgent, tenant: str) -> LettaMemory:
    """Return the memory of the agent."""
    return LettaMemory(blocks=blocks_of(agent.blocks, tenant, agent.owner), prompt_template=MARKER)


def stored_block_of(stored: StoredBlock, tenant: str) -> LettaBlock:
    """Return the block of the store as the API shows it."""
    return block_of(stored.block, tenant, stored.stamp.owner)
