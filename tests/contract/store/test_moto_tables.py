"""The quick tables of moto are equal to its own ones.

A transaction that is refused leaves a table as it was, whatever its operations did before, and a query finds the items
that it finds in the sorted table.

Covers: tests/fakes/aws/moto_tables
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.dynamodb.models.table import Table

from tests.fakes.aws import moto_tables
from tests.support.aws.dynamo_table import create_table

TABLE = "copied"


def key(name: str) -> dict[str, Any]:
    return {"pk": {"S": "p"}, "sk": {"S": name}}


def on(name: str, **more: Any) -> dict[str, Any]:
    return {"TableName": TABLE, "Key": key(name), **more}


CHANGE = {"UpdateExpression": "SET held.word = :new", "ExpressionAttributeValues": {":new": {"S": "new"}}}
GOOD: dict[str, dict[str, Any]] = {
    "put over": {"Put": {"TableName": TABLE, "Item": {**key("one"), "other": {"S": "x"}}}},
    "put": {"Put": {"TableName": TABLE, "Item": key("three")}},
    "delete": {"Delete": on("one")},
    "update": {"Update": on("one", **CHANGE)},
}
REFUSED = {"ConditionCheck": on("two", ConditionExpression="attribute_not_exists(pk)")}


@pytest.fixture
def dynamo() -> Iterator[Any]:
    with mock_aws():
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        client = session.create_client("dynamodb", region_name="eu-central-1")
        create_table(client, TABLE)
        for name in ("one", "two"):
            client.put_item(TableName=TABLE, Item={**key(name), "held": {"M": {"word": {"S": "old"}}}})
        yield client


@pytest.mark.parametrize("operation", GOOD.values(), ids=GOOD)
def test_earlier_operations_of_a_refused_transaction_are_undone(dynamo: Any, operation: dict[str, Any]) -> None:
    before = dynamo.scan(TableName=TABLE)["Items"]
    with pytest.raises(ClientError, match="TransactionCanceled"):
        dynamo.transact_write_items(TransactItems=[operation, REFUSED])
    assert dynamo.scan(TableName=TABLE)["Items"] == before
    dynamo.transact_write_items(TransactItems=[operation])
    assert dynamo.scan(TableName=TABLE)["Items"] != before


QUERIES: dict[str, dict[str, Any]] = {
    "partition": {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "p2"}}},
    "range": {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :from AND :to",
        "ExpressionAttributeValues": {":pk": {"S": "p1"}, ":from": {"S": "a1"}, ":to": {"S": "b0"}},
    },
    "nowhere": {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "p9"}}},
    "index": {
        "IndexName": "open",
        "KeyConditionExpression": "#open = :open",
        "ExpressionAttributeNames": {"#open": "open"},
        "ExpressionAttributeValues": {":open": {"S": "o1"}},
    },
    "range of the index": {
        "IndexName": "open",
        "KeyConditionExpression": "#open = :open AND pk > :pk",
        "ExpressionAttributeNames": {"#open": "open"},
        "ExpressionAttributeValues": {":open": {"S": "o0"}, ":pk": {"S": "p0"}},
    },
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_of_a_partition_is_that_of_the_whole_table(
    dynamo: Any, query: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        own = {"pk": {"S": f"p{number % 3}"}, "sk": {"S": f"{'ba'[number % 2]}{number * 7 % 40}"}}
        dynamo.put_item(TableName=TABLE, Item={**own, **({"open": {"S": f"o{number % 2}"}} if number % 5 else {})})

    def pages(limit: int, forward: bool) -> list[Any]:
        paginator = dynamo.get_paginator("query")
        found = paginator.paginate(TableName=TABLE, Limit=limit, ScanIndexForward=forward, **query)
        return [(page["Items"], page["Count"], page.get("LastEvaluatedKey")) for page in found]

    ways = [(3, True), (3, False), (100, True), (1, False)]
    ours = [pages(*way) for way in ways]
    monkeypatch.setattr(Table, "query", moto_tables.query_the_whole_table)
    assert [pages(*way) for way in ways] == ours
    assert query is QUERIES["nowhere"] or len(ours[0]) > 1


def test_values_of_every_type_are_read_as_they_were_written(dynamo: Any) -> None:
    held = {
        "list": {"L": [{"N": "1"}, {"BOOL": False}, {"M": {"deep": {"S": ""}}}]},
        "map": {"M": {"nothing": {"NULL": True}, "bytes": {"B": b"\x00\xff"}, "empty": {"L": []}}},
        "texts": {"SS": ["a", "b"]},
    }
    dynamo.put_item(TableName=TABLE, Item={**key("typed"), **held})
    assert dynamo.get_item(TableName=TABLE, Key=key("typed"))["Item"] == {**key("typed"), **held}
