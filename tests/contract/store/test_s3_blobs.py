"""S3BlobStore distinguishes a missing object from one that cannot be read now.

Covers: adapters/aws/s3
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.domain.errors import StoreUnavailable

BUCKET = "turnstone-blobs"


@pytest.fixture
def s3() -> Iterator[Any]:
    session = botocore.session.Session()
    session.set_credentials("testing", "testing")
    with mock_aws():
        yield session.create_client("s3", region_name="us-east-1")


def test_a_payload_is_read_until_it_is_removed(s3: Any) -> None:
    s3.create_bucket(Bucket=BUCKET)
    blobs = S3BlobStore(s3, BUCKET)
    blobs.put("a/b", b"payload")
    assert blobs.get("a/b") == b"payload"
    blobs.delete("a/b")
    assert blobs.get("a/b") is None


def test_a_missing_bucket_is_unavailable_and_no_missing_payload(s3: Any) -> None:
    with pytest.raises(StoreUnavailable, match="NoSuchBucket"):
        S3BlobStore(s3, BUCKET).get("a")


@pytest.mark.parametrize("code", ["AccessDenied", "InternalError", "SlowDown"])
def test_an_unreadable_object_is_not_missing(s3: Any, code: str) -> None:
    with Stubber(s3) as stub:
        stub.add_client_error("get_object", code)
        with pytest.raises(StoreUnavailable, match=code):
            S3BlobStore(s3, BUCKET).get("a")


def test_an_incomplete_body_is_unavailable(s3: Any) -> None:
    class Broken:
        def read(self) -> bytes:
            raise botocore.exceptions.ResponseStreamingError(error="the connection is gone")

    class Client:
        def get_object(self, **_: str) -> dict[str, Any]:
            return {"Body": Broken()}

    with pytest.raises(StoreUnavailable, match="the connection is gone"):
        S3BlobStore(Client(), BUCKET).get("a")
