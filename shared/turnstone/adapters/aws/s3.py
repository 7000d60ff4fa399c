"""BlobStore in an S3 bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from turnstone.domain.errors import StoreUnavailable

FOLDER = "blobs/"
MOST_AT_ONCE = 1_000


class S3BlobStore:
    """BlobStore with one object per payload, under `blobs/`."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, name: str, body: bytes) -> None:
        """Store the payload. Storing it again renews the object's age."""
        self._call("put_object", name, Body=body)

    def get(self, name: str) -> bytes | None:
        """Return the payload, None if missing; S3 reports a missing key only to a role that may list the bucket."""
        with _failures_converted(name):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=f"{FOLDER}{name}")
                body: bytes = answer["Body"].read()
            except ClientError as error:
                if _code_of(error) == "NoSuchKey":
                    return None
                raise
            return body

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the payload in one piece: each request costs money and time. Raises LookupError if it is missing."""
        payload = self.get(name)
        if payload is None:
            raise LookupError(f"the payload {name!r} is missing")
        yield payload

    def delete(self, name: str) -> None:
        """Delete the payload; a missing payload is no error."""
        self._call("delete_object", name)

    def clear(self, prefix: str, limit: int) -> bool:
        """Delete payloads whose names have the prefix, `limit` at most; return whether none is left."""
        found = self._requested("list_objects_v2", prefix, Prefix=f"{FOLDER}{prefix}", MaxKeys=min(limit, MOST_AT_ONCE))
        keys = [{"Key": entry["Key"]} for entry in found.get("Contents", [])]
        if keys:
            answer = self._requested("delete_objects", prefix, Delete={"Objects": keys, "Quiet": True})
            if refused := answer.get("Errors"):
                raise StoreUnavailable(f"payloads of {prefix!r} can't be removed: {refused[0].get('Code')}")
        return not found["IsTruncated"]

    def _call(self, verb: str, name: str, **more: Any) -> Any:
        return self._requested(verb, name, Key=f"{FOLDER}{name}", **more)

    def _requested(self, verb: str, name: str, **request: Any) -> Any:
        with _failures_converted(name):
            return getattr(self._client, verb)(Bucket=self._bucket, **request)


@contextmanager
def _failures_converted(name: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise StoreUnavailable(f"the payload {name!r} can't be stored or read: {_code_of(error)}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"the bucket can't be reached: {error}") from error


def _code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))
