"""A transaction that is refused leaves moto's table as it was, whatever its operations did before.

Covers: tests/fakes/aws/moto_tables
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

import tests.fakes.aws.moto_tables  # noqa: F401 - the tested code
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
