"""The conformance suite of every RangeStore. Subclass `RangeStoreConformance` and give it a fixture `store`.

The store is the one that is served: composed with OversizeStore, so that bodies of any size fit.
No test needs an empty store; each works in partitions of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.stores.range_store_model import PAIRS, ModelStore, new_partition, writes_on
from tests.support.stores.range_store_races import RaceConformance
from tests.support.stores.range_store_reads import PROPERTY, OpenIndexConformance, ReadConformance, noise
from turnstone.domain.errors import Conflict
from turnstone.ports.records import (
    Absent,
    AttributeIs,
    Check,
    Condition,
    Delete,
    Key,
    Operation,
    Put,
    Range,
    Record,
    RevIs,
    Update,
)
from turnstone.ports.storage import RangeStore

Kind = Callable[[Key, tuple[Condition, ...]], Operation]
KINDS: list[Kind] = [
    lambda key, when: Put(key, b"new", {"status": "new"}, when),
    lambda key, when: Update(key, {"status": "new", "fence": None}, when),
    Delete,
    Check,
]
KIND_NAMES = ["put", "update", "delete", "check"]


class WriteConformance:
    """One write: all or nothing, under conditions."""

    def test_what_was_put_is_read_back(self, store: RangeStore, pk: str) -> None:
        key = Key(pk, "turn:1")
        attributes = {"status": "läuft 🐦", "empty": "", "fence": 0, "lease_until": 1_790_000_000_000, "delta": -5}
        store.write([Put(key, b'{"a": "\x00\xff"}', attributes)])
        assert Record(key, b'{"a": "\x00\xff"}', attributes, 1) == store.get(key)

    def test_what_was_never_put_is_none(self, store: RangeStore, pk: str) -> None:
        store.write([Put(Key(pk, "turn:1"), b"")])
        assert store.get(Key(pk, "turn:")) is None
        assert store.get(Key(pk[:-1], "turn:1")) is None

    def test_put_replaces_the_whole_record(self, store: RangeStore, pk: str) -> None:
        key = Key(pk, "a")
        store.write([Put(key, b"old", {"status": "old", "fence": 1})])
        store.write([Put(key, b"new", {"fence": 2}, (RevIs(1),))])
        assert Record(key, b"new", {"fence": 2}, 2) == store.get(key)
        store.write([Put(key, b"newest")])
        assert Record(key, b"newest", {}, 1) == store.get(key)

    def test_update_sets_and_removes_attributes_and_leaves_the_body(self, store: RangeStore, pk: str) -> None:
        key = Key(pk, "a")
        body = b"body " * 1000
        store.write([Put(key, body, {"status": "running", "fence": 1, "kept": "k"})])
        store.write([Update(key, {"status": "closed", "fence": None, "added": 5, "never": None}, (RevIs(1),))])
        assert Record(key, body, {"status": "closed", "kept": "k", "added": 5}, 2) == store.get(key)

    def test_update_changes_the_revision_only_when_it_names_one(self, store: RangeStore, pk: str) -> None:
        key = Key(pk, "a")
        store.write([Put(key, b"", {"fence": 1})])
        store.write([Update(key, {"fence": 2}, (AttributeIs("fence", 1),))])
        store.write([Update(key, {"fence": 3}, ())])
        assert Record(key, b"", {"fence": 3}, 1) == store.get(key)

    def test_update_of_a_lost_record_conflicts(self, store: RangeStore, pk: str) -> None:
        with pytest.raises(Conflict) as raised:
            store.write([Put(Key(pk, "b"), b""), Update(Key(pk, "a"), {"fence": 1}, ())])
        assert (1, Key(pk, "a"), None) == (raised.value.operation, raised.value.key, raised.value.found)
        assert store.get(Key(pk, "a")) is None
        assert store.get(Key(pk, "b")) is None

    def test_delete_of_nothing_is_no_error(self, store: RangeStore, pk: str) -> None:
        store.write([Delete(Key(pk, "a")), Delete(Key(pk, "b"), (Absent(),)), Put(Key(pk, "c"), b"")])
        assert store.get(Key(pk, "c")) is not None

    @pytest.mark.parametrize("exists", [True, False])
    @pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
    def test_every_pair_of_conditions(self, store: RangeStore, pk: str, kind: Kind, exists: bool) -> None:
        seed = Put(Key(pk, "a"), b"old", {"status": "running", "fence": 7})
        for number, when in enumerate(PAIRS):
            model, key = ModelStore(), Key(f"{pk}:{number}", "a")
            if exists:
                _write_both(store, model, [seed._replace(key=key)])
            _write_both(store, model, [kind(key, when)])

    @pytest.mark.parametrize("count", [0, 1, 29, 30, 31, 61])
    def test_a_partition_is_cleared_in_parts_and_its_neighbours_stay(
        self, store: RangeStore, pk: str, count: int
    ) -> None:
        kept = [Key(f"{pk}{end}", "turn:0") for end in (":1", "!", "\U0010ffff")]
        keys = [Key(pk, f"turn:{number}") for number in range(count)]
        for key in [*kept, *keys]:
            store.write([Put(key, b"x", {"open": f"{pk}:open"})])
        parts = 1
        while not store.clear(pk, 30):
            parts += 1
        assert parts == count // 30 + 1
        assert store.range(Range(pk)).records == ()
        assert None not in [store.get(key) for key in kept]
        assert store.clear(pk, 30)

    def test_one_record_is_cleared_and_its_neighbours_stay(self, store: RangeStore, pk: str) -> None:
        keys = [Key(pk, sk) for sk in ("turn:", "turn:1", "turn:11")]
        store.write([Put(key, noise(400_000)) for key in keys])
        for _ in range(2):
            assert store.clear(pk, 30, "turn:1")
        assert [store.get(key) is None for key in keys] == [False, True, False]

    @settings(PROPERTY)
    @given(data=st.data())
    def test_any_sequence_of_writes(self, store: RangeStore, data: st.DataObject) -> None:
        pk = new_partition()
        keys = [Key(pk, "a"), Key(pk, "b"), Key(f"{pk}:2", "a")]
        model = ModelStore()
        for operations in data.draw(st.lists(writes_on(keys), min_size=1, max_size=6)):
            _write_both(store, model, operations)
            assert [model.records.get(key) for key in keys] == [store.get(key) for key in keys]

    @pytest.mark.parametrize("body", [b"", b"text " * 500, noise(400_000)], ids=["small", "text", "large"])
    def test_a_conflict_names_the_first_operation_that_failed_and_nothing_is_written(
        self, store: RangeStore, pk: str, body: bytes
    ) -> None:
        found = Record(Key(pk, "c"), body, {"status": "closed"}, 1)
        store.write([Put(Key(pk, "b"), b"b", {"n": 1}), Put(found.key, found.body, found.attributes)])
        before = store.range(Range(pk)).records
        with pytest.raises(Conflict) as raised:
            store.write(
                [
                    Put(Key(pk, "z"), b"new", {}, (Absent(),)),
                    Update(Key(pk, "b"), {"n": 2}, (RevIs(1),)),
                    Check(found.key, (AttributeIs("status", "running"),)),
                    Delete(Key(pk, "a"), (RevIs(1),)),
                    Put(Key(f"{pk}:2", "y"), b"new"),
                ]
            )
        assert (2, found.key, found) == (raised.value.operation, raised.value.key, raised.value.found)
        assert before == store.range(Range(pk)).records
        assert store.get(Key(f"{pk}:2", "y")) is None

    def test_a_hundred_operations_are_one_write(self, store: RangeStore, pk: str) -> None:
        keys = [Key(f"{pk}:{number % 7}", f"turn:{number:03}") for number in range(100)]
        store.write([Put(key, b"x", {}, (Absent(),)) for key in keys])
        with pytest.raises(Conflict) as raised:
            store.write([*(Delete(key) for key in keys[:99]), Put(keys[99], b"", {}, (Absent(),))])
        assert (99, keys[99]) == (raised.value.operation, raised.value.key)
        assert None not in [store.get(key) for key in keys]

    @pytest.mark.parametrize(
        "operations",
        [
            [],
            [Put(Key("p", f"{number}"), b"") for number in range(101)],
            [Put(Key("p", "a"), b""), Put(Key("p", "b"), b""), Check(Key("p", "a"), (RevIs(1),))],
            [Put(Key("", "a"), b"")],
            [Delete(Key("p", ""))],
        ],
        ids=["none", "101", "one key twice", "empty pk", "empty sk"],
    )
    def test_what_no_store_accepts_is_a_programming_error(self, store: RangeStore, operations: list[Operation]) -> None:
        with pytest.raises(ValueError):
            store.write(operations)


class NonceConformance:
    """A write whose answer was lost is repeated with its nonce."""

    def test_the_same_write_again_succeeds_and_changes_nothing(self, store: RangeStore, pk: str) -> None:
        put, updated, deleted = Key(pk, "put"), Key(pk, "updated"), Key(pk, "deleted")
        store.write([Put(updated, b"body", {"fence": 1}), Put(deleted, b"")])
        operations = [
            Delete(deleted, (RevIs(1),)),
            Put(put, b"new", {}, (Absent(),)),
            Update(updated, {"fence": 2}, (RevIs(1),)),
        ]
        for _ in range(3):
            store.write(operations, nonce="mine")
        assert Record(put, b"new", {}, 1) == store.get(put)
        assert Record(updated, b"body", {"fence": 2}, 2) == store.get(updated)

    @pytest.mark.parametrize(("first", "second"), [("mine", "another's"), ("mine", None), (None, "mine"), (None, None)])
    def test_another_nonce_conflicts(self, store: RangeStore, pk: str, first: str | None, second: str | None) -> None:
        operations = [Put(Key(pk, "a"), b"", {}, (Absent(),))]
        store.write(operations, first)
        with pytest.raises(Conflict):
            store.write(operations, second)

    def test_the_nonce_of_an_update_is_found(self, store: RangeStore, pk: str) -> None:
        key = Key(pk, "a")
        store.write([Put(key, b"", {"status": "running"})], nonce="of the put")
        operations = [Update(key, {"status": "closed"}, (AttributeIs("status", "running"),))]
        store.write(operations, nonce="of the update")
        store.write(operations, nonce="of the update")
        with pytest.raises(Conflict):
            store.write([Put(key, b"", {}, (Absent(),))], nonce="of the put")

    def test_the_nonce_is_found_on_any_record_that_is_left_of_the_write(self, store: RangeStore, pk: str) -> None:
        first, second, checked = Key(pk, "a"), Key(pk, "b"), Key(pk, "c")
        operations = [Check(checked, (Absent(),)), Put(first, b"", {}, (Absent(),)), Put(second, b"mine")]
        store.write(operations, nonce="mine")
        store.write([Put(first, b"theirs", {}, (RevIs(1),)), Put(checked, b"theirs")], nonce="theirs")
        store.write(operations, nonce="mine")
        assert Record(first, b"theirs", {}, 2) == store.get(first)

    def test_the_same_write_again_leaves_what_others_wrote_since(self, store: RangeStore, pk: str) -> None:
        put, new = Key(pk, "a"), Key(pk, "b")
        operations = [Put(put, b"mine"), Put(new, b"", {}, (Absent(),))]
        store.write(operations, nonce="mine")
        store.write([Put(put, b"theirs")])
        store.write(operations, nonce="mine")
        assert Record(put, b"theirs", {}, 1) == store.get(put)

    def test_a_nonce_that_was_overwritten_is_no_longer_found(self, store: RangeStore, pk: str) -> None:
        key = Key(pk, "a")
        store.write([Put(key, b"", {"n": 1}, (Absent(),))], nonce="mine")
        store.write([Update(key, {"n": 2}, ())])
        with pytest.raises(Conflict) as raised:
            store.write([Put(key, b"", {"n": 1}, (Absent(),))], nonce="mine")
        assert Record(key, b"", {"n": 2}, 1) == raised.value.found


class RangeStoreConformance(WriteConformance, NonceConformance, RaceConformance, ReadConformance, OpenIndexConformance):
    """All that a RangeStore promises."""

    @pytest.fixture
    def pk(self) -> str:
        return new_partition()


def _write_both(store: RangeStore, model: ModelStore, operations: list[Operation]) -> None:
    before = dict(model.records)
    failed = model.write(operations)
    if failed is None:
        store.write(operations)
    else:
        with pytest.raises(Conflict) as raised:
            store.write(operations)
        key = operations[failed].key
        assert (failed, key, before.get(key)) == (raised.value.operation, raised.value.key, raised.value.found)
    for operation in operations:
        assert model.records.get(operation.key) == store.get(operation.key), operations
