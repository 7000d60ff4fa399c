"""The two kinds of database, each made new for every crash, and their records, key by key."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Protocol

import botocore.session
import pytest
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from tests.fakes.aws.unwired_dynamo import UnwiredDynamo
from tests.support.aws.dynamo_table import BUCKET, REGION, create_table
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.dynamodb_items import decoded_record
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.ports.records import Key, Record
from turnstone.ports.storage import BlobStore, RangeStore
from turnstone.services.cleanup import cleaning
from turnstone.store.layout import keys, oversize

LARGE_FROM_BYTES = 2_000
OPEN_SHARDS = 2


class Database(Protocol):
    def connect(self) -> tuple[RangeStore, BlobStore]:
        """Return the ways of one process to it."""

    def records(self) -> list[Record]:
        """Return every record in its stored form."""

    def blobs(self) -> set[str]:
        """Return the names of the payloads outside of the records."""

    def close(self) -> None:
        """Remove it."""


Make = Callable[[], Database]


class SqliteDatabase:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stores: list[SqliteRangeStore] = []

    def connect(self) -> tuple[RangeStore, BlobStore]:
        self._stores.append(SqliteRangeStore(self._folder / "turnstone.db"))
        return self._stores[-1], FileBlobStore(self._folder / "blobs")

    def records(self) -> list[Record]:
        with self._stores[0]._file.reading() as connection:
            rows: list[sqlite3.Row] = connection.execute("SELECT pk, sk, body, attributes, rev FROM items").fetchall()
        return [Record(Key(pk, sk), body, json.loads(attributes), rev) for pk, sk, body, attributes, rev in rows]

    def blobs(self) -> set[str]:
        folder = self._folder / "blobs"
        return {str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.blob")}

    def close(self) -> None:
        for store in self._stores:
            store.close()
        rmtree(self._folder)


class MotoDatabase:
    def __init__(self, dynamo: Any, s3: Any, name: str) -> None:
        self._dynamo, self._s3, self._name = dynamo, s3, name
        self._stores: list[DynamoRangeStore] = []
        create_table(dynamo, name)

    def connect(self) -> tuple[RangeStore, BlobStore]:
        self._stores.append(DynamoRangeStore(self._dynamo, self._name))
        return self._stores[-1], S3BlobStore(self._s3, BUCKET)

    def records(self) -> list[Record]:
        return [decoded_record(item) for item in self._dynamo.scan(TableName=self._name)["Items"]]

    def blobs(self) -> set[str]:
        return {name.removeprefix("blobs/") for name in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys}

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self._dynamo.delete_table(TableName=self._name)
        for name in self.blobs():
            self._s3.delete_object(Bucket=BUCKET, Key=f"blobs/{name}")


@contextmanager
def sqlite_databases(folder: Path) -> Iterator[Make]:
    yield lambda: SqliteDatabase(Path(mkdtemp(dir=folder)))


@contextmanager
def moto_databases(folder: Path) -> Iterator[Make]:
    names = count(1)
    with mock_aws():
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        s3 = session.create_client("s3", region_name=REGION)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        dynamo = UnwiredDynamo()
        yield lambda: MotoDatabase(dynamo, s3, f"turnstone-{next(names)}")


@contextmanager
def small_limits() -> Iterator[None]:
    """Lower the limits within the block, so that a handful of records reaches them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oversize, "RECORD_BYTES", LARGE_FROM_BYTES)
        patch.setattr(keys, "OPEN_SHARDS", OPEN_SHARDS)
        patch.setattr(cleaning, "RECORDS_AT_ONCE", 4)
        patch.setattr(cleaning, "SESSIONS_AT_ONCE", 1)
        yield


KINDS = {"sqlite": sqlite_databases, "dynamodb": moto_databases}
