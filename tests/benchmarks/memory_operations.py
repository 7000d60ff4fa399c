"""Every operation of memory and of files, done as its route does it, each under its name for measurements.

The process has answered other requests before, except for an operation whose name contains that it is the first one.
Ids, times and texts are the same in every run.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import cache
from random import Random
from typing import NamedTuple
from zlib import crc32

from tests.benchmarks.histories import BEGAN_AT
from tests.benchmarks.prose import prose
from tests.benchmarks.workload import SteadyClock, ports_over
from turnstone.bootstrap.core import Core
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.files.stored_files import NewUpload
from turnstone.domain.jobs import JobKind
from turnstone.domain.memory.banks import BankRef, NewBank
from turnstone.domain.memory.documents import NewDocument, TextDocument
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.storage import RangeStore
from turnstone.services.memory.folding import FOLDED_FROM, ONE_IN
from turnstone.settings.config import Settings
from turnstone.store.files.contents import PIECE_BYTES
from turnstone.store.memory.contents import BankContents

BANK, MODEL = "counted", "offline"
BANK_SIZES = (0, 512)
CHUNKS_AT_ONCE = 128
CHARACTERS = 1_000
SMALL_FILE = prose(1, 2_000).encode()
PART = bytes(5 * 1024 * 1024)
ENOUGH = timedelta(minutes=1)
QUESTION = BankQuestion("the chart of the first station", None)


_prose = cache(prose)


class BankCase(NamedTuple):
    """An operation on a bank that had so many chunks in segments."""

    operation: str
    chunks_before: int


Measured = Callable[[BankCase], AbstractContextManager[object]]


def do_memory_operations(store: RangeStore, measured: Measured, sizes: Sequence[int] = BANK_SIZES) -> None:
    """Do every operation on a bank of each size."""
    for chunks in sizes:
        of_bank = MemoryOperations(store, measured, chunks)
        of_bank.banks_and_texts()
        of_bank.files()
        of_bank.vector_stores()


class MemoryOperations:
    """The services over a store, and a bank with a size. `measured` is entered around each operation."""

    def __init__(self, store: RangeStore, measured: Measured, chunks: int) -> None:
        self._store = store
        self._measured = measured
        self._chunks = chunks
        self._random = Random(f"memory {chunks}")
        self._clock = SteadyClock(BEGAN_AT + timedelta(days=1 + chunks))
        self._core = self._process()
        self._bank = f"{BANK}-{chunks}"

    def banks_and_texts(self) -> None:
        """Create a bank of that size, insert and search, and delete it."""
        core, bank = self._core, self._bank
        with self._counted("create bank"):
            core.banks.register(LOCAL_CALLER, NewBank(bank, "vector", MODEL), NO_PROVIDER_DATA, self._attempt())
        for begin in range(0, self._chunks, CHUNKS_AT_ONCE):
            self._insert_chunks(range(begin, begin + CHUNKS_AT_ONCE))
        self._search()
        log = iter(_ids_that_check_no_log())
        with self._counted("insert a document"):
            self._insert(next(log))
        with self._counted("insert a document, with a key"):
            self._insert(next(log), has_key=True)
        repeated = next(log)
        self._insert(repeated)
        with self._counted("insert the same document again"):
            self._insert(repeated)
        with self._counted("insert another text of a document"):
            self._insert(repeated, text=_prose(7, CHARACTERS))
        with self._counted("get document"):
            core.documents.get(LOCAL_CALLER, bank, repeated)
        with self._counted("delete document"):
            core.documents.drop(LOCAL_CALLER, bank, repeated)
        with self._counted("search, three documents in the log"):
            self._search()
        while self._logged() < FOLDED_FROM - 1:
            self._insert(next(log))
        with self._counted("search, 63 documents in the log"):
            self._search()
        with self._counted("insert a document, and fold the log"):
            self._insert(_id_that_checks_the_log())
        assert self._logged() == 0
        with self._counted("search, no log"):
            self._search()
        self._core = self._process()
        with self._counted("search, the first one of a process"):
            self._search()
        with self._counted("insert 128 chunks"):
            self._insert_chunks(range(self._chunks, self._chunks + CHUNKS_AT_ONCE))
        with self._counted("delete bank"):
            self._core.banks.delete(LOCAL_CALLER, bank)

    def files(self) -> None:
        """Store, read and delete files, small ones and large ones, and one in parts."""
        core = self._core
        with self._counted("upload a small file"):
            small = self._file(SMALL_FILE)
        with self._counted("get file"):
            core.files.get(LOCAL_CALLER, small)
        with self._counted("read a small file"):
            deque(core.files.open(LOCAL_CALLER, small)[1], maxlen=0)
        with self._counted("upload a file of three pieces"):
            large = self._file(bytes(3 * PIECE_BYTES))
        with self._counted("read a file of three pieces"):
            deque(core.files.open(LOCAL_CALLER, large)[1], maxlen=0)
        with self._counted("begin an upload"):
            announced = NewUpload("birds.txt", "text/plain", "assistants", 2 * len(PART))
            upload = core.uploads.create(LOCAL_CALLER, announced, self._attempt())
        parts = []
        for number in ("first", "second"):
            with self._counted(f"add the {number} part of 5 MB"):
                added = core.uploads.add_part(LOCAL_CALLER, upload.upload_id, len(PART), [PART], self._attempt())
            parts.append(added.part_id)
        with self._counted("complete an upload"):
            core.uploads.complete(LOCAL_CALLER, upload.upload_id, parts, None)
        with self._counted("delete file"):
            core.files.delete(LOCAL_CALLER, small)

    def vector_stores(self) -> None:
        """Create stores, attach a file, search, remove the file, delete the store."""
        core, first, second = self._core, self._file(SMALL_FILE), self._file(SMALL_FILE)
        with self._counted("create vector store"):
            store_id = self._store_of()
        with self._counted("create vector store with a file"):
            self._store_of(first)
        self._run("ingest_document", "ingest the file of a new store")
        with self._counted("attach a file"):
            news = [NewDocument(second, file_id=second)]
            core.vector_stores.add_files(LOCAL_CALLER, store_id, news, self._attempt())
        self._run("ingest_document", "ingest an attached file")
        with self._counted("get vector store"):
            core.vector_stores.get(LOCAL_CALLER, store_id)
        with self._counted("search vector store"):
            core.vector_stores.search(LOCAL_CALLER, store_id, [QUESTION], NO_PROVIDER_DATA)
        with self._counted("remove a file from its store"):
            core.vector_stores.remove_file(LOCAL_CALLER, store_id, second)
        with self._counted("delete vector store"):
            core.vector_stores.delete(LOCAL_CALLER, store_id)

    def _counted(self, operation: str) -> AbstractContextManager[object]:
        return self._measured(BankCase(operation, self._chunks))

    def _process(self) -> Core:
        return Core(ports_over(self._store, self._clock, self._random), Settings(), is_on_lambda=True)

    def _attempt(self, *, has_key: bool = False) -> Attempt:
        digest = self._random.randbytes(16).hex()
        return Attempt(fingerprint=digest, key=digest if has_key else None)

    def _insert(self, document_id: str, *, text: str = "", has_key: bool = False) -> None:
        text = text or _prose(crc32(document_id.encode()), CHARACTERS)
        document = TextDocument(NewDocument(document_id, size_bytes=len(text)), text)
        attempt = self._attempt(has_key=has_key)
        self._core.documents.insert(LOCAL_CALLER, self._bank, [document], NO_PROVIDER_DATA, attempt)

    def _insert_chunks(self, numbers: range) -> None:
        given = [GivenChunk(_prose(number, CHARACTERS), {}, f"chunk{number}", _vector(number)) for number in numbers]
        self._core.inserting.insert_chunks(LOCAL_CALLER, self._bank, given, NO_PROVIDER_DATA, self._attempt())

    def _search(self) -> None:
        self._core.searching.search(LOCAL_CALLER, self._bank, QUESTION, NO_PROVIDER_DATA)

    def _logged(self) -> int:
        stored = self._core.banks.visible(LOCAL_CALLER, self._bank)
        ref = BankRef(LOCAL_CALLER.tenant, stored.content_id, self._bank)
        return len(BankContents(self._store).view(ref).log)

    def _file(self, content: bytes) -> str:
        file = self._core.files.create(LOCAL_CALLER, "birds.txt", "text/plain", "assistants", [content])
        return file.file_id

    def _store_of(self, *file_ids: str) -> str:
        new = NewBank("", "vector", MODEL)
        state = self._core.vector_stores.create(LOCAL_CALLER, new, file_ids, NO_PROVIDER_DATA, self._attempt())
        return state.bank.bank_id

    def _run(self, kind: JobKind, operation: str) -> None:
        (job,) = self._core.cleaning.due(lambda each: each == kind)
        with self._counted(operation):
            self._core.cleaning.run_for(job, ENOUGH)


@cache
def _vector(number: int) -> array[float]:
    random = Random(number)
    return array("f", (random.uniform(-1, 1) for _ in range(384)))


def _ids_that_check_no_log() -> list[str]:
    """Return ids of documents after whose insertion the length of the log is not looked at."""
    ids = [f"d{number:04d}" for number in range(200)]
    return [each for each in ids if crc32(each.encode()) % ONE_IN]


def _id_that_checks_the_log() -> str:
    return next(each for each in (f"e{number}" for number in range(10_000)) if not crc32(each.encode()) % ONE_IN)
