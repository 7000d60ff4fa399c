"""Stored chat completions, over both stores: kept for a time, visible to their owner and team, listed page by page.

Covers: services/models/stored_completions, store/models, functions/stored_completions,
  store/models/stored_completions
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from moto import mock_aws

import tests.fakes.aws.moto_tables  # noqa: F401 - transactions that take no time
from tests.fakes.jobs import RecordedJobs
from tests.support.aws.dynamo_table import create_table
from tests.support.cases import NIGHTLY
from tests.support.engine.harness import FakeClock
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.dialects.openai.chat.stored_completions import with_metadata
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import ContentLost, Forbidden, NotFound, StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.domain.models.stored_completions import CompletionsQuery, StoredCompletion
from turnstone.ports.records import Get, Key, KeyPage, Operation, Range, Record, RecordPage
from turnstone.ports.storage import RangeStore
from turnstone.services.access.access import AccessRules
from turnstone.services.cleanup.cleaning import LATE_PAYLOADS, CleanedStores, Cleaning
from turnstone.services.models.stored_completions import COMPLETIONS_AT_ONCE, StoredCompletionDeps, StoredCompletions
from turnstone.store.agents.agents import AgentStore
from turnstone.store.cleanup.jobs import JobStore
from turnstone.store.files.contents import FileContents
from turnstone.store.layout.keys import completion_key, completion_list
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.memory.banks import BankStore
from turnstone.store.memory.contents import BankContents
from turnstone.store.memory.insertions import InsertionStore
from turnstone.store.models.stored_completions import LARGE_BYTES, StoredCompletionStore
from turnstone.store.sessions.sessions import SessionStore

TTL_S = 600.0
ANN = Caller(tenant="acme", principal="ann", teams=("red",))
TEAMMATE = Caller(tenant="acme", principal="tim", teams=("red",))
STRANGER = Caller(tenant="acme", principal="zoe", teams=("blue",))
FOREIGNER = Caller(tenant="other", principal="ann", teams=("red",))
ADMIN = Caller(tenant="acme", principal="root", roles=("admin",))


class Counting:
    """Counts the calls of a store, and runs an action before one of its writes."""

    def __init__(self, store: RangeStore) -> None:
        self._store = store
        self.calls: list[str] = []
        self.before_write: list[Any] = []

    def get(self, key: Key) -> Record | None:
        self.calls.append("get")
        return self._store.get(key)

    def range(self, query: Range) -> RecordPage:
        self.calls.append("range")
        return self._store.range(query)

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        self.calls.append("gather")
        return self._store.gather(gets, ranges)

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        self.calls.append("write")
        if self.before_write:
            self.before_write.pop(0)()
        self._store.write(operations, nonce)

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        return self._store.open_keys(shard, limit, after)

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        return self._store.clear(pk, limit, sk)


class World:
    """The use cases over one store, a clock that is set by hand, and a queue that tests empty."""

    def __init__(self, bare: RangeStore, folder: Path) -> None:
        self.bare = bare
        self.blobs = folder / "blobs"
        self.store = Counting(OversizeStore(bare, FileBlobStore(self.blobs)))
        self.clock = FakeClock()
        self.jobs = RecordedJobs()
        self.kept = self.over(self.store)

    def over(self, store: RangeStore, *, owner_only: bool = False) -> StoredCompletions:
        deps = StoredCompletionDeps(
            store=StoredCompletionStore(store),
            rules=AccessRules(owner_only=owner_only),
            jobs=lambda: self.jobs,
            clock=self.clock,
            kept_for_s=TTL_S,
        )
        return StoredCompletions(deps)

    def keep(self, number: int, caller: Caller = ANN, *, model: str = "m", text: str = "hi", **metadata: str) -> str:
        name = completion_id(number)
        self.kept.keep(caller, name, model, metadata, wire(name, text, metadata))
        return name

    def listed(self, caller: Caller = ANN, **query: Any) -> tuple[list[str], str | None]:
        listing, entries = self.kept.list(caller, CompletionsQuery(**{"limit": 20, **query}))
        return [completion.completion_id for completion, _ in entries], listing.cursor

    def cleaning(self) -> Cleaning:
        stores = CleanedStores(
            SessionStore(self.store),
            AgentStore(self.store),
            StoredCompletionStore(self.store),
            BankStore(self.store),
            BankContents(self.store),
            InsertionStore(self.store),
            FileContents(self.store),
        )
        return Cleaning(JobStore(self.store), stores, self.jobs, self.clock)

    def payloads(self) -> list[Path]:
        return [path for path in self.blobs.rglob("*") if path.is_file()]

    def left(self, name: str, tenant: str = "acme") -> list[Record]:
        records = self.bare.range(Range(completion_list(tenant))).records
        own = self.bare.get(completion_key(tenant, name))
        return [record for record in (*records, own) if record is not None and name in f"{record.key}"]


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=NIGHTLY)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "sqlite":
        sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
        yield World(sqlite, tmp_path)
        sqlite.close()
        return
    with mock_aws():
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        client = session.create_client("dynamodb", region_name="eu-central-1")
        create_table(client, "completions")
        dynamo = DynamoRangeStore(client, "completions")
        yield World(dynamo, tmp_path)
        dynamo.close()


def completion_id(number: int) -> str:
    return f"chatcmpl-{number:08x}-0000-7000-8000-000000000000"


def wire(name: str, text: str, metadata: Mapping[str, str]) -> bytes:
    return json.dumps({"id": name, "said": text, "metadata": metadata}).encode()


def read(world: World, name: str, caller: Caller = ANN) -> Any:
    return json.loads(joined(world.kept.wire(caller, name)))


def joined(wire: bytes | Iterable[bytes]) -> bytes:
    return wire if isinstance(wire, bytes) else b"".join(wire)


def test_a_stored_completion_is_read_unchanged_and_costs_one_write(world: World) -> None:
    name = world.keep(1, topic="a")
    assert world.store.calls == ["write"]
    assert read(world, name) == {"id": name, "said": "hi", "metadata": {"topic": "a"}}


def test_the_newest_comes_first_and_pages_continue_behind_the_last_entry(world: World) -> None:
    names = [world.keep(number) for number in range(7)]
    found, cursor = world.listed(limit=3)
    assert found == names[:3:-1]
    more, cursor = world.listed(limit=3, after=cursor)
    assert more == names[3:0:-1]
    assert world.listed(limit=3, after=cursor) == (names[:1], None)
    assert world.listed(limit=3, is_newest_first=False)[0] == names[:3]
    assert world.listed(limit=3, is_newest_first=False, after=names[2])[0] == names[3:6]
    world.kept.delete(ANN, names[4])
    assert world.listed(limit=3, after=names[4])[0] == names[3:0:-1], "the id of a deleted entry is a cursor"


def test_a_page_reads_no_more_than_it_shows(world: World) -> None:
    for number in range(60):
        world.keep(number)
    world.store.calls.clear()
    assert len(world.listed(limit=5)[0]) == 5
    assert world.store.calls == ["range", "gather"]


def test_filters_find_entries_many_reads_away(world: World) -> None:
    expected = world.keep(0, model="rare", topic="a")
    for number in range(1, 8 * COMPLETIONS_AT_ONCE):  # many reads further on
        world.keep(number, topic="b")
    assert world.listed(model="rare")[0] == world.listed(metadata={"topic": "a"})[0] == [expected]
    assert world.listed(model="rare", metadata={"topic": "b"}) == ([], None)


def test_a_hidden_completion_and_a_missing_one_are_refused_alike(world: World) -> None:
    name = world.keep(1)
    missing = completion_id(2)
    for caller in (STRANGER, FOREIGNER):
        for act in (
            lambda caller, name: world.kept.wire(caller, name),
            lambda caller, name: world.kept.update(caller, name, {}, with_metadata),
            lambda caller, name: world.kept.delete(caller, name),
        ):
            errors = []
            for identifier in (name, missing):
                with pytest.raises(NotFound) as refused:
                    act(caller, identifier)
                errors.append(str(refused.value).replace(identifier, ""))
            assert errors[0] == errors[1]
        assert world.listed(caller) == ([], None)
    assert read(world, name, TEAMMATE)["id"] == name
    for change in (
        lambda: world.kept.update(TEAMMATE, name, {}, with_metadata),
        lambda: world.kept.delete(TEAMMATE, name),
    ):
        with pytest.raises(Forbidden, match="only its owner"):
            change()
    world.kept.delete(ADMIN, name)
    assert world.left(name) == []


def test_metadata_are_replaced_in_the_list_too(world: World) -> None:
    name = world.keep(1, topic="a")
    updated = json.loads(world.kept.update(ANN, name, {"topic": "b"}, with_metadata))
    assert updated == read(world, name) == {"id": name, "said": "hi", "metadata": {"topic": "b"}}
    assert (world.listed(metadata={"topic": "a"})[0], world.listed(metadata={"topic": "b"})[0]) == ([], [name])
    world.kept.delete(ANN, name)
    assert world.left(name) == []


def test_of_two_changes_at_once_none_is_lost_and_a_deletion_stays(world: World) -> None:
    name = world.keep(1)
    other = world.over(OversizeStore(world.bare, FileBlobStore(world.blobs)))
    world.store.before_write.append(lambda: other.update(ANN, name, {"by": "other"}, with_metadata))
    world.kept.update(ANN, name, {"by": "me"}, with_metadata)
    assert read(world, name)["metadata"] == {"by": "me"}
    world.store.before_write.append(lambda: other.delete(ANN, name))
    with pytest.raises(NotFound):
        world.kept.update(ANN, name, {"by": "late"}, with_metadata)
    assert world.left(name) == []
    again = world.keep(2)
    world.store.before_write.append(lambda: other.delete(ANN, again))
    with pytest.raises(NotFound):
        world.kept.delete(ANN, again)


def test_an_update_under_endless_contention_is_refused(world: World) -> None:
    name = world.keep(1)
    other = world.over(OversizeStore(world.bare, FileBlobStore(world.blobs)))
    world.store.before_write = [lambda: other.update(ANN, name, {"by": "other"}, with_metadata)] * 10
    with pytest.raises(StoreUnavailable):
        world.kept.update(ANN, name, {"by": "me"}, with_metadata)


def test_an_expired_completion_is_gone_for_every_reader_before_it_is_removed(world: World) -> None:
    name = world.keep(1)
    world.clock.advance(TTL_S / 2)
    world.kept.update(ANN, name, {"a": "b"}, with_metadata)
    world.clock.advance(TTL_S / 2 - 1)
    assert world.listed()[0] == [name]
    world.clock.advance(1)
    assert world.listed() == ([], None)
    for act in (
        lambda: world.kept.wire(ANN, name),
        lambda: world.kept.update(ANN, name, {}, with_metadata),
        lambda: world.kept.delete(ANN, name),
    ):
        with pytest.raises(NotFound):
            act()
    assert {int(record.attributes["ttl"]) for record in world.left(name)} == {int(world.clock.now().timestamp())}
    if isinstance(world.bare, SqliteRangeStore):  # DynamoDB removes expired items by itself
        assert world.bare.drop_expired(world.clock.now()) == 2
        assert world.left(name) == []


def test_a_large_completion_is_a_payload_which_a_job_removes_when_its_time_is_over(world: World) -> None:
    small, large = world.keep(1), world.keep(2, text="x" * LARGE_BYTES)
    assert len(world.payloads()) == 1
    world.kept.update(ANN, large, {"a": "b"}, with_metadata)
    assert read(world, large)["said"] == "x" * LARGE_BYTES
    assert world.cleaning().due() == ()
    world.clock.advance(TTL_S)
    (job,) = world.cleaning().due()
    assert (job.kind, job.order) == ("clean_completion", large)
    world.cleaning().run(job, world.clock.now())
    assert (world.left(large), world.payloads()) == ([], [])
    assert len(world.left(small)) == 2
    assert world.cleaning().due() == ()


def test_a_large_completion_that_is_deleted_leaves_no_payload(world: World) -> None:
    name = world.keep(1, text="x" * LARGE_BYTES)
    world.kept.delete(ANN, name)
    assert world.listed() == ([], None)
    done: list[Job] = []
    for _ in range(3):
        for job in world.cleaning().due():
            world.cleaning().run(job, world.clock.now())
            done.append(job)
        world.clock.advance(LATE_PAYLOADS.total_seconds())
    assert (world.left(name), world.payloads()) == ([], [])
    assert done[0] == world.jobs.sent[0]


def test_two_large_completions_of_one_moment_have_a_job_each(world: World) -> None:
    names = {world.keep(number, text="x" * LARGE_BYTES) for number in (1, 2)}
    world.clock.advance(TTL_S)
    assert {job.order for job in world.cleaning().due()} == names


def test_a_completion_whose_payload_is_lost_is_listed_read_as_lost_and_can_be_deleted(world: World) -> None:
    name = world.keep(1, text="x" * LARGE_BYTES)
    for payload in world.payloads():
        payload.unlink()
    _, entries = world.kept.list(ANN, CompletionsQuery(limit=20))
    assert [(completion.completion_id, wire) for completion, wire in entries] == [(name, None)]
    with pytest.raises(ContentLost):
        world.kept.wire(ANN, name)
    with pytest.raises(NotFound):
        world.kept.wire(STRANGER, name)
    world.kept.delete(ANN, name)
    assert world.left(name) == []


def test_only_owners_see_a_completion_where_that_is_set(world: World) -> None:
    name = world.keep(1, Caller(tenant="acme", principal="ann"))
    hidden = world.over(world.store, owner_only=True)
    teamless = Caller(tenant="acme", principal="tim")
    assert read(world, name, teamless)["id"] == name
    with pytest.raises(NotFound):
        hidden.wire(teamless, name)


@pytest.mark.parametrize(("query", "is_match"), [({"metadata": {"a": "1"}}, True), ({"metadata": {"a": "2"}}, False)])
def test_filters_compare_every_named_field(query: dict[str, Any], is_match: bool) -> None:
    at = FakeClock().now()
    completion = StoredCompletion(
        completion_id="c", model="m", created_at=at, ends_at=at, metadata={"a": "1", "b": "2"}
    )
    assert CompletionsQuery(limit=1, **query).matches(completion) is is_match
    assert not CompletionsQuery(limit=1, model="x", **query).matches(completion)
