"""Insertion into memory banks."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.banks import BankRef, VectorSpace
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.texts.chunking import count_tokens
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.system import Clock
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.embedding import LARGEST, BankEmbedding
from turnstone.services.memory.folding import Folding
from turnstone.store.memory.contents import BankChange, BankContents

Store = Callable[[BankRef, Sequence[BankChange]], None]
CHARACTERS_OF_NUMBER = 8  # about as many as in a request


@dataclass(frozen=True, slots=True)
class InsertingDeps:
    """Dependencies of insertions.

    Attributes:
        elsewhere: stores changes at a provider; None for this server's own store.
        slot: holds a slot for an insertion of a tenant, of so many characters, or raises InsertionsBusy.
    """

    banks: Banks
    contents: BankContents
    folding: Folding
    embedding: BankEmbedding
    clock: Clock
    elsewhere: Callable[[str], Store | None]
    slot: Callable[[str, int], AbstractContextManager[None]]


class Inserting:
    def __init__(self, deps: InsertingDeps) -> None:
        self._deps = deps

    def insert_chunks(
        self,
        caller: Caller,
        bank_id: str,
        given: Sequence[GivenChunk],
        provider_data: ProviderData,
        attempt: Attempt,
    ) -> None:
        """Insert the chunks, each durable and found by every search when this returns.

        A chunk replaces one of the same text and document. After an error, some chunks may have been inserted.

        Raises:
            NotFound: no such bank.
            InvalidRequest: a vector is unusable, or the bank is full.
            ModelError: the chunks could not be embedded; none is inserted.
            MemoryProviderError: the store of the bank's content failed.
            IdempotencyMismatch: the request's key was used for another body.
            InsertionsBusy: other large insertions came first.
        """
        stored = self._deps.banks.visible(caller, bank_id, "vector")
        bank, ref = stored.bank, BankRef(caller.tenant, stored.content_id, bank_id)
        if self._deps.contents.is_repeated(ref, attempt, self._deps.clock.now()):
            return
        self._deps.banks.touch(caller.tenant, [stored])
        chunks = {each.key: each for each in given}
        if bank.space is not None:
            _check_vectors(given, bank.space)
        elsewhere = self._deps.elsewhere(bank.provider_id)
        if elsewhere is None:
            self._deps.folding.check_room(ref, len(chunks), "chunks")
        with self._deps.slot(caller.tenant, sum(_size_of(each) for each in given)):
            vectors = self._vectors(caller, list(chunks.values()), bank.space, provider_data)
            changes = [
                BankChange(key, (DocumentChunk(key, 0, each.text, count_tokens(each.text), each.metadata, vector),))
                for (key, each), vector in zip(chunks.items(), vectors, strict=True)
            ]
            store = elsewhere or self._deps.folding.store
            store(ref, changes)
        self._deps.contents.complete(ref, attempt, self._deps.clock.now())

    def _vectors(
        self, caller: Caller, chunks: Sequence[GivenChunk], space: VectorSpace | None, provider_data: ProviderData
    ) -> list[Sequence[float] | None]:
        """Return the vector of each chunk, in single precision."""
        if space is None:
            return [None] * len(chunks)
        missing = [each.text for each in chunks if each.vector is None]
        made = iter(self._deps.embedding.vectors(caller, space, missing, provider_data))
        return [next(made) if each.vector is None else array("f", each.vector) for each in chunks]


def _size_of(chunk: GivenChunk) -> int:
    """Return the characters of a chunk, and about those of its vector."""
    return len(chunk.text) + CHARACTERS_OF_NUMBER * len(chunk.vector or ())


def _check_vectors(given: Sequence[GivenChunk], space: VectorSpace) -> None:
    """Raise InvalidRequest for a vector of a client that cannot be searched."""
    for index, each in enumerate(given):
        if each.vector is None:
            continue
        location = ("chunks", index, "embedding")
        if len(each.vector) != space.dimension:
            problem = f"must have {space.dimension} numbers, not {len(each.vector)}"
            raise InvalidRequest(f"chunks.{index}.embedding: {problem}", location)
        if not all(map(math.isfinite, each.vector)) or max(map(abs, each.vector)) > LARGEST:
            raise InvalidRequest(f"chunks.{index}.embedding: must be of numbers between ±{LARGEST:g}", location)
        if max(map(abs, each.vector)) < 1 / LARGEST:
            raise InvalidRequest(f"chunks.{index}.embedding: must not be zero", location)
