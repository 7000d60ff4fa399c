"""The cost of every operation of memory and files at DynamoDB: exact calls and units, over both stores.

Covers: store/memory, store/files, services/memory, services/files
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import botocore.session
import pytest
from moto import mock_aws

import tests.fakes.aws.moto_tables  # noqa: F401 - transactions that take no time
from tests.benchmarks.counted_store import CountedStore
from tests.benchmarks.memory_counts import Bills, count_memory_operations, wrong_memory_bills
from tests.benchmarks.memory_operations import BANK_SIZES, BankCase, do_memory_operations
from tests.fakes.aws.unwired_dynamo import UnwiredDynamo
from tests.support.aws.dynamo_table import create_table
from tests.support.aws.recording_client import RecordingClient
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.store.layout.oversize import OversizeStore

TABLE = "turnstone"


@pytest.fixture(scope="module")
def of_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bills]:
    folder = tmp_path_factory.mktemp("sqlite")
    store = SqliteRangeStore(folder / "turnstone.db")
    yield count_memory_operations(store, folder / "payloads")
    store.close()


class OfDynamo(NamedTuple):
    """The bills over DynamoDB's double, and the round trips of its client."""

    bills: Bills
    round_trips: dict[BankCase, list[list[str]]]


@pytest.fixture(scope="module")
def of_dynamo(of_sqlite: Bills, tmp_path_factory: pytest.TempPathFactory) -> OfDynamo:
    found = OfDynamo({}, {})
    with mock_aws():
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        client = UnwiredDynamo(session.create_client("dynamodb", region_name="eu-central-1"))
        create_table(client, TABLE)
        recording = RecordingClient(client)
        with closing(DynamoRangeStore(recording, TABLE)) as store, closing(DynamoRangeStore(client, TABLE)) as reader:
            counted = CountedStore(store, reader)

            @contextmanager
            def measured(case: BankCase) -> Iterator[None]:
                counted.taken()
                recording.expect([len(calls) for calls in of_sqlite[case].round_trips])
                yield
                found.bills[case] = counted.taken()
                found.round_trips[case] = recording.round_trips()

            do_memory_operations(OversizeStore(counted, FileBlobStore(tmp_path_factory.mktemp("payloads"))), measured)
    return found


def test_operations_cost_the_expected_calls_and_units_over_sqlite(of_sqlite: Bills) -> None:
    assert len(of_sqlite) > 60
    assert wrong_memory_bills(of_sqlite) == []


def test_operations_cost_the_same_over_dynamodb(of_sqlite: Bills, of_dynamo: OfDynamo) -> None:
    assert of_dynamo.bills == of_sqlite


def test_requests_to_dynamodb_are_the_counted_calls_in_the_same_round_trips(
    of_sqlite: Bills, of_dynamo: OfDynamo
) -> None:
    assert of_dynamo.round_trips == {case: bill.names for case, bill in of_sqlite.items()}


def test_operations_cost_the_same_calls_on_an_empty_bank_and_on_a_large_one(of_sqlite: Bills) -> None:
    empty, large = (
        {case.operation: bill.names for case, bill in of_sqlite.items() if case.chunks_before == chunks}
        for chunks in BANK_SIZES
    )
    assert empty.keys() == large.keys()
    assert {operation: names for operation, names in large.items() if len(names) != len(empty[operation])} == {}
