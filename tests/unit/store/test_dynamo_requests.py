"""Requests of DynamoRangeStore to DynamoDB, in the details that no emulator checks.

Covers: adapters/aws/dynamodb
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from turnstone.adapters.aws import dynamodb
from turnstone.adapters.aws.dynamodb import ATTEMPTS, DynamoRangeStore
from turnstone.domain.errors import Conflict, StoreUnavailable
from turnstone.ports.records import Absent, AttributeIs, Check, Delete, Get, Key, Operation, Put, Range, RevIs, Update

A, B, C = (Key("p", sk) for sk in "abc")
Answer = dict[str, Any] | Exception


class ScriptedClient:
    """A client that records its requests and answers by script, with nothing once the script is over."""

    def __init__(self, *script: Answer) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._script: Iterator[Answer] = iter(script)

    def __getattr__(self, verb: str) -> Callable[..., dict[str, Any]]:
        def call(**request: Any) -> dict[str, Any]:
            self.requests.append((verb, request))
            answer = next(self._script, {"Items": [], "Responses": {}})
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(dynamodb.time, "sleep", waits.append)
    return waits


def store_over(*script: Answer) -> tuple[DynamoRangeStore, ScriptedClient]:
    client = ScriptedClient(*script)
    return DynamoRangeStore(client, "turnstone"), client


def refused(code: str, **more: Any) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "secret contents"}, **more}, "Write")


def cancelled(*codes: str, items: dict[int, dict[str, Any]] | None = None) -> ClientError:
    reasons = [{"Code": code, **({"Item": items[n]} if items and n in items else {})} for n, code in enumerate(codes)]
    return refused("TransactionCanceledException", CancellationReasons=reasons)


def item(key: Key, nonce: str) -> dict[str, Any]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}, "rev": {"N": "3"}, "nonce": {"S": nonce}, "body": {"B": b"x"}}


TWO = [Put(A, b"1", when=(Absent(),)), Put(B, b"2", when=(RevIs(1),))]


@pytest.mark.parametrize(
    ("operation", "verb"),
    [(Put(A, b""), "put_item"), (Update(A, {"n": 1}, ()), "update_item"), (Delete(A), "delete_item")],
)
def test_a_single_write_does_not_pay_for_a_transaction(operation: Operation, verb: str) -> None:
    store, client = store_over()
    store.write([operation])
    assert [name for name, _ in client.requests] == [verb]


def test_several_writes_and_a_check_are_a_transaction_under_a_token() -> None:
    for operations in (TWO, [Check(A, (RevIs(1),))]):
        store, client = store_over()
        store.write(operations, nonce="n" * 32)
        ((verb, request),) = client.requests
        assert (verb, request["ClientRequestToken"]) == ("transact_write_items", "n" * 32)


def test_a_nonce_made_here_is_a_token_that_dynamodb_takes() -> None:
    store, client = store_over()
    store.write(TWO)
    assert 1 <= len(client.requests[0][1]["ClientRequestToken"]) <= 36


def test_every_condition_returns_what_it_found_and_names_no_attribute_in_clear() -> None:
    conditions = (RevIs(4), AttributeIs("status", "running"))
    store, client = store_over()
    store.write([Put(A, b"", {"ttl": 1}, conditions), Update(B, {"open": None}, conditions), Delete(C, conditions)])
    for member in client.requests[0][1]["TransactItems"]:
        (request,) = member.values()
        assert request["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
        written = request["ConditionExpression"] + request.get("UpdateExpression", "")
        assert not [name for name in ("status", "open", "rev", "nonce", "ttl") if name in written]


def test_a_transaction_that_met_another_is_tried_again_under_the_same_token(no_waiting: list[float]) -> None:
    store, client = store_over(cancelled("None", "TransactionConflict"), cancelled("ThrottlingError", "None"))
    store.write(TWO)
    assert len(client.requests) == 3
    assert len({request["ClientRequestToken"] for _, request in client.requests}) == 1
    assert len(no_waiting) == 2


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_table_that_stays_busy_is_unavailable(code: str) -> None:
    store, client = store_over(*[cancelled(code, "None")] * (ATTEMPTS + 1))
    with pytest.raises(StoreUnavailable, match="busy"):
        store.write(TWO)
    assert len(client.requests) == ATTEMPTS


def test_a_failed_condition_decides_whatever_else_went_wrong() -> None:
    store, client = store_over(cancelled("TransactionConflict", "ConditionalCheckFailed", items={1: item(B, "other")}))
    with pytest.raises(Conflict) as raised:
        store.write(TWO)
    assert (raised.value.operation, raised.value.key, raised.value.found.rev) == (1, B, 3)
    assert [verb for verb, _ in client.requests] == ["transact_write_items", "batch_get_item"]


def test_a_write_whose_answer_was_lost_finds_its_nonce_and_is_done() -> None:
    store, client = store_over(cancelled("ConditionalCheckFailed", "None", items={0: item(A, "mine")}))
    store.write(TWO, nonce="mine")
    assert len(client.requests) == 1


@pytest.mark.parametrize(
    "error", [refused("ResourceNotFoundException"), refused("AccessDenied"), EndpointConnectionError(endpoint_url="x")]
)
def test_any_other_error_of_dynamodb_is_unavailable_without_its_text(error: Exception) -> None:
    for act in (
        lambda s: s.write(TWO),
        lambda s: s.get(A),
        lambda s: s.range(Range("p")),
        lambda s: s.open_keys("x", 1),
    ):
        store, _ = store_over(error)
        with pytest.raises(StoreUnavailable) as raised:
            act(store)
        assert "secret" not in str(raised.value)


def test_many_gets_are_batches_of_a_hundred_and_unprocessed_keys_are_requested_again() -> None:
    keys = [Key("p", f"{number:03}") for number in range(150)]
    left_out = {"turnstone": {"Keys": [{"pk": {"S": "p"}, "sk": {"S": "000"}}]}}
    first = {"Responses": {"turnstone": [item(key, "n") for key in keys[1:100]]}, "UnprocessedKeys": left_out}
    again = {"Responses": {"turnstone": [item(keys[0], "n")]}}
    last = {"Responses": {"turnstone": [item(key, "n") for key in reversed(keys[100:])]}}
    store, client = store_over(first, again, last)
    records, _ = store.gather([Get(key) for key in keys], [])
    assert [record.key for record in records if record] == keys
    sizes = [len(request["RequestItems"]["turnstone"]["Keys"]) for _, request in client.requests]
    assert sizes == [100, 1, 50]


def test_reads_are_consistent_but_for_the_index() -> None:
    store, client = store_over({}, {"Items": []}, {"Items": []}, {"Responses": {}})
    store.get(A)
    store.range(Range("p", limit=3, reverse=True))
    store.open_keys("turn:1", 5)
    store.gather([Get(A), Get(B)], [])
    get, query, index, batch = (request for _, request in client.requests)
    assert get["ConsistentRead"]
    assert query["ConsistentRead"]
    assert batch["RequestItems"]["turnstone"]["ConsistentRead"]
    assert "ConsistentRead" not in index
    assert (query["Limit"], query["ScanIndexForward"]) == (3, False)


def test_gathering_nothing_sends_no_request() -> None:
    store, client = store_over()
    assert ([], []) == store.gather([], [])
    assert not client.requests


@pytest.mark.parametrize(
    ("query", "sends_request"),
    [
        (Range("p", start="b", end="d", after="a"), True),
        (Range("p", start="b", end="d", after="e"), False),
        (Range("p", start="b", end="d", after="e", reverse=True), True),
        (Range("p", start="b", end="d", after="a", reverse=True), False),
    ],
)
def test_a_query_never_starts_outside_the_range(query: Range, sends_request: bool) -> None:
    store, client = store_over()
    assert not store.range(query).records
    assert len(client.requests) == sends_request
    assert not [request for _, request in client.requests if "ExclusiveStartKey" in request]


def test_a_range_whose_end_lies_before_its_start_is_not_queried() -> None:
    store, client = store_over()
    assert not store.range(Range("p", start="c", end="a")).records
    assert not store.gather([Get(A)], [Range("p", start="c", end="a")])[1][0].records
    assert [verb for verb, _ in client.requests] == ["get_item"]
