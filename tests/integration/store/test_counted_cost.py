"""The cost of every operation at DynamoDB: an exact number of calls and bounded units, after any history.

Covers: store, adapters/aws/dynamodb
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.benchmarks.capacity import size_of, size_of_value, units_of_write
from tests.benchmarks.counted_store import Bill, CountedStore
from tests.benchmarks.counts import DUE, SESSION, due_of_session, wrong_bills
from tests.benchmarks.operations_counted import BUDGETS, LENGTHS, TURNS_COUNTED, Case, Counts, count_operations
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.errors import Conflict
from turnstone.ports.records import Absent, Check, Delete, Get, Key, Operation, Put, Range, Record, RevIs, Update

SMALL, DEFAULT = BUDGETS
TURNS = {operation for operation, due in DUE.items() if due.read_units is None}
KB = 1024
A, B, C = (Key("p", sk) for sk in "abc")


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    return count_operations(tmp_path_factory.mktemp("counted"))


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[CountedStore]:
    sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
    yield CountedStore(sqlite)
    sqlite.close()


def test_every_operation_is_counted_after_every_history_and_turns_under_every_budget(counts: Counts) -> None:
    others = {Case(operation, n, DEFAULT) for operation in {*DUE, SESSION} - TURNS for n in (0, 100, 1_000, 10_000)}
    turns = {Case(operation, n, budget) for operation in TURNS for n in (0, 100, 1_000, 10_000) for budget in BUDGETS}
    assert others | turns == set(counts.bills)
    assert {len(bills) for case, bills in counts.bills.items() if case.operation in TURNS} == {TURNS_COUNTED}
    assert {length: len(sizes) for length, sizes in counts.turn_sizes.items()} == {n: n for n in LENGTHS}


@pytest.mark.parametrize("operation", DUE)
def test_an_operation_costs_the_expected_calls_and_units_after_any_history(counts: Counts, operation: str) -> None:
    assert [wrong for wrong in wrong_bills(counts) if f"{operation!r}" in wrong] == []


@pytest.mark.parametrize(("budget", "read_units"), [(4_000, 10), (32_000, 40)])
def test_a_plain_turn_is_four_calls_in_three_round_trips_within_its_units(
    counts: Counts, budget: int, read_units: int
) -> None:
    bills = [bill for length in LENGTHS for bill in counts.bills[Case("plain turn", length, budget)]]
    assert {(bill.calls, len(bill.round_trips)) for bill in bills} == {(4, 3)}
    assert max(bill.write_units for bill in bills) <= 20
    assert max(bill.read_units for bill in bills) <= read_units


def test_a_turn_makes_one_more_write_for_each_further_step(counts: Counts) -> None:
    for length in LENGTHS:
        plain, with_tool = (
            {tuple(map(tuple, bill.names)) for bill in counts.bills[Case(operation, length, DEFAULT)]}
            for operation in ("plain turn", "server-tool turn")
        )
        assert {(*names, ("TransactWriteItems",), ("TransactWriteItems",)) for names in plain} == with_tool


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_plain_turn_reads_and_writes_the_same_after_1_000_turns_as_after_10_000(counts: Counts, budget: int) -> None:
    def most(length: int) -> tuple[int, int]:
        bills = counts.bills[Case("plain turn", length, budget)]
        return max(bill.read_units for bill in bills), max(bill.write_units for bill in bills)

    assert most(1_000) == most(10_000)


@pytest.mark.parametrize("length", LENGTHS)
def test_reading_a_session_costs_its_header_and_the_megabytes_of_its_turns(counts: Counts, length: int) -> None:
    (bill,) = counts.bills[Case(SESSION, length, DEFAULT)]
    due = due_of_session(counts.turn_sizes[length])
    assert (due.calls, due.round_trips, due.read_units) == (bill.calls, len(bill.round_trips), bill.read_units)
    assert bill.write_units == 0


@pytest.mark.parametrize(("length", "calls", "round_trips"), [(0, 2, 1), (100, 2, 1), (1_000, 3, 2)])
def test_a_session_of_a_hundred_turns_is_read_in_one_round_trip_and_of_a_thousand_in_two(
    counts: Counts, length: int, calls: int, round_trips: int
) -> None:
    (bill,) = counts.bills[Case(SESSION, length, DEFAULT)]
    assert (calls, round_trips) == (bill.calls, len(bill.round_trips))


def billed(store: CountedStore, *operations: Operation) -> Bill:
    store.taken()
    store.write(operations)
    return store.taken()


def test_several_gets_are_batches_of_a_hundred_beside_the_ranges_and_name_a_key_once(counted: CountedStore) -> None:
    gets = [Get(Key("p", f"{number:03}")) for number in range(250)]
    expectations: Sequence[tuple[list[Get], int, list[list[str]]]] = [
        ([], 0, []),
        ([], 2, [["Query", "Query"]]),
        (gets[:1], 0, [["GetItem"]]),
        (gets[:1] * 2, 1, [["BatchGetItem", "Query"]]),
        (gets[:100] * 2, 1, [["BatchGetItem", "Query"]]),
        (gets, 1, [["BatchGetItem", "Query"], ["BatchGetItem"], ["BatchGetItem"]]),
    ]
    for requested, ranges, names in expectations:
        counted.gather(requested, [Range("p")] * ranges)
        bill = counted.taken()
        assert names == bill.names
        assert len(set(requested)) + ranges == bill.read_units


def test_a_lone_write_pays_no_transaction_but_a_lone_check_does(counted: CountedStore) -> None:
    expectations: list[tuple[Operation, str, int]] = [
        (Put(A, b""), "PutItem", 1),
        (Update(A, {"n": 1}, ()), "UpdateItem", 1),
        (Check(A, (RevIs(1),)), "TransactWriteItems", 2),
        (Delete(A), "DeleteItem", 1),
    ]
    for operation, name, units in expectations:
        bill = billed(counted, operation)
        assert (bill.names, bill.write_units) == ([[name]], units)
    assert billed(counted, Put(A, b""), Put(B, b"")).write_units == 4


def test_a_write_pays_for_the_larger_of_the_old_and_the_new_item(counted: CountedStore) -> None:
    assert billed(counted, Put(A, bytes(3 * KB))).write_units == 4
    assert billed(counted, Put(A, b"")).write_units == 4
    assert billed(counted, Update(A, {"note": "x" * 2 * KB}, ())).write_units == 3
    assert billed(counted, Update(A, {"note": None}, ())).write_units == 3
    assert billed(counted, Update(A, {"note": None}, ())).write_units == 1


def test_an_entry_of_the_open_index_is_paid_when_it_comes_and_when_it_goes() -> None:
    closed, opened = (Record(A, b"", attributes, 1) for attributes in ({}, {"open": "x"}))
    expectations: list[tuple[Operation, Record | None, int]] = [
        (Put(A, b"", {"open": "x"}), None, 1),
        (Put(A, b"", {"open": "x"}), opened, 0),
        (Put(A, b"", {"open": "y"}), opened, 2),
        (Put(A, b""), opened, 1),
        (Update(A, {"open": None}, ()), opened, 1),
        (Update(A, {"steps": 1}, ()), opened, 0),
        (Delete(A), opened, 1),
        (Delete(A), closed, 0),
    ]
    for operation, before, entries in expectations:
        assert units_of_write([(operation, before)]) == 1 + entries, operation


def test_a_refused_write_is_paid_for(counted: CountedStore) -> None:
    counted.write([Put(A, b"")])
    counted.taken()
    with pytest.raises(Conflict):
        counted.write([Put(A, b"", when=(Absent(),)), Put(B, b"")])
    assert counted.taken().write_units == 4


def test_a_range_pays_for_the_sum_of_its_records_and_ends_a_page_at_a_megabyte(counted: CountedStore) -> None:
    for number in range(30):
        counted.write([Put(Key("p", f"{number:02}"), bytes(40_300))])
    counted.taken()
    first = counted.range(Range("p"))
    assert (len(first.records), first.after) == (26, "25")  # a megabyte with their names and keys, not without
    assert counted.taken().read_units == 257
    rest = counted.range(Range("p", after=first.after))
    assert (len(rest.records), rest.after) == (4, None)


@pytest.mark.parametrize(
    ("number", "size"), [(0, 1), (7, 2), (42, 2), (100, 2), (120, 3), (1_230, 3), (12_345, 4), (-1, 3)]
)
def test_a_number_takes_a_byte_and_one_for_two_digits_up_to_its_closing_zeros(number: int, size: int) -> None:
    assert size == size_of_value(number)


def test_an_item_is_as_large_as_its_names_and_values_in_utf_8() -> None:
    written = len("pk" + "ü-" + "sk" + "b" + "body" + "rev" + "nonce" + "status" + "idle") + 1
    assert written + 5 + 2 + 32 == size_of(Key("ü-", "b"), b"12345", {"status": "idle"}, rev=1)
