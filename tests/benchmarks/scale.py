"""The cost of a million turns on AWS, and the first limit they meet, from counted operations: `python -m ….scale`.

Pure arithmetic over the counts that `counts.py` holds. The page of costs shows its output; a test compares them.

Sources, for us-east-1 and without free tiers: the pricing pages of API Gateway (REST), Lambda (x86), DynamoDB
(on demand), Step Functions (Standard), EventBridge and CloudWatch Logs; the quota pages of DynamoDB, Lambda and Step
Functions. As of November 2026; nothing here was read from a bill.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.benchmarks.counts import DUE, MOST_READ_UNITS, MOST_WRITE_UNITS
from tests.benchmarks.operations_counted import DEFAULT_BUDGET
from turnstone.store.layout.keys import OPEN_SHARDS

MODEL_S = 3.0
FUNCTION_GB = 1.0
WORKER_S = 0.1
LOG_KB = 1.0
STATES_OF_A_PAUSE = ("Route", "AwaitClient", "Resumed", "Watch", "Attend", "Route", "Notify", "Ended")
TOKEN_WRITE_UNITS = 2  # the machine's own write to a record of up to two kilobytes
ENTRY_WRITE_UNITS = 2  # one entry of a list, written in a transaction
INDEX_WRITE_UNITS = 2  # a turn enters the open index, and leaves it

REQUEST, INVOCATION, EVENT, TRANSITION = 3.50, 0.20, 1.00, 25.00
GB_SECOND, LOG_GB = 16.6667, 0.50
WRITE_UNIT, READ_UNIT = 0.625, 0.125

NEW_TABLE_WRITES = 4_000
PARTITION_WRITES, PARTITION_READS = 1_000, 3_000
CONCURRENT_RUNS, STARTS, TRANSITIONS = 1_000, 300, 5_000


@dataclass(frozen=True, slots=True)
class AwsUse:
    """The use of AWS by one turn. Units at most, as counted; read units with all the context a model may be sent."""

    requests: int
    invocations: int
    function_s: float
    write_units: int
    read_units: int
    transitions: int = 0
    events: int = 0


def plain_turn() -> AwsUse:
    return AwsUse(1, 1, MODEL_S, MOST_WRITE_UNITS, MOST_READ_UNITS[DEFAULT_BUDGET])


def paused_turn() -> AwsUse:
    """Return the use of a turn that waits for its client once: two requests, and an execution of the machine."""
    pause, resume, reconciled = (
        DUE[name] for name in ("client-tool turn: pause", "client-tool turn: resume", "get turn, waiting")
    )
    return AwsUse(
        requests=2,
        invocations=2 + STATES_OF_A_PAUSE.count("Attend"),
        function_s=2 * MODEL_S + WORKER_S,
        write_units=pause.write_units + resume.write_units + TOKEN_WRITE_UNITS,
        read_units=2 * MOST_READ_UNITS[DEFAULT_BUDGET] + (reconciled.read_units or 0),
        transitions=len(STATES_OF_A_PAUSE),
        events=1,
    )


def price_of_a_million(use: AwsUse) -> dict[str, float]:
    """Return US dollars by service."""
    return {
        "API Gateway": use.requests * REQUEST,
        "Lambda": use.invocations * INVOCATION + use.function_s * FUNCTION_GB * GB_SECOND,
        "DynamoDB": use.write_units * WRITE_UNIT + use.read_units * READ_UNIT,
        "Step Functions": use.transitions * TRANSITION,
        "EventBridge, logs": use.events * EVENT + use.invocations * LOG_KB * LOG_GB,
    }


def limits() -> dict[str, float]:
    """Return how many a second there may be until a limit is met: of partitions first, then of accounts."""
    plain, paused = plain_turn(), paused_turn()
    return {
        "turns of one session, if its model took no time: its partition's writes": PARTITION_WRITES / plain.write_units,
        "new sessions of one agent, or new agents of one tenant: the partition of their list": (
            PARTITION_WRITES / ENTRY_WRITE_UNITS
        ),
        "turns of one agent, whose record each reads: its partition's reads": PARTITION_READS,
        f"turns of a stack, whose open ones are listed in {OPEN_SHARDS} partitions": (
            OPEN_SHARDS * PARTITION_WRITES / INDEX_WRITE_UNITS
        ),
        f"plain turns: a new table takes {NEW_TABLE_WRITES:,} write units a second, and more as it is used": (
            NEW_TABLE_WRITES / plain.write_units
        ),
        f"plain turns: an account runs {CONCURRENT_RUNS:,} functions at a time by default": (CONCURRENT_RUNS / MODEL_S),
        "turns that pause: the same table": NEW_TABLE_WRITES / paused.write_units,
        "turns that pause: the same account": CONCURRENT_RUNS / paused.function_s,
        "turns that pause: executions that may be started": STARTS,
        f"turns that pause: {TRANSITIONS:,} transitions of executions a second": TRANSITIONS / paused.transitions,
    }


def use_in_words(use: AwsUse) -> str:
    return (
        f"{use.write_units} write and {use.read_units} read units, {use.requests} request(s), "
        f"{use.invocations} invocation(s) of {use.function_s:g} s in all, {use.transitions} transitions"
    )


def tables() -> Iterator[str]:
    """Yield both tables as lines of Markdown."""
    plain, paused = price_of_a_million(plain_turn()), price_of_a_million(paused_turn())
    yield "| US dollars for a million | plain turns | turns with one pause |"
    yield "|---|---|---|"
    for service, price in plain.items():
        yield f"| {service} | {price:,.2f} | {paused[service]:,.2f} |"
    yield f"| together | {sum(plain.values()):,.2f} | {sum(paused.values()):,.2f} |"
    yield ""
    yield "| as many a second | until a limit is met |"
    yield "|---|---|"
    for what, number in limits().items():
        yield f"| {number:,.0f} | {what} |"


if __name__ == "__main__":
    print(__doc__)
    print(f"A plain turn asks for {use_in_words(plain_turn())}.")
    print(f"A turn with one pause asks for {use_in_words(paused_turn())}.\n")
    print("\n".join(tables()))
