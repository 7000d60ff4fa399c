"""Keys of tools of Python: each alone, its name, and a list for each tenant."""

from turnstone.ports.records import Key
from turnstone.store.layout.keys import SINGLE, component


def tool_key(tenant: str, tool_id: str) -> Key:
    return Key(f"{component(tenant)}|tool:{component(tool_id)}", SINGLE)


def tool_name_key(tenant: str, name: str) -> Key:
    """Return the key of the name of a tool, which only one of the tenant has."""
    return Key(f"{component(tenant)}|tool_names", component(name))


def tool_list(tenant: str) -> str:
    """Return the partition of a tenant's list of tools."""
    return f"{component(tenant)}|tools"


def tool_list_key(tenant: str, order: str) -> Key:
    return Key(tool_list(tenant), order)
