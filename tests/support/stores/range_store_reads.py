"""The reading half of the conformance suite: ranges, the index of open records, any body, any key."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.stores.range_store_model import new_partition
from turnstone.ports.records import Delete, Get, Key, Put, Range, Record, RevIs, Update
from turnstone.ports.storage import RangeStore

# Fixtures are shared by the examples: each takes a partition of its own. One suite runs in several classes.
PROPERTY = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
ODD_TEXTS = [
    *("\x01", "\t", "\n", "\r\n", "\x1f", " ", "#", "%7C", ":", "A", "[", "a", "a\n", "a ", "a|b", "ctx:~", "|", "~"),
    *(
        "\x7f",
        "\x80",
        "é",
        "e\u0301",
        "ß",
        "ſ",
        "\u2028",
        "\ud7ff",
        "\ue000",
        "\ufeff",
        "\uffff",
        "😀",
        "🐦",
        "\U0010fffe",
    ),
]
SORT_KEYS = st.one_of(
    st.sampled_from(ODD_TEXTS),
    st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=8),
    st.integers(0, 99).map(lambda number: f"turn:{number:02}"),
)
SIZES_BYTES = [0, 1, 1023, 1024, 1025, 20_000, 358_399, 358_400, 358_401, 400_000, 3_000_000]
INDEX_LAG_S = 10.0


class ReadConformance:
    """Reads: the records, their order, and that continued reads visit each record once."""

    @settings(PROPERTY)
    @given(
        sks=st.sets(SORT_KEYS, max_size=30),
        bounds=st.one_of(st.none(), st.tuples(SORT_KEYS, SORT_KEYS)),
        limit=st.one_of(st.none(), st.integers(1, 7)),
        reverse=st.booleans(),
    )
    def test_a_range_is_its_slice_of_the_sorted_keys(
        self, store: RangeStore, sks: set[str], bounds: tuple[str, str] | None, limit: int | None, reverse: bool
    ) -> None:
        pk = new_partition()
        _put_all(store, pk, sks)
        query = Range(pk, limit=limit, reverse=reverse)
        if bounds is not None:
            query = query._replace(start=bounds[0], end=bounds[1])
        expected = sorted((sk for sk in sks if _between(query, sk)), key=str.encode, reverse=reverse)
        assert expected == [record.key.sk for record in read_all(store, query)]

    @settings(PROPERTY)
    @given(sks=st.sets(SORT_KEYS, min_size=2, max_size=12), data=st.data(), reverse=st.booleans())
    def test_a_range_continues_behind_a_record_that_was_deleted(
        self, store: RangeStore, sks: set[str], data: st.DataObject, reverse: bool
    ) -> None:
        pk = new_partition()
        _put_all(store, pk, sks)
        after = data.draw(st.sampled_from(sorted(sks)))
        store.write([Delete(Key(pk, after))])
        behind = sorted(
            (sk for sk in sks if (sk.encode() < after.encode() if reverse else sk.encode() > after.encode())),
            key=str.encode,
            reverse=reverse,
        )
        assert behind == [record.key.sk for record in read_all(store, Range(pk, reverse=reverse, after=after))]

    def test_a_range_returns_whole_records(self, store: RangeStore, pk: str) -> None:
        records = [Record(Key(pk, f"turn:{n}"), b"body" * n, {"n": n, "s": "é"}, 1) for n in range(9)]
        store.write([Put(record.key, record.body, record.attributes) for record in records])
        assert records == read_all(store, Range(pk))
        assert records[7:4:-1] == read_all(store, Range(pk, start="turn:5", end="turn:7", reverse=True))

    def test_a_range_of_nothing_is_empty(self, store: RangeStore, pk: str) -> None:
        _put_all(store, pk, {"b"})
        queries = [Range(f"{pk}:2"), Range(pk, start="c"), Range(pk, end="a"), Range(pk, start="c", end="a")]
        for query in queries:
            assert not read_all(store, query)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_range_of_many_large_records_is_read_in_pages(self, store: RangeStore, pk: str, reverse: bool) -> None:
        bodies = [noise(100_000, seed) for seed in range(25)]
        for number, body in enumerate(bodies):
            store.write([Put(Key(pk, f"turn:{number:02}"), body)])
        read = read_all(store, Range(pk, limit=100, reverse=reverse))
        assert (bodies[::-1] if reverse else bodies) == [record.body for record in read]

    def test_partitions_are_not_mixed_up(self, store: RangeStore, pk: str) -> None:
        partitions = [pk, *(pk + text for text in ODD_TEXTS)]
        for partition in partitions:
            store.write([Put(Key(partition, sk), partition.encode()) for sk in ("a", partition)])
        for partition in partitions:
            expected = sorted([("a", partition.encode()), (partition, partition.encode())])
            assert expected == [(record.key.sk, record.body) for record in read_all(store, Range(partition))]

    @settings(PROPERTY)
    @given(sk=SORT_KEYS, body=st.binary(max_size=64))
    def test_any_key_is_kept(self, store: RangeStore, sk: str, body: bytes) -> None:
        key = Key(new_partition() + sk, sk)
        store.write([Put(key, body)])
        assert Record(key, body, {}, 1) == store.get(key)

    @pytest.mark.parametrize("count", [1, 8, 9, 20])
    def test_gather_answers_each_of_many_reads_in_order(self, store: RangeStore, pk: str, count: int) -> None:
        keys = [Key(pk, f"{number:02}") for number in range(count)]
        store.write([Put(key, key.sk.encode()) for key in keys[::2]])
        gets = [Get(key) for key in reversed(keys)]
        records, _ = store.gather(gets, [])
        stored = set(keys[::2])
        assert [get.key if get.key in stored else None for get in gets] == [record and record.key for record in records]
        assert all(record is None or record.body == record.key.sk.encode() for record in records)

    def test_gather_answers_in_the_order_of_the_questions(self, store: RangeStore, pk: str) -> None:
        _put_all(store, pk, {"a", "b", "c"})
        a, c = (Record(Key(pk, sk), sk.encode(), {}, 1) for sk in "ac")
        gets = [Get(c.key), Get(Key(pk, "x")), Get(a.key)]
        records, pages = store.gather(gets, [Range(pk, start="c"), Range(f"{pk}:2"), Range(pk, end="a")])
        assert [c, None, a] == records
        assert [(c,), (), (a,)] == [page.records for page in pages]
        records, pages = store.gather([], [])
        assert not records
        assert not pages

    @pytest.mark.parametrize("size_bytes", SIZES_BYTES)
    @pytest.mark.parametrize("kind", ["noise", "text"])
    def test_a_body_of_any_size(self, store: RangeStore, pk: str, size_bytes: int, kind: str) -> None:
        key, body = Key(pk, "turn:1"), (noise if kind == "noise" else _text)(size_bytes)
        store.write([Put(key, body, {"status": "running"})])
        assert Record(key, body, {"status": "running"}, 1) == store.get(key)
        store.write([Update(key, {"status": "closed"}, (RevIs(1),))])
        closed = Record(key, body, {"status": "closed"}, 2)
        records, pages = store.gather([Get(key)], [Range(pk)])
        assert ([closed], (closed,)) == (records, pages[0].records)

    def test_large_bodies_replace_each_other(self, store: RangeStore, pk: str) -> None:
        key = Key(pk, "turn:1")
        for body in (noise(400_000, 1), b"small", noise(400_000, 2), _text(5_000), noise(400_000, 1)):
            store.write([Put(key, body)])
            assert Record(key, body, {}, 1) == store.get(key)


class OpenIndexConformance:
    """The index of the records whose attribute `open` is set. It may lag."""

    def test_a_record_is_open_as_long_as_its_attribute_is_set(self, store: RangeStore, pk: str) -> None:
        shard, other = pk, f"{pk}:2"
        put, updated, moved, deleted = keys = [Key(f"{pk}:{n}", "turn:1") for n in range(4)]
        store.write([Put(key, b"", {"open": shard}) for key in keys] + [Put(Key(pk, "closed"), b"", {"n": 1})])
        _eventually(keys, lambda: _open_keys(store, shard))
        store.write([Put(put, b"", {"n": 1}), Update(updated, {"open": None}, (RevIs(1),))])
        store.write([Update(moved, {"open": other}, ()), Delete(deleted)])
        _eventually([[], [moved]], lambda: [_open_keys(store, shard), _open_keys(store, other)])
        store.write([Update(put, {"open": shard}, ()), Put(updated, b"", {"open": shard})])
        _eventually([put, updated], lambda: _open_keys(store, shard))
        store.write([Update(put, {"n": 2}, ())])
        _eventually([put, updated], lambda: _open_keys(store, shard))

    def test_open_keys_are_read_in_order_and_in_pages(self, store: RangeStore, pk: str) -> None:
        keys = [Key(f"{pk}:{text}", f"turn:{text}") for text in sorted(ODD_TEXTS, key=str.encode)]
        store.write([Put(key, b"", {"open": pk}) for key in random.Random(1).sample(keys, len(keys))])
        for limit in (1, 2, len(keys), 100):
            _eventually(keys, lambda limit=limit: _open_keys(store, pk, limit))

    def test_open_keys_of_one_partition_are_all_read(self, store: RangeStore, pk: str) -> None:
        keys = [Key(pk, f"turn:{n}") for n in range(9)]
        store.write([Put(key, b"", {"open": pk}) for key in keys])
        for limit in (1, 2, 9):
            _eventually(keys, lambda limit=limit: sorted(_open_keys(store, pk, limit)))

    def test_open_keys_continue_behind_one_that_was_closed(self, store: RangeStore, pk: str) -> None:
        keys = [Key(f"{pk}:{n}", "turn:1") for n in range(4)]
        store.write([Put(key, b"", {"open": pk}) for key in keys])
        _eventually(keys, lambda: _open_keys(store, pk))
        after = store.open_keys(pk, 2).after
        assert keys[1] == after
        store.write([Update(keys[1], {"open": None}, ())])
        _eventually(keys[2:], lambda: _open_keys(store, pk, after=after))


def read_all(store: RangeStore, query: Range) -> list[Record]:
    """Return the records of the range, read page by page."""
    records: list[Record] = []
    while True:
        page = store.range(query)
        records += page.records
        if page.after is None:
            return records
        assert query.limit is None or len(page.records) <= query.limit
        assert page.after != query.after
        query = query._replace(after=page.after)


def _open_keys(store: RangeStore, shard: str, limit: int = 3, after: Key | None = None) -> list[Key]:
    keys: list[Key] = []
    while True:
        page = store.open_keys(shard, limit, after)
        assert len(page.keys) <= limit
        assert after is None or page.after != after
        keys += page.keys
        if page.after is None:
            return keys
        after = page.after


def _eventually(expected: Any, read: Callable[[], Any]) -> None:
    deadline = time.monotonic() + INDEX_LAG_S
    while (seen := read()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert expected == seen


def _put_all(store: RangeStore, pk: str, sks: set[str]) -> None:
    if sks:
        store.write([Put(Key(pk, sk), sk.encode()) for sk in sks])


def _between(query: Range, sk: str) -> bool:
    return query.start.encode() <= sk.encode() <= query.end.encode()


def noise(size_bytes: int, seed: int = 0) -> bytes:
    """Return bytes that can't be compressed."""
    return random.Random(seed).randbytes(size_bytes)


def _text(size_bytes: int) -> bytes:
    return (b"the quick brown fox jumps over the lazy dog; " * (size_bytes // 40 + 1))[:size_bytes]
