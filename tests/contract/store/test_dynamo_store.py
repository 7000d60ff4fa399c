"""DynamoRangeStore, composed as it is served, does what every RangeStore does.

Covers: adapters/aws/dynamodb, adapters/aws/dynamodb_items, store/layout/ranges
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import botocore.session
import pytest
from moto import mock_aws

import tests.fakes.aws.moto_tables  # noqa: F401 - transactions that take no time
from tests.support.aws.dynamo_table import BUCKET, REGION, create_table
from tests.support.stores.range_store_suite import RangeStoreConformance
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.store.layout.oversize import OversizeStore


class OneAtATime:
    """A client whose calls wait for each other: moto copies its tables without a lock."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def locked(**request: Any) -> Any:
            with self._lock:
                return method(**request)

        return locked


def client(service: str) -> Any:
    session = botocore.session.Session()
    session.set_credentials("testing", "testing")
    return session.create_client(service, region_name=REGION)


@pytest.fixture(scope="module")
def services() -> Iterator[tuple[Any, Any]]:
    with mock_aws():
        s3 = client("s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield OneAtATime(client("dynamodb")), s3


class TestDynamoConformance(RangeStoreConformance):
    threads, rounds = 4, 5

    @pytest.fixture
    def store(self, services: tuple[Any, Any]) -> Iterator[OversizeStore]:
        dynamo, s3 = services
        name = f"turnstone-{uuid4().hex}"
        create_table(dynamo, name)
        table = DynamoRangeStore(dynamo, name)
        yield OversizeStore(table, S3BlobStore(s3, BUCKET))
        table.close()
        dynamo.delete_table(TableName=name)
