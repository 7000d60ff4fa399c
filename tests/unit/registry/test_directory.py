"""What a tenant registered is known for a while, and never as it was before a change that was made here.

Covers: adapters/sqlite/sqlite, store/layout/keys, store/registry/snapshot, store/registry/registry
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine.harness import FakeClock, attempt
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.registry.registry import Model
from turnstone.store.layout.keys import directory_key
from turnstone.store.registry.registry import RegistryStore
from turnstone.store.registry.snapshot import MAX_BYTES, REMEMBERED_FOR, RegistrySnapshot

TENANT = "acme"


def model(name: str, note: str = "") -> Model:
    return Model(identifier=name, provider_resource_id=name, metadata={"note": note})


class Place:
    def __init__(self, store: SqliteRangeStore, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.directory = RegistrySnapshot(store, clock)
        self.models = RegistryStore(store, "model", Model, self.directory.forget)

    def register(self, entry: Model, tenant: str = TENANT) -> None:
        self.models.register(tenant, entry, attempt(), self.clock.now())

    def knows(self, name: str, tenant: str = TENANT) -> bool:
        return self.directory.find(tenant, "model", name) is not None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteRangeStore]:
    sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
    yield sqlite
    sqlite.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_what_is_registered_here_is_known_at_once_and_elsewhere_soon(store: SqliteRangeStore, clock: FakeClock) -> None:
    here, there = Place(store, clock), Place(store, clock)
    assert (here.knows("m"), there.knows("m")) == (False, False)
    here.register(model("m"))
    assert (here.knows("m"), there.knows("m")) == (True, False)
    clock.advance(REMEMBERED_FOR.total_seconds())
    assert there.knows("m")
    here.models.remove(TENANT, "m")
    assert (here.knows("m"), there.knows("m")) == (False, True)


def test_what_is_known_is_read_again_in_time_though_the_clock_was_set_back(
    store: SqliteRangeStore, clock: FakeClock
) -> None:
    here, there = Place(store, clock), Place(store, clock)
    assert not there.knows("m")
    here.register(model("m"))
    clock.set_back(3_600)
    assert not there.knows("m")
    clock.advance(REMEMBERED_FOR.total_seconds())
    assert there.knows("m")


def test_tenants_share_nothing(store: SqliteRangeStore, clock: FakeClock) -> None:
    place = Place(store, clock)
    place.register(model("m"))
    assert not place.knows("m", tenant="other")


def test_what_was_read_before_a_change_here_is_not_learnt_after_it(store: SqliteRangeStore, clock: FakeClock) -> None:
    place = Place(store, clock)
    place.register(model("first"))
    read_before = store.get(directory_key(TENANT))
    place.register(model("second"))
    place.directory.learn(TENANT, read_before)
    assert place.knows("second")
    place.models.remove(TENANT, "first")
    place.directory.learn(TENANT, read_before)
    assert not place.knows("first")


def test_who_can_not_wait_for_that_reads_it_now(store: SqliteRangeStore, clock: FakeClock) -> None:
    here, there = Place(store, clock), Place(store, clock)
    assert not there.knows("m")
    here.register(model("m"))
    assert not there.knows("m")
    there.directory.refresh(TENANT)
    assert there.knows("m")


def test_there_is_room_for_so_much_and_what_is_too_much_changes_nothing(
    store: SqliteRangeStore, clock: FakeClock
) -> None:
    place = Place(store, clock)
    place.register(model("a", "x" * (MAX_BYTES // 2)))
    with pytest.raises(InvalidRequest, match="unregister something"):
        place.register(model("b", "x" * (MAX_BYTES // 2)))
    assert [entry.identifier for entry in place.models.list(TENANT)] == ["a"]
    place.models.remove(TENANT, "a")
    place.register(model("b", "x" * (MAX_BYTES // 2)))
    assert place.knows("b")
