"""The records and payloads in a store after a scenario, read without the product."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.golden.normal import TOKEN, Normaliser
from tests.golden.writing import body_lines, compact

SHARDS = 8
USAGE = re.compile(r"(?P<tenant>[^|]+)\|usage:(?P<day>[\d-]+):(?P<shard>\d)")
OPEN = re.compile(r"(turn|job):(\d)")
NONCE = re.compile(r"[0-9a-f]{32}")
UUID_LENGTH = 36


@dataclass(frozen=True)
class Stored:
    """A stored record, its body decompressed."""

    pk: str
    sk: str
    rev: int
    attributes: Mapping[str, Any]
    body: bytes


@dataclass(frozen=True)
class Left:
    """The contents of a store: records, and payloads outside of records by name."""

    records: tuple[Stored, ...]
    blobs: Mapping[str, bytes]


def left_in_sqlite(folder: Path) -> Left:
    """Return the contents of a data folder."""
    query = "SELECT pk, sk, rev, attributes, body, open, nonce FROM items"
    with closing(sqlite3.connect(folder / "turnstone.db")) as connection:
        rows = connection.execute(query).fetchall()
    records = []
    for pk, sk, rev, attributes, body, is_open, nonce in rows:
        values = json.loads(attributes)
        assert values.get("open") == is_open, f"{pk} {sk} is {values} and open in {is_open}"
        assert nonce is None or NONCE.fullmatch(nonce), f"{pk} {sk} has the nonce {nonce!r}"
        records.append(Stored(pk, sk, rev, values, body))
    blobs = folder / "blobs"
    names = {str(path.relative_to(blobs).with_suffix("")): path.read_bytes() for path in blobs.rglob("*.blob")}
    return Left(tuple(without_size(unpacked(record), names) for record in records), names)


def left_in_dynamodb(items: Iterable[Mapping[str, Any]], objects: Mapping[str, bytes]) -> Left:
    """Return the contents of a table and a bucket."""
    records = []
    for item in items:
        values = dict(item)
        (pk, sk, body), rev = (values.pop(name) for name in ("pk", "sk", "body")), values.pop("rev")
        assert set(rev) == {"N"}
        nonce = values.pop("nonce")
        assert NONCE.fullmatch(nonce["S"]), f"{pk} {sk} has the nonce {nonce!r}"
        records.append(Stored(pk["S"], sk["S"], int(rev["N"]), {n: scalar(v) for n, v in values.items()}, body["B"]))
    return Left(tuple(without_size(unpacked(record), objects) for record in records), objects)


def scalar(value: Mapping[str, str]) -> str | int:
    ((kind, values),) = value.items()
    assert kind in ("S", "N"), f"an attribute is {value}"
    return int(values) if kind == "N" else values


def unpacked(record: Stored) -> Stored:
    return replace(record, body=zlib.decompress(record.body)) if record.attributes.get("codec") == "zlib" else record


def without_size(record: Stored, blobs: Mapping[str, bytes]) -> Stored:
    """Return the record without the size of its compressed payload, which varies with the ids in it."""
    if record.attributes.get("codec") != "zlib+blob":
        return record
    values = json.loads(record.body)
    payload = blobs.get(values["name"])
    if payload is not None:
        assert (values["size"], values["sha256"]) == (len(payload), sha256(payload).hexdigest()), record
    return replace(record, body=json.dumps({**values, "size": "<size>"}).encode())


def lines_of(left: Left, normalise: Normaliser, shards: int = SHARDS) -> Iterator[str]:
    """Yield the lines of a store's contents: partitions, records and payloads in the order of their keys."""
    partitions: dict[str, list[tuple[tuple[str, ...], Stored]]] = {}
    for record in (without_shards(record, shards) for record in left.records):
        partitions.setdefault(record.pk, []).append((order_of(record, normalise), record))
    for partition in partitions.values():
        partition.sort(key=lambda entry: entry[0])
    for pk in sorted(partitions, key=lambda pk: (ordered(pk, normalise), [order for order, _ in partitions[pk]])):
        yield f"== {normalise(pk)}"
        for _, record in partitions[pk]:
            values = compact(dict(sorted(record.attributes.items())))
            yield f"-- {normalise(record.sk)} · rev {record.rev} · {normalise(values)}"
            yield from content_lines(record.body, normalise)
    blobs = {name: inflated(content) for name, content in left.blobs.items()}
    for name in sorted(blobs, key=lambda name: (normalise.masked(name), normalise.masked(text_of(blobs[name])))):
        yield f"== payload {normalise(name)}"
        yield from content_lines(blobs[name], normalise)


def content_lines(content: bytes, normalise: Normaliser) -> Iterator[str]:
    """Yield the lines of a record's body, or of a payload."""
    for line in normalise(text_of(content)).split("\n"):
        yield from body_lines(line.encode())


def without_shards(record: Stored, shards: int) -> Stored:
    """Return the record with `<shard>` in place of each shard that follows from its key; a wrong shard stays."""
    attributes = dict(record.attributes)
    listed = OPEN.fullmatch(str(attributes.get("open", "")))
    if listed and int(listed[2]) == crc32(record.pk.encode()) % shards:
        attributes["open"] = f"{listed[1]}:<shard>"
    found = USAGE.fullmatch(record.pk)
    if found and int(found["shard"]) == crc32(f"{found['tenant']}|session:{record.sk}".encode()) % SHARDS:
        return replace(record, attributes=attributes, pk=f"{found['tenant']}|usage:{found['day']}:<shard>")
    return replace(record, attributes=attributes)


def order_of(record: Stored, normalise: Normaliser) -> tuple[str, ...]:
    """Return the sort key of a record within its partition: its own key, then its content."""
    values = compact(dict(sorted(record.attributes.items())))
    return ordered(record.sk, normalise), normalise.masked(values), normalise.masked(text_of(record.body))


def ordered(key: str, normalise: Normaliser) -> str:
    """Return a part of a key with its UUIDs, which sort by time, and without hashes, which sort at random."""
    return TOKEN.sub(lambda found: found[0] if len(found[0]) == UUID_LENGTH else normalise.masked(found[0]), key)


def inflated(content: bytes) -> bytes:
    try:
        return zlib.decompress(content)
    except zlib.error:
        return content


def text_of(content: bytes) -> str:
    """Return the content as text, bytes that are not UTF-8 as escapes."""
    return content.decode("utf-8", "backslashreplace")
