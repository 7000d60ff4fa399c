"""Stored chat completions, over both stores: kept for a time, seen by whom they are for, listed page by page.

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
from turnstone.store.layout.keys import completion_key, completion_list
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.models.stored_completions import LARGE_BYTES, StoredCompletionStore
from turnstone.store.sessions.sessions import SessionStore

TTL_S = 600.0
ANN = Caller(tenant="acme", principal="ann", teams=("red",))
TEAMMATE = Caller(tenant="acme", principal="tim", teams=("red",))
STRANGER = Caller(tenant="acme", principal="zoe", teams=("blue",))
FOREIGNER = Caller(tenant="other", principal="ann", teams=("red",))
ADMIN = Caller(tenant="acme", principal="root", roles=("admin",))


class Counting:
    """Counts the calls of a store, and does something before one of its writes."""

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


class Place:
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

    def keep(self, number: int, caller: Caller = ANN, *, model: str = "m", said: str = "hi", **metadata: str) -> str:
        name = completion_id(number)
        self.kept.keep(caller, name, model, metadata, wire(name, said, metadata))
        return name

    def listed(self, caller: Caller = ANN, **query: Any) -> tuple[list[str], str | None]:
        listing, entries = self.kept.list(caller, CompletionsQuery(**{"limit": 20, **query}))
        return [completion.completion_id for completion, _ in entries], listing.cursor

    def cleaning(self) -> Cleaning:
        stores = CleanedStores(SessionStore(self.store), AgentStore(self.store), StoredCompletionStore(self.store))
        return Cleaning(JobStore(self.store), stores, self.jobs, self.clock)

    def payloads(self) -> list[Path]:
        return [path for path in self.blobs.rglob("*") if path.is_file()]

    def left(self, name: str, tenant: str = "acme") -> list[Record]:
        records = self.bare.range(Range(completion_list(tenant))).records
        own = self.bare.get(completion_key(tenant, name))
        return [record for record in (*records, own) if record is not None and name in f"{record.key}"]


@pytest.fixture(params=["sqlite", "dynamodb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
        yield Place(sqlite, tmp_path)
        sqlite.close()
        return
    with mock_aws():
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        client = session.create_client("dynamodb", region_name="eu-central-1")
        create_table(client, "completions")
        dynamo = DynamoRangeStore(client, "completions")
        yield Place(dynamo, tmp_path)
        dynamo.close()


def completion_id(number: int) -> str:
    return f"chatcmpl-{number:08x}-0000-7000-8000-000000000000"


def wire(name: str, said: str, metadata: Mapping[str, str]) -> bytes:
    return json.dumps({"id": name, "said": said, "metadata": metadata}).encode()


def read(place: Place, name: str, caller: Caller = ANN) -> Any:
    return json.loads(joined(place.kept.wire(caller, name)))


def joined(wire: bytes | Iterable[bytes]) -> bytes:
    return wire if isinstance(wire, bytes) else b"".join(wire)


def test_what_is_kept_is_read_as_it_was_and_for_one_write(place: Place) -> None:
    name = place.keep(1, topic="a")
    assert place.store.calls == ["write"]
    assert read(place, name) == {"id": name, "said": "hi", "metadata": {"topic": "a"}}


def test_the_newest_comes_first_and_pages_go_on_behind_the_last_one(place: Place) -> None:
    names = [place.keep(number) for number in range(7)]
    found, cursor = place.listed(limit=3)
    assert found == names[:3:-1]
    more, cursor = place.listed(limit=3, after=cursor)
    assert more == names[3:0:-1]
    assert place.listed(limit=3, after=cursor) == (names[:1], None)
    assert place.listed(limit=3, is_newest_first=False)[0] == names[:3]
    assert place.listed(limit=3, is_newest_first=False, after=names[2])[0] == names[3:6]
    place.kept.delete(ANN, names[4])
    assert place.listed(limit=3, after=names[4])[0] == names[3:0:-1], "a place that is gone is a place"


def test_a_page_reads_no_more_than_it_shows(place: Place) -> None:
    for number in range(60):
        place.keep(number)
    place.store.calls.clear()
    assert len(place.listed(limit=5)[0]) == 5
    assert place.store.calls == ["range", "gather"]


def test_filters_find_what_is_far_behind(place: Place) -> None:
    wanted = place.keep(0, model="rare", topic="a")
    for number in range(1, 8 * COMPLETIONS_AT_ONCE):  # many reads behind
        place.keep(number, topic="b")
    assert place.listed(model="rare")[0] == place.listed(metadata={"topic": "a"})[0] == [wanted]
    assert place.listed(model="rare", metadata={"topic": "b"}) == ([], None)


def test_who_may_not_see_one_is_told_what_the_missing_are(place: Place) -> None:
    name = place.keep(1)
    missing = completion_id(2)
    for caller in (STRANGER, FOREIGNER):
        for act in (
            lambda caller, name: place.kept.wire(caller, name),
            lambda caller, name: place.kept.update(caller, name, {}, with_metadata),
            lambda caller, name: place.kept.delete(caller, name),
        ):
            errors = []
            for wanted in (name, missing):
                with pytest.raises(NotFound) as refused:
                    act(caller, wanted)
                errors.append(str(refused.value).replace(wanted, ""))
            assert errors[0] == errors[1]
        assert place.listed(caller) == ([], None)
    assert read(place, name, TEAMMATE)["id"] == name
    for change in (
        lambda: place.kept.update(TEAMMATE, name, {}, with_metadata),
        lambda: place.kept.delete(TEAMMATE, name),
    ):
        with pytest.raises(Forbidden, match="only its owner"):
            change()
    place.kept.delete(ADMIN, name)
    assert place.left(name) == []


def test_metadata_are_replaced_in_the_list_too(place: Place) -> None:
    name = place.keep(1, topic="a")
    told = json.loads(place.kept.update(ANN, name, {"topic": "b"}, with_metadata))
    assert told == read(place, name) == {"id": name, "said": "hi", "metadata": {"topic": "b"}}
    assert (place.listed(metadata={"topic": "a"})[0], place.listed(metadata={"topic": "b"})[0]) == ([], [name])
    place.kept.delete(ANN, name)
    assert place.left(name) == []


def test_of_two_changes_at_once_none_is_lost_and_a_deletion_stays(place: Place) -> None:
    name = place.keep(1)
    other = place.over(OversizeStore(place.bare, FileBlobStore(place.blobs)))
    place.store.before_write.append(lambda: other.update(ANN, name, {"by": "other"}, with_metadata))
    place.kept.update(ANN, name, {"by": "me"}, with_metadata)
    assert read(place, name)["metadata"] == {"by": "me"}
    place.store.before_write.append(lambda: other.delete(ANN, name))
    with pytest.raises(NotFound):
        place.kept.update(ANN, name, {"by": "late"}, with_metadata)
    assert place.left(name) == []
    again = place.keep(2)
    place.store.before_write.append(lambda: other.delete(ANN, again))
    with pytest.raises(NotFound):
        place.kept.delete(ANN, again)


def test_one_that_changes_all_the_time_is_given_back_to_the_caller(place: Place) -> None:
    name = place.keep(1)
    other = place.over(OversizeStore(place.bare, FileBlobStore(place.blobs)))
    place.store.before_write = [lambda: other.update(ANN, name, {"by": "other"}, with_metadata)] * 10
    with pytest.raises(StoreUnavailable):
        place.kept.update(ANN, name, {"by": "me"}, with_metadata)


def test_its_time_ends_it_for_every_reader_before_it_is_removed(place: Place) -> None:
    name = place.keep(1)
    place.clock.advance(TTL_S / 2)
    place.kept.update(ANN, name, {"a": "b"}, with_metadata)
    place.clock.advance(TTL_S / 2 - 1)
    assert place.listed()[0] == [name]
    place.clock.advance(1)
    assert place.listed() == ([], None)
    for act in (
        lambda: place.kept.wire(ANN, name),
        lambda: place.kept.update(ANN, name, {}, with_metadata),
        lambda: place.kept.delete(ANN, name),
    ):
        with pytest.raises(NotFound):
            act()
    assert {int(record.attributes["ttl"]) for record in place.left(name)} == {int(place.clock.now().timestamp())}
    if isinstance(place.bare, SqliteRangeStore):  # which a table does by itself
        assert place.bare.drop_expired(place.clock.now()) == 2
        assert place.left(name) == []


def test_a_large_one_is_a_payload_which_a_job_removes_when_its_time_is_over(place: Place) -> None:
    small, large = place.keep(1), place.keep(2, said="x" * LARGE_BYTES)
    assert len(place.payloads()) == 1
    place.kept.update(ANN, large, {"a": "b"}, with_metadata)
    assert read(place, large)["said"] == "x" * LARGE_BYTES
    assert place.cleaning().due() == ()
    place.clock.advance(TTL_S)
    (job,) = place.cleaning().due()
    assert (job.kind, job.order) == ("clean_completion", large)
    place.cleaning().run(job, place.clock.now())
    assert (place.left(large), place.payloads()) == ([], [])
    assert len(place.left(small)) == 2
    assert place.cleaning().due() == ()


def test_a_large_one_that_is_deleted_leaves_no_payload(place: Place) -> None:
    name = place.keep(1, said="x" * LARGE_BYTES)
    place.kept.delete(ANN, name)
    assert place.listed() == ([], None)
    done: list[Job] = []
    for _ in range(3):
        for job in place.cleaning().due():
            place.cleaning().run(job, place.clock.now())
            done.append(job)
        place.clock.advance(LATE_PAYLOADS.total_seconds())
    assert (place.left(name), place.payloads()) == ([], [])
    assert done[0] == place.jobs.sent[0]


def test_two_large_ones_of_one_moment_have_a_job_each(place: Place) -> None:
    names = {place.keep(number, said="x" * LARGE_BYTES) for number in (1, 2)}
    place.clock.advance(TTL_S)
    assert {job.order for job in place.cleaning().due()} == names


def test_one_whose_payload_is_lost_is_listed_read_as_lost_and_can_be_deleted(place: Place) -> None:
    name = place.keep(1, said="x" * LARGE_BYTES)
    for payload in place.payloads():
        payload.unlink()
    _, entries = place.kept.list(ANN, CompletionsQuery(limit=20))
    assert [(completion.completion_id, wire) for completion, wire in entries] == [(name, None)]
    with pytest.raises(ContentLost):
        place.kept.wire(ANN, name)
    with pytest.raises(NotFound):
        place.kept.wire(STRANGER, name)
    place.kept.delete(ANN, name)
    assert place.left(name) == []


def test_owners_only_see_where_that_is_set(place: Place) -> None:
    name = place.keep(1, Caller(tenant="acme", principal="ann"))
    hidden = place.over(place.store, owner_only=True)
    nobody = Caller(tenant="acme", principal="tim")
    assert read(place, name, nobody)["id"] == name
    with pytest.raises(NotFound):
        hidden.wire(nobody, name)


@pytest.mark.parametrize(("query", "is_wanted"), [({"metadata": {"a": "1"}}, True), ({"metadata": {"a": "2"}}, False)])
def test_filters_look_at_all_that_is_named(query: dict[str, Any], is_wanted: bool) -> None:
    at = FakeClock().now()
    completion = StoredCompletion(
        completion_id="c", model="m", created_at=at, ends_at=at, metadata={"a": "1", "b": "2"}
    )
    assert CompletionsQuery(limit=1, **query).matches(completion) is is_wanted
    assert not CompletionsQuery(limit=1, model="x", **query).matches(completion)
