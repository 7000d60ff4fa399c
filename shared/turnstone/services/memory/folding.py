"""Changes of a bank: small ones go to its log, which is folded into segments; large ones are a segment at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from turnstone.domain.errors import InvalidRequest, StoreUnavailable
from turnstone.domain.memory.banks import MOST_CHUNKS, BankRef
from turnstone.ports.records import Operation
from turnstone.services.memory.merging import LARGE, TRIES, Merging
from turnstone.services.memory.segment_writing import SegmentWriting
from turnstone.store.keys.banks import log_key
from turnstone.store.memory.contents import (
    BankChange,
    BankContents,
    ChunkText,
    LoggedChange,
    Manifest,
    SegmentEntry,
)

FOLDED_FROM = 64  # chunks in the log
AT_ONCE_FROM = 64  # chunks of a request
CHANGES_AT_ONCE = 90  # deletions of the write that ends a fold
CHUNKS_AT_ONCE = 2_048
ONE_IN = 32
Records = Callable[[], Sequence[Operation]]


@dataclass(frozen=True, slots=True)
class FoldingDeps:
    contents: BankContents
    writing: SegmentWriting
    merging: Merging


def is_due(document_ids: Sequence[str], chunks: int) -> bool:
    """Return whether to check the log after this insertion: always after a large one, else one time in some."""
    return chunks >= ONE_IN or any(crc32(each.encode("utf-8", "surrogatepass")) % ONE_IN == 0 for each in document_ids)


def _no_records() -> Sequence[Operation]:
    return ()


def is_large(changes: Sequence[BankChange]) -> bool:
    """Return whether changes that are stored together become a segment at once."""
    return sum(each.size for each in changes) >= AT_ONCE_FROM


class Folding:
    def __init__(self, deps: FoldingDeps) -> None:
        self._deps = deps

    def store(self, ref: BankRef, changes: Sequence[BankChange]) -> None:
        """Store changes of different documents, each durable and found by every search when this returns.

        Each of them is stored wholly or not. After an error, some of them may have been.

        Raises:
            NotFound: the bank was deleted.
            StoreUnavailable: other changes of the bank came first, sixteen times in a row.
        """
        for some in _groups(changes):
            if is_large(some):
                self.store_at_once(ref, some)
            else:
                self._deps.contents.append(ref, some, self._deps.writing.new_version)
                if is_due([each.document_id for each in some], _size(some)):
                    self.fold(ref)

    def fold(self, ref: BankRef) -> None:
        """Fold the log while it is long. Another process may do the same: the first one's fold counts."""
        while True:
            log = self._deps.contents.view(ref).log
            if sum(each.size for each in log) < FOLDED_FROM:
                return
            folded = _first(log)
            entry = self._written(ref, [each.change() for each in folded])
            after = None if entry is None else self._listed(ref, entry, folded)
            if after is None:
                return
            self._deps.merging.settle(ref, after)

    def reclaim(self, ref: BankRef) -> None:
        """Count the replaced chunks of each segment, and rewrite those segments that mostly consist of them."""
        self._deps.merging.settle(ref, self._deps.contents.manifest(ref), is_weighed=True)

    def check_room(self, ref: BankRef, added: int, field: str) -> None:
        """Raise InvalidRequest, which names the field, if the bank has no room for that many more chunks."""
        if self._deps.contents.manifest(ref).chunks + added <= MOST_CHUNKS:
            return
        self.reclaim(ref)
        if self._deps.contents.manifest(ref).chunks + added > MOST_CHUNKS:
            problem = f"{ref.bank_id!r} would have more than {MOST_CHUNKS} chunks; use another one"
            raise InvalidRequest(f"{field}: {problem}", (field,))

    def store_at_once(self, ref: BankRef, changes: Sequence[BankChange], records: Records = _no_records) -> None:
        """Store the changes as a segment, which replaces the changes of their documents in the log.

        Args:
            records: returns other writes that are applied with these or not at all; called before each try.

        Raises:
            NotFound: the bank was deleted.
            StoreUnavailable: other changes of the bank came first, sixteen times in a row.
        """
        keys = {log_key(*ref[:2], each.document_id) for each in changes}
        entry = self._written(ref, changes)
        for _ in range(TRIES):
            if entry is None:
                break
            view = self._deps.contents.view(ref)
            older = [each for each in view.log if each.key in keys]
            if len(older) > CHANGES_AT_ONCE:
                self.fold(ref)
                continue
            segments = (*view.manifest.segments, entry)
            if after := self._deps.contents.commit(ref, view.manifest, segments, older, records()):
                self._deps.merging.settle(ref, after, is_weighed=entry.chunks > LARGE)
                return
        raise StoreUnavailable("the memory bank changes faster than a segment can be added, try again")

    def _written(self, ref: BankRef, changes: Sequence[BankChange]) -> SegmentEntry | None:
        """Return a stored segment of these changes, not listed yet; None if it was removed already."""
        chunks = [chunk for each in changes for chunk in each.chunks or ()]
        dropped = tuple(each.document_id for each in changes if not each.chunks)
        index = self._deps.writing.build(chunks, {each.document_id: each.attributes for each in changes})
        texts = (ChunkText(chunk.position, chunk.tokens, chunk.text) for chunk in chunks)
        name = self._deps.writing.put(ref, index, len(chunks), texts)
        return None if name is None else SegmentEntry(name, len(chunks), dropped)

    def _listed(self, ref: BankRef, entry: SegmentEntry, folded: Sequence[LoggedChange]) -> Manifest | None:
        """Return the list with the segment, None if one of the folded changes is not in the log any more."""
        for _ in range(TRIES):
            view = self._deps.contents.view(ref)
            if not {each.version for each in folded} <= {each.version for each in view.log}:
                return None
            after = self._deps.contents.commit(ref, view.manifest, (*view.manifest.segments, entry), folded)
            if after is not None:
                return after
        return None


def _size(changes: Sequence[BankChange]) -> int:
    return sum(each.size for each in changes)


def _groups(changes: Sequence[BankChange]) -> Iterator[list[BankChange]]:
    """Yield as many changes at a time as one segment takes, one at least."""
    some: list[BankChange] = []
    size = 0
    for each in changes:
        if some and size + each.size > CHUNKS_AT_ONCE:
            yield some
            some, size = [], 0
        some.append(each)
        size += each.size
    if some:
        yield some


def _first(log: Sequence[LoggedChange]) -> list[LoggedChange]:
    """Return as many changes as one fold takes, one at least."""
    some: list[LoggedChange] = []
    for each in log[:CHANGES_AT_ONCE]:
        if some and sum(one.size for one in some) + each.size > CHUNKS_AT_ONCE:
            break
        some.append(each)
    return some
