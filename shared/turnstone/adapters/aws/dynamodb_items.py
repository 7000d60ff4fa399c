"""Convert records to DynamoDB items, and operations to members of a transaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from turnstone.ports.records import (
    Absent,
    AttributeIs,
    Check,
    Condition,
    Delete,
    Key,
    Operation,
    Put,
    Record,
    RevIs,
    Scalar,
    Update,
)

OWN_NAMES = frozenset({"pk", "sk", "rev", "nonce", "body"})
Item = dict[str, dict[str, Any]]


class _Expression:
    """Builder of an expression with placeholders, because attribute names may be reserved words."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: Item = {}

    def name(self, attribute: str) -> str:
        placeholder = f"#n{len(self.names)}"
        self.names[placeholder] = attribute
        return placeholder

    def value(self, scalar: Scalar) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = encoded_scalar(scalar)
        return placeholder

    def clause(self, condition: Condition) -> str:
        match condition:
            case Absent():
                return f"attribute_not_exists({self.name('pk')})"
            case RevIs(rev):
                return f"{self.name('rev')} = {self.value(rev)}"
            case AttributeIs(name, value):
                return f"{self.name(name)} = {self.value(value)}"
            case _:
                assert_never(condition)

    def parameters(self) -> dict[str, Any]:
        names = {"ExpressionAttributeNames": self.names} if self.names else {}
        values = {"ExpressionAttributeValues": self.values} if self.values else {}
        return {**names, **values}


def transact_item(operation: Operation, table_name: str, nonce: str) -> dict[str, Any]:
    """Return the operation as a member of TransactWriteItems: its verb, and the parameters.

    The parameters also fit PutItem, UpdateItem and DeleteItem.
    """
    expression = _Expression()
    clauses = [expression.clause(condition) for condition in operation.when]
    request: dict[str, Any]
    match operation:
        case Put(key, body, attributes, when):
            verb, request = "Put", {"Item": _item(key, body, attributes, _revision(when) or 1, nonce)}
        case Update(key, attributes, when):
            must_exist = f"attribute_exists({expression.name('pk')})"
            clauses.append(must_exist)
            changes = _changes(expression, attributes, _revision(when), nonce)
            verb, request = "Update", {"Key": encoded_key(key), "UpdateExpression": changes}
        case Delete(key, _):
            verb, request = "Delete", {"Key": encoded_key(key)}
        case Check(key, _):
            verb, request = "ConditionCheck", {"Key": encoded_key(key)}
        case _:
            assert_never(operation)
    if clauses:
        request["ConditionExpression"] = " AND ".join(clauses)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return {verb: {"TableName": table_name, **request, **expression.parameters()}}


def encoded_key(key: Key) -> Item:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def decoded_key(item: Mapping[str, Any]) -> Key:
    return Key(item["pk"]["S"], item["sk"]["S"])


def decoded_record(item: Mapping[str, Any]) -> Record:
    attributes = {name: _decoded_scalar(value) for name, value in item.items() if name not in OWN_NAMES}
    return Record(decoded_key(item), bytes(item["body"]["B"]), attributes, int(item["rev"]["N"]))


def decoded_nonce(item: Mapping[str, Any] | None) -> str | None:
    """Return the nonce of the write that created the item, None without an item."""
    return None if item is None else item.get("nonce", {}).get("S")


def encoded_scalar(scalar: Scalar) -> dict[str, str]:
    return {"N": str(scalar)} if isinstance(scalar, int) else {"S": scalar}


def _decoded_scalar(value: Mapping[str, str]) -> Scalar:
    return int(value["N"]) if "N" in value else value["S"]


def _item(key: Key, body: bytes, attributes: Mapping[str, Scalar], rev: int, nonce: str) -> Item:
    promoted = {name: encoded_scalar(value) for name, value in attributes.items()}
    own: Item = {"rev": encoded_scalar(rev), "nonce": {"S": nonce}, "body": {"B": body}}
    return {**encoded_key(key), **promoted, **own}


def _changes(expression: _Expression, attributes: Mapping[str, Scalar | None], rev: int | None, nonce: str) -> str:
    set_to: dict[str, Scalar] = {name: value for name, value in attributes.items() if value is not None}
    if rev is not None:
        set_to["rev"] = rev
    set_to["nonce"] = nonce
    written = ", ".join(f"{expression.name(name)} = {expression.value(value)}" for name, value in set_to.items())
    removed = ", ".join(expression.name(name) for name, value in attributes.items() if value is None)
    return f"SET {written}" + (f" REMOVE {removed}" if removed else "")


def _revision(when: tuple[Condition, ...]) -> int | None:
    """Return the revision that a write under these conditions creates, None if the conditions name none."""
    return next((condition.rev + 1 for condition in when if isinstance(condition, RevIs)), None)
