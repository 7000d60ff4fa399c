"""Keys of files and uploads: a list of each tenant's files, and a partition for each content.

A content has its own name, because the parts of an upload are stored before there is a file.
"""

from turnstone.ports.records import Key, Range
from turnstone.store.layout.keys import SINGLE, component


def file_list(tenant: str) -> str:
    """Return the partition of a tenant's files."""
    return f"{component(tenant)}|files"


def file_key(tenant: str, file_id: str) -> Key:
    """Return the key of a file in the list, in the order of the ids, and so of creation."""
    return Key(file_list(tenant), component(file_id))


def upload_key(tenant: str, upload_id: str) -> Key:
    return Key(f"{component(tenant)}|upload:{component(upload_id)}", SINGLE)


def file_partition(tenant: str, content_id: str) -> str:
    """Return the partition of a content: its header, and its parts in pieces."""
    return f"{component(tenant)}|file:{component(content_id)}"


def header_key(tenant: str, content_id: str) -> Key:
    """Return the key of a content's header, which exists until the content is cancelled or deleted."""
    return Key(file_partition(tenant, content_id), SINGLE)


def part_key(tenant: str, content_id: str, part_id: str) -> Key:
    """Return the key of the record of a part that is whole."""
    return Key(file_partition(tenant, content_id), f"added:{component(part_id)}")


def piece_key(tenant: str, content_id: str, part_id: str, number: int) -> Key:
    return Key(file_partition(tenant, content_id), f"part:{component(part_id)}:{number:06d}")


def all_parts(tenant: str, content_id: str) -> Range:
    """Return the read of the records of whole parts, followed by that of all pieces."""
    return Range(file_partition(tenant, content_id), start="added:", end="part:~")


def part_of(sk: str) -> str:
    """Return the id of the part in the sort key of one of its records."""
    return sk.split(":")[1]
