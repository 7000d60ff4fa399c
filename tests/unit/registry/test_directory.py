"""The cached registry of a tenant: it expires, and never holds a state older than a change of its own process.

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


class Process:
    def __init__(self, store: SqliteRangeStore, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.directory = RegistrySnapshot(store, clock)
        self.models = RegistryStore(store, "model", Model, self.directory.forget)

    def register(self, entry: Model, tenant: str = TENANT) -> None:
        self.models.register(tenant, entry, attempt(), self.clock.now())

    def has(self, name: str, tenant: str = TENANT) -> bool:
        return self.directory.find(tenant, "model", name) is not None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteRangeStore]:
    sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
    yield sqlite
    sqlite.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_registration_is_visible_here_at_once_and_elsewhere_soon(store: SqliteRangeStore, clock: FakeClock) -> None:
    here, there = Process(store, clock), Process(store, clock)
    assert (here.has("m"), there.has("m")) == (False, False)
    here.register(model("m"))
    assert (here.has("m"), there.has("m")) == (True, False)
    clock.advance(REMEMBERED_FOR.total_seconds())
    assert there.has("m")
    here.models.remove(TENANT, "m")
    assert (here.has("m"), there.has("m")) == (False, True)


def test_the_cache_expires_in_time_though_the_clock_was_set_back(store: SqliteRangeStore, clock: FakeClock) -> None:
    here, there = Process(store, clock), Process(store, clock)
    assert not there.has("m")
    here.register(model("m"))
    clock.set_back(3_600)
    assert not there.has("m")
    clock.advance(REMEMBERED_FOR.total_seconds())
    assert there.has("m")


def test_tenants_share_nothing(store: SqliteRangeStore, clock: FakeClock) -> None:
    process = Process(store, clock)
    process.register(model("m"))
    assert not process.has("m", tenant="other")


def test_a_read_before_a_change_here_is_not_cached_after_it(store: SqliteRangeStore, clock: FakeClock) -> None:
    process = Process(store, clock)
    process.register(model("first"))
    read_before = store.get(directory_key(TENANT))
    process.register(model("second"))
    process.directory.learn(TENANT, read_before)
    assert process.has("second")
    process.models.remove(TENANT, "first")
    process.directory.learn(TENANT, read_before)
    assert not process.has("first")


def test_a_fresh_read_skips_the_cache(store: SqliteRangeStore, clock: FakeClock) -> None:
    here, there = Process(store, clock), Process(store, clock)
    assert not there.has("m")
    here.register(model("m"))
    assert not there.has("m")
    there.directory.refresh(TENANT)
    assert there.has("m")


def test_a_registration_beyond_the_limit_changes_nothing(store: SqliteRangeStore, clock: FakeClock) -> None:
    process = Process(store, clock)
    process.register(model("a", "x" * (MAX_BYTES // 2)))
    with pytest.raises(InvalidRequest, match="unregister something"):
        process.register(model("b", "x" * (MAX_BYTES // 2)))
    assert [entry.identifier for entry in process.models.list(TENANT)] == ["a"]
    process.models.remove(TENANT, "a")
    process.register(model("b", "x" * (MAX_BYTES // 2)))
    assert process.has("b")
