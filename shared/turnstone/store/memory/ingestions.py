"""Insertions of files by jobs: a record each, and pages of vectors where one takes several runs.

A page is written together with the record of its document. Pages are removed with their payloads by a job of their own,
once no run can write one any more.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256

from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.ingestions import Ingestion, ref_of
from turnstone.ports.records import Absent, Delete, Put
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.banks import all_vectors, ingestion_key, vectors_key
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import pages

HELD_BYTES = 128 * 1024
DIGEST_BYTES = 32
CLEARED_AT_ONCE = 100


def put_ingestion(ref: BankRef, ingestion: Ingestion) -> Put:
    """Return the write that begins an insertion."""
    key = ingestion_key(*ref[:2], ingestion.insertion_id)
    return Put(key, ingestion.model_dump_json(exclude_defaults=True).encode(), when=(Absent(),))


def delete_ingestion(ref: BankRef, insertion_id: str) -> Delete:
    return Delete(ingestion_key(*ref[:2], insertion_id))


def put_vectors(ref: BankRef, insertion_id: str, page: int, digest: bytes, vectors: Sequence[Sequence[float]]) -> Put:
    """Return the write of a page of vectors, in single precision, for the texts of this digest."""
    body = b"".join((digest, *(array("f", vector).tobytes() for vector in vectors)))
    return Put(vectors_key(*ref[:2], insertion_id, page), body, is_apart=True)


def digest_of_texts(chunks: Sequence[DocumentChunk]) -> bytes:
    """Return a hash of the texts that vectors are made of."""
    digest = sha256()
    for chunk in chunks:
        text = chunk.text.encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.digest()


class IngestionStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def find(self, job: Job) -> Ingestion | None:
        """Return the insertion of a job, None if it has ended or the bank is deleted."""
        record = self._store.get(ingestion_key(job.tenant, job.order, job.name))
        return None if record is None else Ingestion.model_validate_json(record.body)

    def vectors(self, ref: BankRef, insertion_id: str, digest: bytes, dimension: int) -> list[list[Sequence[float]]]:
        """Return the stored pages of vectors, as far as they are of the texts with this digest."""
        found: list[list[Sequence[float]]] = []
        for page in pages(self._store, all_vectors(*ref[:2], insertion_id)):
            for record in page.records:
                if isinstance(record, UNREADABLE) or record.body[:DIGEST_BYTES] != digest:
                    return found
                numbers = array("f")
                numbers.frombytes(record.body[DIGEST_BYTES:])
                found.append([numbers[at : at + dimension] for at in range(0, len(numbers), dimension)])
        return found

    def clear(self, job: Job) -> None:
        """Remove the pages of an insertion that has ended, also one whose payload alone was stored."""
        ref, insertion_id = ref_of(job), job.name.partition(":")[2]
        newest = -1
        for page in pages(self._store, all_vectors(*ref[:2], insertion_id)._replace(held_bytes=HELD_BYTES)):
            for record in page.records:
                newest = max(newest, int(record.key.sk.rpartition(":")[2]))
        for number in range(newest + 2):
            key = vectors_key(*ref[:2], insertion_id, number)
            while not self._store.clear(key.pk, CLEARED_AT_ONCE, key.sk):
                pass
