"""The requests to DynamoDB of each operation: they are the counted calls, and within DynamoDB's limits.

Moto accepts more than DynamoDB does; so the tests check the requests for everything that DynamoDB would refuse.

Covers: adapters/aws/dynamodb, store
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from string import ascii_letters
from typing import Any

import botocore.session
import pytest
from moto import mock_aws

import tests.fakes.aws.moto_tables  # noqa: F401 - transactions that take no time
from tests.benchmarks.histories import TENANT, Past
from tests.benchmarks.operations_counted import DEFAULT_BUDGET, Case, Counts, count_operations, do_operations
from tests.support.aws.dynamo_table import create_table
from tests.support.aws.recording_client import RecordingClient
from tests.support.stores.session_lists import fill
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.dynamodb_items import encoded_key
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import NotFound
from turnstone.domain.lists import ListQuery
from turnstone.domain.refs import SessionRef
from turnstone.ports.records import Absent, Key, Put
from turnstone.ports.storage import RangeStore
from turnstone.services.access.access import AccessRules
from turnstone.services.sessions.sessions import SessionDeps, Sessions
from turnstone.store.agents.agents import AgentStore
from turnstone.store.layout.keys import session_list, session_list_key
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.sessions.sessions import SessionStore

LENGTHS = (0, 100)
BUDGETS = (DEFAULT_BUDGET,)
TIMES = 1
TABLE = "turnstone"

OPEN_AND_CLOSE = [["TransactWriteItems"], ["TransactWriteItems"]]
TWO_STEPS = [["TransactWriteItems"], ["TransactWriteItems"]]
# Turns begin in a process whose copy of the registry is old: it is read along with the agent.
CALLS: dict[str, list[list[str]]] = {
    "create agent": [["TransactWriteItems"]],
    "create agent, with a key": [["TransactWriteItems"]],
    "get agent": [["GetItem"]],
    "create session": [["GetItem"], ["TransactWriteItems"]],
    "create session that passes": [["GetItem"], ["TransactWriteItems"]],
    "delete session": [["BatchGetItem"], ["TransactWriteItems"]],
    "delete agent": [["GetItem"], ["TransactWriteItems"]],
    "get session": [["BatchGetItem", "Query"]],
    "get session, one turn": [["BatchGetItem"]],
    "get turn": [["BatchGetItem"]],
    "get turn, running": [["BatchGetItem"], ["Query"], ["GetItem"]],
    "get turn, waiting": [["BatchGetItem"], ["Query"], ["GetItem"]],
    "get step": [["BatchGetItem"]],
    "plain turn": [["BatchGetItem", "Query"], *OPEN_AND_CLOSE],
    "plain turn, with a key": [["BatchGetItem", "Query"], *OPEN_AND_CLOSE],
    "server-tool turn": [["BatchGetItem", "Query"], *OPEN_AND_CLOSE, *TWO_STEPS],
    "client-tool turn: pause": [["BatchGetItem", "Query"], *OPEN_AND_CLOSE],
    "client-tool turn: pause, with a key": [["BatchGetItem", "Query"], *OPEN_AND_CLOSE],
    "client-tool turn: resume": [["BatchGetItem", "Query"], *OPEN_AND_CLOSE],
    "client-tool turn: resume, with a key": [["BatchGetItem", "Query"], *OPEN_AND_CLOSE],
    "remove the steps of an ended turn": [["Query"], ["TransactWriteItems"]],
}

# Limits of DynamoDB.
ITEM_BYTES = 400 * 1024
TRANSACTION_BYTES = 4 * 1024 * 1024
TRANSACTION_MEMBERS = 100
BATCH_KEYS = 100
TOKEN_CHARACTERS = 36

Recorded = dict[Case, list[list[list[str]]]]
Requests = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Dynamo:
    client: RecordingClient
    store: OversizeStore


@pytest.fixture(scope="module")
def dynamo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dynamo]:
    with mock_aws():
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        client = session.create_client("dynamodb", region_name="eu-central-1")
        create_table(client, TABLE)
        recording = RecordingClient(client)
        table = DynamoRangeStore(recording, TABLE)
        yield Dynamo(recording, OversizeStore(table, FileBlobStore(tmp_path_factory.mktemp("blobs"))))
        table.close()


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    return count_operations(tmp_path_factory.mktemp("counted"), LENGTHS, BUDGETS, TIMES)


@pytest.fixture(scope="module")
def recorded(dynamo: Dynamo, counts: Counts) -> Recorded:
    """Return the round trips of every operation, as they were made."""
    made: defaultdict[Case, list[list[list[str]]]] = defaultdict(list)

    @contextmanager
    def measured(case: Case) -> Iterator[None]:
        counted = counts.bills[case][len(made[case])]
        dynamo.client.expect([len(calls) for calls in counted.round_trips])
        yield
        made[case].append(dynamo.client.round_trips())

    do_operations(dynamo.store, LENGTHS, BUDGETS, TIMES, measured)
    return made


@pytest.fixture(scope="module")
def requests(dynamo: Dynamo, recorded: Recorded) -> Requests:
    """Return every request that was made, for whatever purpose, by its name."""
    put_bodies_of_any_size(dynamo.store)
    made: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for request in dynamo.client.requests:
        made[request.name].append(request.parameters)
    return made


def put_bodies_of_any_size(store: RangeStore) -> None:
    """Put bodies of text that can't be compressed much, among them some about as large as a record may be."""
    letters = Random(7).choices(ascii_letters + "0123456789+/", k=900 * 1024)
    for size_kb in (1, 300, *range(440, 580, 10), 900):
        text = "".join(letters[: size_kb * 1024])
        store.write([Put(Key("large", f"{size_kb:04}"), text.encode(), {"status": "completed"}, (Absent(),))])


@pytest.mark.parametrize("operation", CALLS)
def test_requests_to_dynamodb_are_the_counted_calls_in_the_same_round_trips(
    operation: str, recorded: Recorded, counts: Counts
) -> None:
    for length in LENGTHS:
        case = Case(operation, length, DEFAULT_BUDGET)
        assert [CALLS[operation]] == recorded[case], case
        assert [CALLS[operation]] == [bill.names for bill in counts.bills[case]], case


def test_no_operation_is_left_out(recorded: Recorded) -> None:
    assert {Case(operation, length, DEFAULT_BUDGET) for operation in CALLS for length in LENGTHS} == set(recorded)


def test_more_turns_than_a_batch_takes_are_read_in_two(dynamo: Dynamo) -> None:
    missing = SessionRef(tenant="local", agent_id="a", session_id="s")
    turn_ids = tuple(f"{number:03}" for number in range(BATCH_KEYS)) * 2
    made_before = len(dynamo.client.requests)
    dynamo.client.expect([])
    with pytest.raises(NotFound):
        SessionStore(dynamo.store).read(missing, turn_ids)
    assert [["BatchGetItem"], ["BatchGetItem"]] == dynamo.client.round_trips()
    batches = [request.parameters["RequestItems"][TABLE]["Keys"] for request in dynamo.client.requests[made_before:]]
    assert [BATCH_KEYS, 2] == [len(keys) for keys in batches]


def test_the_thousandth_page_of_sessions_costs_the_table_as_much_as_the_first(dynamo: Dynamo) -> None:
    agent_id = Past(dynamo.store, Random(6)).agent("scripted")
    orders = fill(dynamo.store, agent_id, 1_000, at_once=1)  # moto copies its tables for every transaction
    sessions = Sessions(
        SessionDeps(
            store=SessionStore(dynamo.store),
            agents=AgentStore(dynamo.store),
            rules=AccessRules(owner_only=False),
            supervisor=None,  # type: ignore[arg-type] # a list reconciles no turn
            clock=SystemClock(),
            ids=RandomIds(),
            ephemeral_for_s=1.0,
            check_bank=lambda caller, bank_id: None,
        )
    )
    reads = []
    for page in (0, 1, 999):
        cursor = orders[page - 1] if page else None
        made_before = len(dynamo.client.requests)
        listing = sessions.list(LOCAL_CALLER, agent_id, ListQuery(limit=1, cursor=cursor))
        assert [entry.order for entry in listing] == [orders[page]]
        check, query = dynamo.client.requests[made_before:]
        start = query.parameters.pop("ExclusiveStartKey", None)
        assert start == (encoded_key(session_list_key(TENANT, agent_id, cursor)) if cursor else None)
        reads.append((check, query))
    assert reads == reads[:1] * 3
    assert [request.name for request in reads[0]] == ["GetItem", "Query"]
    assert reads[0][1].parameters["Limit"] == 2  # one more than requested shows whether there are more
    assert reads[0][1].parameters["ExpressionAttributeValues"][":pk"] == {"S": session_list(TENANT, agent_id)}


def test_no_item_is_larger_than_dynamodb_takes(requests: Requests) -> None:
    sizes = [size_of(write["Item"]) for write in writes(requests) if "Item" in write]
    assert max(sizes) <= ITEM_BYTES
    assert max(sizes) > ITEM_BYTES * 0.8, "no item came near"


def test_no_transaction_is_larger_than_dynamodb_takes_and_none_names_a_key_twice(requests: Requests) -> None:
    for request in requests["TransactWriteItems"]:
        members = members_of(request)
        assert len(members) <= TRANSACTION_MEMBERS
        assert sum(size_of(member.get("Item", {})) for member in members) <= TRANSACTION_BYTES
        keys = [key_of(member.get("Key") or member["Item"]) for member in members]
        assert len(set(keys)) == len(keys)


def test_every_transaction_has_a_token_of_its_own(requests: Requests) -> None:
    tokens = [request["ClientRequestToken"] for request in requests["TransactWriteItems"]]
    assert len(set(tokens)) == len(tokens)
    assert {True} == {1 <= len(token) <= TOKEN_CHARACTERS for token in tokens}


def test_every_failing_condition_returns_the_found_record(requests: Requests) -> None:
    conditional = [write for write in writes(requests) if "ConditionExpression" in write]
    assert {"ALL_OLD"} == {write.get("ReturnValuesOnConditionCheckFailure") for write in conditional}


def test_no_batch_is_larger_than_dynamodb_takes_and_none_names_a_key_twice(requests: Requests) -> None:
    for request in requests["BatchGetItem"]:
        keys = [key_of(key) for key in request["RequestItems"][TABLE]["Keys"]]
        assert 1 <= len(keys) <= BATCH_KEYS
        assert len(set(keys)) == len(keys)


def test_every_read_is_consistent(requests: Requests) -> None:
    reads = requests["GetItem"] + requests["Query"] + [r["RequestItems"][TABLE] for r in requests["BatchGetItem"]]
    assert {True} == {read.get("ConsistentRead") for read in reads}


def test_no_other_request_is_made(requests: Requests) -> None:
    # the update is the task token's, and the puts are those of bodies of any size
    assert {"GetItem", "BatchGetItem", "Query", "TransactWriteItems", "UpdateItem", "PutItem"} == set(requests)


def writes(requests: Requests) -> list[dict[str, Any]]:
    """Return every write, alone or in a transaction."""
    alone = [request for verb in ("Put", "Update", "Delete") for request in requests.get(f"{verb}Item", [])]
    return alone + [member for request in requests["TransactWriteItems"] for member in members_of(request)]


def members_of(transaction: dict[str, Any]) -> list[dict[str, Any]]:
    return [write for member in transaction["TransactItems"] for write in member.values()]


def key_of(item: dict[str, Any]) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def size_of(item: dict[str, Any]) -> int:
    """Return the bytes of an item as botocore gets it; a number takes no more than its text and a byte."""
    sizes = {"S": lambda text: len(text.encode()), "N": lambda number: len(number) + 1, "B": len}
    return sum(
        len(name.encode()) + sizes[kind](content) for name, value in item.items() for kind, content in value.items()
    )
