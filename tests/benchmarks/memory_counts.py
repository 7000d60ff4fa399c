"""The due and the counted cost of the operations of memory and of files at DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.counted_store import Bill, CountedStore
from tests.benchmarks.counts import Due, in_words
from tests.benchmarks.figures import Figure, counted
from tests.benchmarks.memory_operations import BANK_SIZES, BankCase, do_memory_operations
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.oversize import OversizeStore

Bills = dict[BankCase, Bill]

# Whatever the size of the bank, apart from `DUE_OF_A_LARGE_BANK`. The texts of a long log are compressed, so its units
# are the most.
DUE = {
    "create bank": Due(calls=3, round_trips=3, write_units=4, read_units=2),
    "insert a document": Due(calls=6, round_trips=6, write_units=10, read_units=5),
    "insert a document, with a key": Due(calls=8, round_trips=8, write_units=14, read_units=6),
    "insert the same document again": Due(calls=3, round_trips=3, read_units=3),
    "insert another text of a document": Due(calls=8, round_trips=8, write_units=10, read_units=7),
    "get document": Due(calls=3, round_trips=3, read_units=3),
    "delete document": Due(calls=4, round_trips=4, write_units=12, read_units=3),
    "search, three documents in the log": Due(calls=3, round_trips=3, read_units=3),
    "search, 63 documents in the log": Due(calls=3, round_trips=3, read_units=20, is_most=True),
    "insert a document, and fold the log": Due(calls=13, round_trips=13, write_units=290, read_units=44, is_most=True),
    "search, no log": Due(calls=4, round_trips=4, read_units=4),
    "search, the first one of a process": Due(calls=5, round_trips=5, read_units=5),
    "insert 128 chunks": Due(calls=7, round_trips=7, write_units=18, read_units=3),
    "delete bank": Due(calls=2, round_trips=2, write_units=7, read_units=1),
    "upload a small file": Due(calls=1, round_trips=1, write_units=8, read_units=0),
    "get file": Due(calls=1, round_trips=1, read_units=1),
    "read a small file": Due(calls=3, round_trips=3, read_units=3),
    "upload a file of three pieces": Due(calls=5, round_trips=5, write_units=24, read_units=0),
    "read a file of three pieces": Due(calls=4, round_trips=4, read_units=5),
    "begin an upload": Due(calls=1, round_trips=1, write_units=7, read_units=0),
    "add the first part of 5 MB": Due(calls=4, round_trips=4, write_units=12, read_units=1),
    "add the second part of 5 MB": Due(calls=4, round_trips=4, write_units=12, read_units=1),
    "complete an upload": Due(calls=3, round_trips=3, write_units=6, read_units=3),
    "delete file": Due(calls=2, round_trips=2, write_units=7, read_units=1),
    "create vector store": Due(calls=4, round_trips=4, write_units=4, read_units=3),
    "create vector store with a file": Due(calls=10, round_trips=10, write_units=15, read_units=8),
    "ingest the file of a new store": Due(calls=16, round_trips=16, write_units=21, read_units=13),
    "attach a file": Due(calls=5, round_trips=5, write_units=11, read_units=4),
    "ingest an attached file": Due(calls=16, round_trips=16, write_units=21, read_units=13),
    "get vector store": Due(calls=2, round_trips=2, read_units=2),
    "search vector store": Due(calls=5, round_trips=5, read_units=5),
    "remove a file from its store": Due(calls=4, round_trips=4, write_units=12, read_units=3),
    "delete vector store": Due(calls=2, round_trips=2, write_units=7, read_units=1),
}

# The first search of a process also reads the index of each segment, here of five, and the pages of the texts found.
DUE_OF_A_LARGE_BANK = {
    "search, the first one of a process": Due(calls=5, round_trips=5, read_units=10),
}


def due_of(case: BankCase) -> Due:
    """Return the due cost of an operation."""
    of_large_bank = DUE_OF_A_LARGE_BANK if case.chunks_before else {}
    return of_large_bank.get(case.operation) or DUE[case.operation]


def count_memory_operations(store: RangeStore, folder: Path) -> Bills:
    """Return the bill of each operation over that store, with payloads in the folder."""
    bills: Bills = {}
    below = CountedStore(store)

    @contextmanager
    def measured(case: BankCase) -> Iterator[None]:
        below.taken()
        yield
        bills[case] = below.taken()

    do_memory_operations(OversizeStore(below, FileBlobStore(folder)), measured)
    return bills


def wrong_memory_bills(bills: Bills) -> list[str]:
    """Return, in words, every bill that differs from the due one."""
    return [f"{case}: {excess}" for case, bill in bills.items() if (excess := due_of(case).excess(bill))]


def counts_of_memory(folder: Path) -> Iterator[Figure]:
    """Yield the calls of each operation on the largest bank, its other costs beside them."""
    folder.mkdir(parents=True)
    sqlite = SqliteRangeStore(folder / "turnstone.db")
    try:
        bills = count_memory_operations(sqlite, folder / "payloads")
    finally:
        sqlite.close()
    for case, bill in bills.items():
        if case.chunks_before == max(BANK_SIZES):
            name = f"counts: {case.operation}: calls"
            yield counted(name, bill.calls, "", due_of(case).calls, "be exactly", note=in_words(bill))
    wrong = wrong_memory_bills(bills)
    note = " · ".join(wrong[:3])
    yield counted("counts: bills of memory that are not as they should be", len(wrong), "", 0, "be exactly", note=note)
