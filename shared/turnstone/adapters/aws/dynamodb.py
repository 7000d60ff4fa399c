"""RangeStore over one DynamoDB table, through botocore's client.

A record is one item: the key, `rev`, `nonce`, `body` as bytes, and the promoted attributes next to them. One sparse
index holds the keys of items that have the attribute `open`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from turnstone.adapters.aws.dynamodb_items import (
    decoded_key,
    decoded_nonce,
    decoded_record,
    encoded_key,
    transact_item,
)
from turnstone.domain.errors import Conflict, StoreUnavailable
from turnstone.ports.records import (
    Check,
    Get,
    Key,
    KeyPage,
    Operation,
    Put,
    Range,
    Record,
    RecordPage,
    Update,
    check_operations,
)

OPEN_INDEX = "open"
GATHER_THREADS = 8
BATCH_KEYS = 100
BATCH_DELETES = 25
ATTEMPTS = 6
BACKOFF_S = 0.02
SERVER_ERROR = 500  # errors after which it is undecided whether a write was applied
PASSING_REASONS = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}


class DynamoRangeStore:
    """A RangeStore in a table whose keys are `pk` and `sk`, with the index `open` (hash `open`, range `pk`)."""

    def __init__(self, client: Any, table_name: str) -> None:
        """Take a botocore DynamoDB client; its own retries cover throttling and lost connections."""
        self._client = client
        self._table_name = table_name
        self._pool = ThreadPoolExecutor(GATHER_THREADS, thread_name_prefix="reads")

    def get(self, key: Key) -> Record | None:
        """Return the record, None if missing."""
        answer = _called(self._client.get_item, TableName=self._table_name, Key=encoded_key(key), ConsistentRead=True)
        return decoded_record(answer["Item"]) if "Item" in answer else None

    def range(self, query: Range) -> RecordPage:
        """Return the next page of a range."""
        if query.start > query.end:
            return RecordPage(())  # DynamoDB rejects such bounds
        after = query.after
        if after is not None and not query.start <= after <= query.end:
            is_behind = after > query.end if not query.reverse else after < query.start
            if is_behind:
                return RecordPage(())
            after = None
        answer = _called(
            self._client.query,
            TableName=self._table_name,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :start AND :end",
            ExpressionAttributeValues={
                ":pk": {"S": query.pk},
                ":start": {"S": query.start},
                ":end": {"S": query.end},
            },
            ConsistentRead=True,
            ScanIndexForward=not query.reverse,
            **({} if query.limit is None else {"Limit": query.limit}),
            **({} if after is None else {"ExclusiveStartKey": encoded_key(Key(query.pk, after))}),
        )
        last = answer.get("LastEvaluatedKey")
        return RecordPage(tuple(map(decoded_record, answer["Items"])), decoded_key(last).sk if last else None)

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        """Return the results of several reads made in parallel: one batch of gets, next to the ranges."""
        beside: list[Future[RecordPage]] = []
        own_ranges = list(ranges)
        if gets:
            beside = [self._pool.submit(self.range, query) for query in own_ranges]
            records = self._get_all([get.key for get in gets])
            return records, [future.result() for future in beside]
        beside = [self._pool.submit(self.range, query) for query in own_ranges[1:]]
        return [], [*(self.range(query) for query in own_ranges[:1]), *(future.result() for future in beside)]

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        """Apply all operations or none.

        Raises:
            Conflict: names the first operation whose condition failed.
        """
        check_operations(operations)
        nonce = nonce or uuid4().hex
        for attempt in range(ATTEMPTS):
            _back_off(attempt)
            if self._try_write(operations, nonce):
                return
        raise StoreUnavailable("the table is too busy for this write, try again")

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        """Return keys of the records whose attribute `open` equals the shard, in the order of their partition keys."""
        start = {} if after is None else {"ExclusiveStartKey": {**encoded_key(after), "open": {"S": shard}}}
        answer = _called(
            self._client.query,
            TableName=self._table_name,
            IndexName=OPEN_INDEX,
            KeyConditionExpression="#open = :shard",
            ExpressionAttributeNames={"#open": "open"},
            ExpressionAttributeValues={":shard": {"S": shard}},
            Limit=limit,
            **start,
        )
        last = answer.get("LastEvaluatedKey")
        return KeyPage(tuple(map(decoded_key, answer["Items"])), decoded_key(last) if last else None)

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        """Delete records of a partition, or one record; return whether none is left."""
        if sk is not None:
            _called(self._client.delete_item, TableName=self._table_name, Key=encoded_key(Key(pk, sk)))
            return True
        answer = _called(
            self._client.query,
            TableName=self._table_name,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": pk}},
            ProjectionExpression="pk, sk",
            ConsistentRead=True,
            Limit=limit,
        )
        requests = [{"DeleteRequest": {"Key": encoded_key(decoded_key(item))}} for item in answer["Items"]]
        for first in range(0, len(requests), BATCH_DELETES):
            self._delete_all(requests[first : first + BATCH_DELETES])
        return len(requests) < limit and "LastEvaluatedKey" not in answer

    def _delete_all(self, requests: list[dict[str, Any]]) -> None:
        for attempt in range(ATTEMPTS):
            _back_off(attempt)
            answer = _called(self._client.batch_write_item, RequestItems={self._table_name: requests})
            requests = answer.get("UnprocessedItems", {}).get(self._table_name, [])
            if not requests:
                return
        raise StoreUnavailable("the table is too busy for this clean-up, try again")

    def close(self) -> None:
        """Shut down the reader threads."""
        self._pool.shutdown()

    def _get_all(self, keys: Sequence[Key]) -> list[Record | None]:
        if len(keys) == 1:
            return [self.get(keys[0])]
        items = self._items(keys)
        return [decoded_record(items[key]) if key in items else None for key in keys]

    def _items(self, keys: Sequence[Key]) -> dict[Key, Mapping[str, Any]]:
        """Return the existing items of the keys, read in batches."""
        found: dict[Key, Mapping[str, Any]] = {}
        distinct = list(dict.fromkeys(keys))
        for first in range(0, len(distinct), BATCH_KEYS):
            encoded = [encoded_key(key) for key in distinct[first : first + BATCH_KEYS]]
            for attempt in range(ATTEMPTS):
                _back_off(attempt)
                request = {self._table_name: {"Keys": encoded, "ConsistentRead": True}}
                answer = _called(self._client.batch_get_item, RequestItems=request)
                found |= {decoded_key(item): item for item in answer["Responses"].get(self._table_name, [])}
                encoded = answer.get("UnprocessedKeys", {}).get(self._table_name, {}).get("Keys", [])
                if not encoded:
                    break
            else:
                raise StoreUnavailable("the table is too busy for this read, try again")
        return found

    def _try_write(self, operations: Sequence[Operation], nonce: str) -> bool:
        """Write once; return whether it is done, False if a retry may succeed."""
        items = [transact_item(operation, self._table_name, nonce) for operation in operations]
        try:
            if len(operations) == 1 and not isinstance(operations[0], Check):
                self._write_one(items[0])
            else:
                # the token makes botocore's own retry of a lost answer harmless
                self._client.transact_write_items(TransactItems=items, ClientRequestToken=nonce)
        except ClientError as error:
            return self._settle(error, operations, nonce)
        except BotoCoreError as error:
            raise StoreUnavailable(f"the table can't be reached: {error}", may_be_applied_later=True) from error
        return True

    def _write_one(self, item: dict[str, Any]) -> None:
        ((verb, request),) = item.items()
        calls: dict[str, Callable[..., Any]] = {
            "Put": self._client.put_item,
            "Update": self._client.update_item,
            "Delete": self._client.delete_item,
        }
        calls[verb](**request)

    def _settle(self, error: ClientError, operations: Sequence[Operation], nonce: str) -> bool:
        reasons = _reasons(error)
        failed = [index for index, reason in enumerate(reasons) if reason.get("Code") == "ConditionalCheckFailed"]
        if failed:
            if self._was_applied(operations, reasons, nonce):
                return True
            key = operations[failed[0]].key
            item = reasons[failed[0]].get("Item")
            raise Conflict(failed[0], key, decoded_record(item) if item else None) from error
        if any(reason.get("Code") in PASSING_REASONS for reason in reasons):
            return False
        _raise_unavailable(error)

    def _was_applied(self, operations: Sequence[Operation], reasons: Sequence[Mapping[str, Any]], nonce: str) -> bool:
        """Return whether a record carries the write's nonce: the write was applied before, and its answer was lost."""
        marked = [index for index, operation in enumerate(operations) if isinstance(operation, Put | Update)]
        if any(decoded_nonce(reasons[index].get("Item")) == nonce for index in marked):
            return True
        # DynamoDB returns the items of failed conditions only; the others have to be read.
        unseen = [operations[index].key for index in marked if "Item" not in reasons[index]]
        return any(decoded_nonce(item) == nonce for item in self._items(unseen).values())


def _reasons(error: ClientError) -> list[dict[str, Any]]:
    """Return the reason of each operation's failure, one per operation."""
    response: Mapping[str, Any] = error.response
    code = response.get("Error", {}).get("Code")
    if code == "TransactionCanceledException":
        return list(response.get("CancellationReasons", []))
    if code == "ConditionalCheckFailedException":
        return [{"Code": "ConditionalCheckFailed", "Item": response.get("Item")}]
    if code in ("TransactionConflictException", "TransactionInProgressException"):
        return [{"Code": "TransactionConflict"}]
    return []


def _back_off(attempt: int) -> None:
    """Sleep for a random time before a retry, so that colliding writers do not collide again."""
    if attempt:
        time.sleep(random.uniform(0, BACKOFF_S * 2**attempt))  # noqa: S311 - no secret


def _called(call: Callable[..., Any], **request: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = call(**request)
    except ClientError as error:
        _raise_unavailable(error)
    except BotoCoreError as error:
        raise StoreUnavailable(f"the table can't be reached: {error}") from error
    return answer


def _raise_unavailable(error: ClientError) -> NoReturn:
    code = error.response.get("Error", {}).get("Code", "unknown")
    is_unsure = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= SERVER_ERROR
    raise StoreUnavailable(f"the table refused: {code}", may_be_applied_later=is_unsure) from error
