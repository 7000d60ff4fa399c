"""The allowed and the counted cost of operations at DynamoDB: a row for each operation at its dearest."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.capacity import PAGE_BYTES, READ_UNIT_BYTES
from tests.benchmarks.counted_store import Bill
from tests.benchmarks.figures import Figure, counted
from tests.benchmarks.operations_counted import DEFAULT_BUDGET, LENGTHS, SMALL_BUDGET, Case, Counts, count_operations

MOST_READ_UNITS = {SMALL_BUDGET: 10, DEFAULT_BUDGET: 40}
MOST_WRITE_UNITS = 20
SESSION = "get session"


@dataclass(frozen=True, slots=True)
class Due:
    """The cost of an operation: the exact calls, the exact round trips, and capacity.

    Attributes:
        read_units: None for turns, which may read as much as their budget of context tokens allows.
        is_most: the units are not to be exceeded; else they are exact. How well a text is compressed is not the same
            everywhere, and some sizes lie close to where the next unit begins.
    """

    calls: int
    round_trips: int
    write_units: int = 0
    read_units: int | None = None
    is_most: bool = False

    def excess(self, bill: Bill, budget_tokens: int = DEFAULT_BUDGET) -> str:
        """Return the differences from the due cost, empty if the bill is right; the budget is that of a turn."""
        found = {"calls": bill.calls, "round trips": len(bill.round_trips)}
        due = {"calls": self.calls, "round trips": self.round_trips}
        wrong = [f"{found[name]} {name} instead of {due[name]}" for name in due if found[name] != due[name]]
        most_read = MOST_READ_UNITS[budget_tokens] if self.read_units is None else self.read_units
        is_read_most = self.is_most or self.read_units is None
        if bill.read_units > most_read or (bill.read_units < most_read and not is_read_most):
            wrong.append(f"{bill.read_units} read units instead of {most_read}")
        if bill.write_units > self.write_units or (bill.write_units < self.write_units and not self.is_most):
            wrong.append(f"{bill.write_units} write units instead of {self.write_units}")
        return ", ".join(wrong)


# Whatever the history.
DUE = {
    "create agent": Due(calls=1, round_trips=1, write_units=4, read_units=0),
    "create agent, with a key": Due(calls=1, round_trips=1, write_units=6, read_units=0),
    "get agent": Due(calls=1, round_trips=1, read_units=1),
    "create session": Due(calls=2, round_trips=2, write_units=6, read_units=1),
    "create session that passes": Due(calls=2, round_trips=2, write_units=9, read_units=1),
    "delete session": Due(calls=2, round_trips=2, write_units=7, read_units=2),
    "delete agent": Due(calls=2, round_trips=2, write_units=7, read_units=1),
    "get session, one turn": Due(calls=1, round_trips=1, read_units=3),
    "get turn": Due(calls=1, round_trips=1, read_units=3),
    "get turn, running": Due(calls=3, round_trips=3, read_units=5),
    "get turn, waiting": Due(calls=3, round_trips=3, read_units=5),
    "get step": Due(calls=1, round_trips=1, read_units=3),
    "plain turn": Due(calls=4, round_trips=3, write_units=MOST_WRITE_UNITS, is_most=True),
    "plain turn, with a key": Due(calls=4, round_trips=3, write_units=MOST_WRITE_UNITS + 2, is_most=True),
    "server-tool turn": Due(calls=6, round_trips=5, write_units=28, is_most=True),
    "client-tool turn: pause": Due(calls=4, round_trips=3, write_units=9),
    "client-tool turn: pause, with a key": Due(calls=4, round_trips=3, write_units=11),
    "client-tool turn: resume": Due(calls=4, round_trips=3, write_units=21, is_most=True),
    "client-tool turn: resume, with a key": Due(calls=4, round_trips=3, write_units=23, is_most=True),
    "remove the steps of an ended turn": Due(calls=2, round_trips=2, write_units=4, read_units=1),
}


def due_of_session(turn_sizes: Sequence[int]) -> Due:
    """Return the cost of a session's read: header and agent, and a query for each megabyte of turns."""
    pages = [0]
    for size_bytes in turn_sizes:
        pages[-1] += size_bytes
        if pages[-1] >= PAGE_BYTES:
            pages.append(0)
    units_of_turns = sum(max(1, -(-page // READ_UNIT_BYTES)) for page in pages)
    return Due(calls=1 + len(pages), round_trips=len(pages), read_units=2 + units_of_turns)


def wrong_bills(counts: Counts) -> list[str]:
    """Return, in words, every bill that differs from the due one."""
    wrong = []
    for case, bills in counts.bills.items():
        due = due_of_session(counts.turn_sizes[case.turns_before]) if case.operation == SESSION else DUE[case.operation]
        wrong += [f"{case}: {excess}" for bill in bills if (excess := due.excess(bill, case.budget_tokens))]
    return wrong


def counts_of_operations(folder: Path) -> Iterator[Figure]:
    """Yield the calls of each operation at its dearest, its other costs beside them, and the units of plain turns."""
    counts = count_operations(folder)
    by_operation: defaultdict[str, list[Bill]] = defaultdict(list)
    for case, bills in counts.bills.items():
        by_operation[case.operation] += bills
    for operation, of_operation in by_operation.items():
        dearest = max(of_operation, key=lambda bill: (bill.calls, bill.read_units + bill.write_units))
        due = DUE.get(operation) or due_of_session(counts.turn_sizes[max(LENGTHS)])
        yield counted(f"counts: {operation}: calls", dearest.calls, "", due.calls, "be exactly", note=in_words(dearest))
    for budget, most in MOST_READ_UNITS.items():
        read_units = max(bill.read_units for case, bill in _plain(counts) if case.budget_tokens == budget)
        yield counted(f"counts: plain turn, budget {budget:,}: read units", read_units, "", most, "be at most")
    write_units = max(bill.write_units for _, bill in _plain(counts))
    yield counted("counts: plain turn: write units", write_units, "", MOST_WRITE_UNITS, "be at most")
    wrong = wrong_bills(counts)
    yield counted(
        "counts: bills that are not as they should be", len(wrong), "", 0, "be exactly", note=" · ".join(wrong[:3])
    )


def in_words(bill: Bill) -> str:
    """Return round trips and units of the bill."""
    trips = "1 round trip" if len(bill.round_trips) == 1 else f"{len(bill.round_trips)} round trips"
    return f"{trips}, {bill.read_units:,} read and {bill.write_units} write units"


def _plain(counts: Counts) -> Iterator[tuple[Case, Bill]]:
    for case, bills in counts.bills.items():
        if case.operation == "plain turn":
            yield from ((case, bill) for bill in bills)
