"""Keys of memory blocks: each alone, because several agents share one, and a list for each tenant."""

from turnstone.ports.records import Key
from turnstone.store.layout.keys import SINGLE, component


def block_key(tenant: str, block_id: str) -> Key:
    """Return the key of a memory block; any number of agents have it."""
    return Key(f"{component(tenant)}|block:{component(block_id)}", SINGLE)


def block_list(tenant: str) -> str:
    """Return the partition of a tenant's list of memory blocks."""
    return f"{component(tenant)}|blocks"


def block_list_key(tenant: str, order: str) -> Key:
    return Key(block_list(tenant), order)
