"""Fixtures of stored records: the rows of a data folder or the items of a table, with their payloads, as JSON lines.

A fixture is read and written without the product: it holds what a version left, byte for byte.
"""

from __future__ import annotations

import json
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from tests.integration.crash_matrix.databases import BUCKET, Database, MotoDatabase

FORMATS = Path(__file__).parent / "formats"
STORES = ("sqlite", "dynamodb")
COLUMNS = ("pk", "sk", "rev", "open", "attributes", "nonce", "body")
BLOBS = "blobs/"
Line = dict[str, Any]


class Answer(NamedTuple):
    """The answer to a read by the version that wrote the records; a long body as its hash."""

    path: str
    status: int
    body: str


class Fixture(NamedTuple):
    """What a version left in a store.

    Attributes:
        at: the time of its last write.
        names: ids of resources that tests name.
        answers: to reads of everything in it.
        records: one line for each.
        payloads: those outside of records, by name.
    """

    at: datetime
    names: Mapping[str, str]
    answers: tuple[Answer, ...]
    records: tuple[Line, ...]
    payloads: Mapping[str, bytes]


def fixture(version: str, store: str) -> Fixture:
    """Return the fixture of a format, named after its date."""
    lines = [json.loads(line) for line in (FORMATS / version / f"{store}.jsonl").read_text().splitlines()]
    (about,) = [line for line in lines if "at" in line]
    return Fixture(
        datetime.fromisoformat(about["at"]),
        about["names"],
        tuple(Answer(line["path"], line["status"], line["answer"]) for line in lines if "answer" in line),
        tuple(line["record"] for line in lines if "record" in line),
        {line["payload"]: b64decode(line["base64"]) for line in lines if "payload" in line},
    )


def written(left: Fixture) -> str:
    """Return the fixture as JSON lines."""
    lines: list[Line] = [{"at": left.at.isoformat(), "names": dict(left.names)}]
    lines += [{"path": path, "status": status, "answer": body} for path, status, body in left.answers]
    lines += [{"record": record} for record in left.records]
    lines += [{"payload": name, "base64": based(body)} for name, body in sorted(left.payloads.items())]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def put_into(database: Database, folder: Path, held: Fixture) -> None:
    """Put the records and payloads of a fixture into an empty database."""
    if isinstance(database, MotoDatabase):
        for record in held.records:
            database._dynamo.put_item(TableName=database._name, Item=_item(record))
        for name, body in held.payloads.items():
            database._s3.put_object(Bucket=BUCKET, Key=f"{BLOBS}{name}", Body=body)
        return
    store, blobs = database.connect()
    with closing(sqlite3.connect(folder / "turnstone.db")) as connection, connection:
        values = [[_column(name, record) for name in COLUMNS] for record in held.records]
        connection.executemany(f"INSERT INTO items ({', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    for name, body in held.payloads.items():
        blobs.put(name, body)
    assert store is not None


def records_in(database: Database, folder: Path) -> tuple[Line, ...]:
    """Return the records of a database as they are stored."""
    if isinstance(database, MotoDatabase):
        return tuple(sorted((_line(item) for item in _items(database)), key=lambda item: (item["pk"], item["sk"])))
    with closing(sqlite3.connect(folder / "turnstone.db")) as connection:
        rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM items ORDER BY pk, sk").fetchall()
    return tuple(_row(dict(zip(COLUMNS, row, strict=True))) for row in rows)


def payloads_in(database: Database, folder: Path) -> dict[str, bytes]:
    """Return the payloads of a database outside of its records."""
    if isinstance(database, MotoDatabase):
        held = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys
        return {name.removeprefix(BLOBS): one.value for name, one in held.items()}
    blobs = folder / "blobs"
    return {str(path.relative_to(blobs).with_suffix("")): path.read_bytes() for path in blobs.rglob("*.blob")}


def key_of(record: Line) -> tuple[str, str]:
    """Return partition key and sort key of a record of either store."""
    return record["pk"], record["sk"]


def attributes_of(record: Line) -> Mapping[str, Any]:
    """Return the attributes of a record of either store."""
    attributes: Mapping[str, Any] = record["attributes"]
    return attributes


def body_of(record: Line) -> bytes:
    """Return the stored body."""
    return b64decode(record["base64"]) if "base64" in record else str(record["body"]).encode()


def based(body: bytes) -> str:
    return b64encode(body).decode()


def _body(body: bytes) -> Line:
    """Return a body as text, or in base64 where it is none."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"base64": based(body)}


def _row(row: Line) -> Line:
    return {
        **{name: row[name] for name in COLUMNS[:-1]},
        "attributes": json.loads(row["attributes"]),
        **_body(row["body"]),
    }


def _column(name: str, record: Line) -> Any:
    if name == "body":
        return body_of(record)
    return json.dumps(record[name], ensure_ascii=False, separators=(",", ":")) if name == "attributes" else record[name]


def _items(database: MotoDatabase) -> Iterator[Mapping[str, Any]]:
    start: dict[str, Any] = {}
    while True:
        page = database._dynamo.scan(TableName=database._name, **start)
        yield from page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _line(item: Mapping[str, Any]) -> Line:
    values = {name: value for name, value in item.items() if name not in ("pk", "sk", "rev", "nonce", "body")}
    own = {"pk": item["pk"]["S"], "sk": item["sk"]["S"], "rev": int(item["rev"]["N"]), "nonce": item["nonce"]["S"]}
    attributes = {name: _plain(value) for name, value in sorted(values.items())}
    return {**own, "attributes": attributes, **_body(item["body"]["B"])}


def _plain(value: Mapping[str, str]) -> str | int:
    ((kind, held),) = value.items()
    return int(held) if kind == "N" else held


def _item(record: Line) -> dict[str, Any]:
    typed = {
        name: {"N": str(value)} if isinstance(value, int) else {"S": value}
        for name, value in {**record["attributes"], "pk": record["pk"], "sk": record["sk"]}.items()
    }
    typed |= {"rev": {"N": str(record["rev"])}, "nonce": {"S": record["nonce"]}, "body": {"B": body_of(record)}}
    return typed


def kinds_of(records: Iterable[Line], patterns: Mapping[str, Any]) -> dict[str, list[Line]]:
    """Return the records by kind. Raises AssertionError for a record of no kind, or of several."""
    found: dict[str, list[Line]] = {}
    for record in records:
        key = "\n".join(key_of(record))
        kinds = [kind for kind, pattern in patterns.items() if pattern.fullmatch(key)]
        assert len(kinds) == 1, f"{key!r} is of the kinds {kinds}"
        found.setdefault(kinds[0], []).append(record)
    return found
