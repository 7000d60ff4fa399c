"""Segments of banks as they are made: stored before they are listed, with a job that removes those that never are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.ports.memory import OpenSegment
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.memory.indexes import Indexes
from turnstone.store.cleanup.jobs import sent
from turnstone.store.memory.contents import BankContents, ChunkText

REMOVED_AFTER = timedelta(minutes=2)  # longer than a search or a fold


@dataclass(frozen=True, slots=True)
class SegmentWriting:
    contents: BankContents
    indexes: Indexes
    jobs: Callable[[], Jobs]
    clock: Clock
    ids: IdGenerator

    def new_version(self) -> str:
        """Return a version that no change had."""
        return self.ids.new_id()

    def build(self, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Mapping[str, Any]]) -> bytes:
        """Return the index of these chunks, and of the attributes of their documents."""
        return self.indexes.segments.build(chunks, attributes)

    def merge(self, segments: Sequence[OpenSegment]) -> bytes:
        """Return the index of the chunks of all that count."""
        return self.indexes.segments.merge(segments)

    def put(self, ref: BankRef, index: bytes, chunks: int, texts: Iterable[ChunkText]) -> str | None:
        """Store a segment, and return its name, which states its time; None if it was removed already.

        The job removes what newer segments replace, too. Raises NotFound if the bank was deleted.
        """
        now = self.clock.now()
        cleaning = Job(
            kind="clean_segments", tenant=ref.tenant, order=ref.content_id, since=now, due_at=now + REMOVED_AFTER
        )
        name = self.ids.order_key(now, None)
        is_stored = self.contents.put_segment(ref, name, index, chunks, texts, cleaning)
        sent(self.jobs(), cleaning)
        if not is_stored:
            return None
        self.indexes.keep(ref, name, index)
        return name
