"""The DynamoDB of the matrix, without a wire, conforms to the contract of a RangeStore.

Covers: tests/fakes/aws/unwired_dynamo
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import botocore.session
import pytest
from moto import mock_aws

from tests.fakes.aws.unwired_dynamo import UnwiredDynamo
from tests.support.aws.dynamo_table import BUCKET, REGION, create_table
from tests.support.stores.range_store_suite import RangeStoreConformance
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.store.layout.oversize import OversizeStore

NAMES = count(1)


@pytest.fixture(scope="module")
def blobs() -> Iterator[S3BlobStore]:
    with mock_aws():
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        s3 = session.create_client("s3", region_name=REGION)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield S3BlobStore(s3, BUCKET)


class TestUnwiredDynamoConformance(RangeStoreConformance):
    threads, rounds = 2, 2

    @pytest.fixture
    def store(self, blobs: S3BlobStore) -> Iterator[OversizeStore]:
        dynamo, name = UnwiredDynamo(), f"unwired-{next(NAMES)}"
        create_table(dynamo, name)
        table = DynamoRangeStore(dynamo, name)
        yield OversizeStore(table, blobs)
        table.close()
        dynamo.delete_table(TableName=name)
