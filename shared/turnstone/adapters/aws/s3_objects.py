"""Objects of an S3 bucket that the operator puts there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from turnstone.domain.errors import StoreUnavailable
from turnstone.ports.objects import UploadedObject

PIECE_BYTES = 1024 * 1024


class S3Objects:
    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    @contextmanager
    def opened(self, key: str) -> Iterator[UploadedObject | None]:
        """Open the object within the block; None for a missing one. Raises StoreUnavailable."""
        answer = self._got(key)
        if answer is None:
            yield None
            return
        body = answer["Body"]
        try:
            media_type = answer.get("ContentType", "")
            yield UploadedObject(answer["ETag"].strip('"'), answer["ContentLength"], media_type, _pieces(body))
        finally:
            body.close()

    def _got(self, key: str) -> Any:
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "unknown")
            if code == "NoSuchKey":
                return None
            raise StoreUnavailable(f"an uploaded object can't be read: {code}") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"the bucket can't be reached: {error}") from error


def _pieces(body: Any) -> Iterator[bytes]:
    try:
        yield from body.iter_chunks(PIECE_BYTES)
    except (BotoCoreError, HTTPClientError) as error:
        raise StoreUnavailable(f"an uploaded object can't be read: {type(error).__name__}") from error
