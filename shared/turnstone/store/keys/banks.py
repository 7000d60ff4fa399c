"""Keys of memory banks: their list, and a partition of content for each, named by an id that is never used again.

A bank that is deleted and made again under its name so has new content, whatever the clean-up of the old has left.
"""

from turnstone.domain.memory.banks import SOURCE_PREFIX
from turnstone.ports.records import Key, Range
from turnstone.store.layout.keys import component

MANIFEST = "log:~"


def bank_list(tenant: str) -> str:
    """Return the partition of a tenant's banks."""
    return f"{component(tenant)}|banks"


def bank_key(tenant: str, bank_id: str) -> Key:
    return Key(bank_list(tenant), f"id:{component(bank_id)}")


def all_sources(tenant: str) -> Range:
    """Return the read of those banks that are sources, in the order of their creation."""
    start = f"id:{component(SOURCE_PREFIX)}"
    return Range(bank_list(tenant), start=start, end=f"{start}~")


def source_name_key(tenant: str, name: str, source_id: str) -> Key:
    """Return the key of the record that leads from a source's name to its id."""
    return Key(f"{component(tenant)}|sources", f"{component(name)}:{component(source_id)}")


def sources_named(tenant: str, name: str) -> Range:
    """Return the read of the ids of the sources of that name, in the order of their creation."""
    start = f"{component(name)}:"
    return Range(f"{component(tenant)}|sources", start=start, end=f"{start}~")


def content_partition(tenant: str, content_id: str) -> str:
    """Return the partition of a bank's content."""
    return f"{component(tenant)}|bank:{component(content_id)}"


def manifest_key(tenant: str, content_id: str) -> Key:
    """Return the key of the list of segments, which exists as long as the bank."""
    return Key(content_partition(tenant, content_id), MANIFEST)


def log_key(tenant: str, content_id: str, document_id: str) -> Key:
    """Return the key of the newest operation on the document."""
    return Key(content_partition(tenant, content_id), f"log:{component(document_id)}")


def log_and_manifest(tenant: str, content_id: str) -> Range:
    """Return the read of the log, with the manifest as its last record."""
    return Range(content_partition(tenant, content_id), start="log:", end=MANIFEST)


def document_key(tenant: str, content_id: str, order: str) -> Key:
    """Return the key of a document's record, which sorts by its first insertion."""
    return Key(content_partition(tenant, content_id), f"doc:{order}")


def all_documents(tenant: str, content_id: str) -> Range:
    return Range(content_partition(tenant, content_id), start="doc:", end="doc:~")


def document_name_key(tenant: str, content_id: str, document_id: str) -> Key:
    """Return the key of the record that leads from a document's id to its record."""
    return Key(content_partition(tenant, content_id), f"named:{component(document_id)}")


def listed_key(tenant: str, content_id: str, document_id: str) -> Key:
    """Return the key of the record that names the insertion of a document that counts, in a provider's bank."""
    return Key(content_partition(tenant, content_id), f"at:{component(document_id)}")


def batch_key(tenant: str, content_id: str, batch_id: str) -> Key:
    """Return the key of a list of insertions that do not count, in a provider's bank."""
    return Key(content_partition(tenant, content_id), f"uncounted:{batch_id}")


def removed_document_key(tenant: str, content_id: str, document_id: str) -> Key:
    """Return the key of the position of a removed document, for lists that continue after it."""
    return Key(content_partition(tenant, content_id), f"removed:{component(document_id)}")


def file_batch_key(tenant: str, content_id: str, batch_id: str) -> Key:
    """Return the key of the record of files that were added by one request."""
    return Key(content_partition(tenant, content_id), f"batch:{component(batch_id)}")


def value_key(tenant: str, content_id: str, name: str) -> Key:
    """Return the key of a value in a bank of keys and values."""
    return Key(content_partition(tenant, content_id), f"kv:{component(name)}")


def long_value_key(tenant: str, content_id: str, insertion_id: str) -> Key:
    """Return the key of a value too long for its record, of one insertion."""
    return Key(content_partition(tenant, content_id), f"value:{insertion_id}")


def edge_keys(tenant: str, content_id: str, ends: tuple[str, str], suffix: str) -> tuple[Key, Key]:
    """Return the keys of an edge at its subject and at its object; the suffix names the edge."""
    pk, (subject, target) = content_partition(tenant, content_id), ends
    return Key(pk, f"out:{component(subject)}:{suffix}"), Key(pk, f"in:{component(target)}:{suffix}")


def edges_at(tenant: str, content_id: str, entity: str, limit: int) -> tuple[Range, Range]:
    """Return the reads of the first edges from an entity, and of those to it."""
    pk, name = content_partition(tenant, content_id), component(entity)
    return (
        Range(pk, start=f"out:{name}:", end=f"out:{name}:~", limit=limit),
        Range(pk, start=f"in:{name}:", end=f"in:{name}:~", limit=limit),
    )


def edge_list_key(tenant: str, content_id: str, order: str, insertion_id: str) -> Key:
    """Return the key of the list of a document's edges, of one insertion."""
    return Key(content_partition(tenant, content_id), f"edges:{order}:{insertion_id}")


def edge_state_key(tenant: str, content_id: str, order: str, insertion_id: str) -> Key:
    """Return the key of the status of a document's edges, of one insertion."""
    return Key(content_partition(tenant, content_id), f"state:{order}:{insertion_id}")


def ingestion_key(tenant: str, content_id: str, insertion_id: str) -> Key:
    """Return the key of an insertion by a job."""
    return Key(content_partition(tenant, content_id), f"ingest:{component(insertion_id)}")


def vectors_key(tenant: str, content_id: str, insertion_id: str, page: int) -> Key:
    """Return the key of a page of vectors of an insertion that takes several runs."""
    return Key(content_partition(tenant, content_id), f"vectors:{component(insertion_id)}:{page:06d}")


def all_vectors(tenant: str, content_id: str, insertion_id: str) -> Range:
    pk, name = content_partition(tenant, content_id), component(insertion_id)
    return Range(pk, start=f"vectors:{name}:", end=f"vectors:{name}:~")


def index_key(tenant: str, content_id: str, segment: str) -> Key:
    return Key(content_partition(tenant, content_id), f"seg:{segment}:index")


def page_key(tenant: str, content_id: str, segment: str, page: int) -> Key:
    """Return the key of a page of a segment's texts."""
    return Key(content_partition(tenant, content_id), f"seg:{segment}:text:{page:06d}")


def all_segments(tenant: str, content_id: str) -> Range:
    return Range(content_partition(tenant, content_id), start="seg:", end="seg:~")


def segment_of(sk: str) -> str:
    """Return the name of the segment in the sort key of one of its records."""
    return sk.split(":")[1]
