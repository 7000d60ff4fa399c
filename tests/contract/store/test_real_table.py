"""The laws of every RangeStore, for DynamoRangeStore over a table that exists: in the cloud, or in an emulator.

`TURNSTONE_TEST_TABLE` names a table that is the template's; `TURNSTONE_TEST_BUCKET`, if given, a bucket for its large
payloads. Credentials, region and endpoint are botocore's own settings. Each test has partitions of its own and
removes its own records, so the table may hold others.

Covers: adapters/aws/dynamodb, adapters/aws/s3
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import botocore.session
import pytest

from tests.support.aws.dynamo_table import TABLE, PartOfTable, delete_items, shape
from tests.support.stores.range_store_reads import noise
from tests.support.stores.range_store_suite import RangeStoreConformance
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.domain.errors import StoreUnavailable
from turnstone.ports.records import Key, Put, Range
from turnstone.ports.storage import BlobStore
from turnstone.store.layout.oversize import OversizeStore

TABLE_NAME = os.environ.get("TURNSTONE_TEST_TABLE", "")
BUCKET = os.environ.get("TURNSTONE_TEST_BUCKET", "")
if not TABLE_NAME:
    pytest.skip("no table to test with: TURNSTONE_TEST_TABLE is not set", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("beyond_loopback")


class ShortLivedBlobs:
    """A BlobStore that can remove the blobs put through it."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._names: set[str] = set()

    def put(self, name: str, body: bytes) -> None:
        self._names.add(name)
        self._blobs.put(name, body)

    def get(self, name: str) -> bytes | None:
        return self._blobs.get(name)

    def pieces(self, name: str) -> Iterator[bytes]:
        return self._blobs.pieces(name)

    def delete(self, name: str) -> None:
        self._blobs.delete(name)
        self._names.discard(name)

    def clear(self, prefix: str, limit: int) -> bool:
        return self._blobs.clear(prefix, limit)

    def delete_all(self) -> None:
        for name in sorted(self._names):
            self.delete(name)


@pytest.fixture(scope="module")
def dynamo() -> Any:
    return botocore.session.Session().create_client("dynamodb")


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[ShortLivedBlobs]:
    inner = S3BlobStore(botocore.session.Session().create_client("s3"), BUCKET) if BUCKET else FileBlobStore(tmp_path)
    blobs = ShortLivedBlobs(inner)
    yield blobs
    blobs.delete_all()


@pytest.fixture
def part(dynamo: Any) -> Iterator[PartOfTable]:
    table = DynamoRangeStore(dynamo, TABLE_NAME)
    part = PartOfTable(table, f"test-{uuid4().hex}|")
    yield part
    table.close()
    delete_items(dynamo, TABLE_NAME, part.written)


class TestRealTableConformance(RangeStoreConformance):
    rounds = 5

    @pytest.fixture
    def store(self, part: PartOfTable, blobs: ShortLivedBlobs) -> OversizeStore:
        return OversizeStore(part, blobs)


def test_the_table_is_the_templates(dynamo: Any) -> None:
    assert shape(TABLE) == shape(dynamo.describe_table(TableName=TABLE_NAME)["Table"])


def test_a_table_that_is_not_there_is_unavailable(dynamo: Any) -> None:
    table = DynamoRangeStore(dynamo, f"test-{uuid4().hex}")
    with pytest.raises(StoreUnavailable, match="refused"):
        table.get(Key("p", "a"))
    with pytest.raises(StoreUnavailable, match="refused"):
        table.write([Put(Key("p", "a"), b""), Put(Key("p", "b"), b"")])
    table.close()


def test_a_record_too_large_for_an_item_is_unavailable_and_nothing_is_written(part: PartOfTable) -> None:
    for others in ([], [Put(Key("p", "b"), b"")]):
        with pytest.raises(StoreUnavailable, match="refused"):
            part.write([*others, Put(Key("p", "a"), noise(410_000))])
    assert not part.range(Range("p")).records


@pytest.mark.skipif(not BUCKET, reason="no bucket to test with: TURNSTONE_TEST_BUCKET is not set")
def test_a_payload_is_kept_until_it_is_deleted(blobs: ShortLivedBlobs) -> None:
    name = f"test/{uuid4().hex}"
    for body in (b"", noise(3_000_000), b"\x00 again"):
        blobs.put(name, body)
        assert body == blobs.get(name)
    for _ in range(2):
        blobs.delete(name)
    assert blobs.get(name) is None
