"""moto's DynamoDB without the wire: a call takes a tenth of the time when nothing is signed, sent or parsed.

It does the part of a botocore client that `DynamoRangeStore` calls, which the store's own suite holds.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from botocore.exceptions import ClientError
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.exceptions import JsonRESTError, ServiceException
from moto.core.responses import ActionResult
from moto.dynamodb.responses import DynamoHandler

import tests.fakes.aws.moto_tables  # noqa: F401 - transactions and queries that take no time
from tests.support.aws.dynamo_table import REGION


class UnwiredDynamo:
    """The verbs of a DynamoDB client, over tables in this process. One call at a time: moto has no locks."""

    def __init__(self, wired: Any = None, lock: AbstractContextManager[Any] | None = None) -> None:
        """Prepare a client.

        Args:
            wired: botocore's client, for its other attributes, such as `meta` and `exceptions`.
            lock: what other callers of moto hold, if there are any.
        """
        self._wired, self._lock = wired, lock or threading.Lock()

    def __getattr__(self, verb: str) -> Any:
        if not hasattr(DynamoHandler, verb):
            return getattr(self._wired, verb)

        def call(**request: Any) -> dict[str, Any]:
            handler = DynamoHandler()
            handler.region, handler.current_account = REGION, DEFAULT_ACCOUNT_ID
            handler.body = handler.params = request  # type: ignore[assignment]
            with self._lock:
                try:
                    answer = getattr(handler, verb)()
                except (JsonRESTError, ServiceException) as error:
                    raise ClientError(_as_read(error), verb) from error
            assert isinstance(answer, ActionResult), f"{verb} answers {answer!r}"
            result: dict[str, Any] = answer.result  # type: ignore[assignment]
            return result

        return call


def _as_read(error: Exception) -> Any:
    """Return the error as botocore would have read it."""
    error_body: dict[str, Any] = json.loads(str(getattr(error, "description", "") or "{}"))
    code = str(error_body.get("__type") or getattr(error, "code", "")).rpartition("#")[2]
    reasons = [_with_item(reason) for reason in error_body.get("CancellationReasons", [])]
    return {**_with_item(error_body), "Error": {"Code": code, "Message": str(error)}, "CancellationReasons": reasons}


def _with_item(reason: Mapping[str, Any]) -> dict[str, Any]:
    item = reason.get("Item")
    return {**reason, "Item": {name: _value(value) for name, value in item.items()}} if item else {**reason}


def _value(value: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, held),) = value.items()
    return {kind: base64.b64decode(held) if kind == "B" and isinstance(held, str) else held}
