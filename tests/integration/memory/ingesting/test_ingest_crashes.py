"""Any one call of a port fails during an insertion or a fold, with the process or without: nothing is halved or lost.

The document is found wholly, as before or as new, at each moment; another process ends the insertion; and in the end no
record and no payload is left that nothing leads to.

Covers: services/memory/documents/ingesting, services/memory/documents/ingest_runs, store/memory/ingestions,
services/memory/folding, services/memory/merging, services/memory/segment_writing
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import product
from typing import NamedTuple

import pytest

from tests.integration.crash_matrix.databases import KINDS, Database, Make, small_limits
from tests.integration.crash_matrix.faults import (
    Blow,
    Fault,
    Faults,
    FaultyBlobs,
    FaultyJobs,
    FaultyStore,
    Line,
    Moment,
)
from tests.integration.crash_matrix.leftovers import blobs_named_by
from tests.support.cases import NIGHTLY
from tests.support.engine.banks import manifest_of
from tests.support.engine.harness import CountingStore, FakeClock, ManualSupervisor, ProcessDied, Server
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.memory.banks import Chunking, NewBank
from turnstone.domain.memory.documents import NewDocument
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.memory import folding, merging
from turnstone.services.memory.documents import ingest_runs
from turnstone.settings.config import Settings
from turnstone.store.layout.oversize import OversizeStore

BANK, TIDE = "shore", "tide"
FIRST = Attempt(fingerprint="body")
WORDS = Chunking(tokens=1, overlap=0)
OLD = ["low", "water"]
NEW = [f"{first}{second}" for first in "bcd" for second in "abcdefghijklmnopqrstuvwxyz"]  # a chunk each
ROUNDS = 60


class Case(NamedTuple):
    """An insertion: of a document that is new or not, by runs that claim their jobs or not."""

    is_new: bool
    is_claiming: bool


class World:
    """Processes over a database, of which the first may fail."""

    def __init__(self, database: Database, case: Case, fault: Fault | None = None) -> None:
        self.database, self.case = database, case
        self.clock = FakeClock()
        self.faults = Faults(fault)

    def process(self) -> Server:
        store, blobs = self.database.connect()
        server = Server(OversizeStore(store, blobs), self.clock)
        line = Line(self.faults, lambda: server.store.die(), lambda: server.store.is_dead)
        faulty = FaultyStore(store, line, lambda _: None)
        server.store = CountingStore(OversizeStore(faulty, FaultyBlobs(blobs, line)))
        server.jobs = FaultyJobs(server.jobs, line)  # type: ignore[assignment]
        server.load(ManualSupervisor(self.clock), Settings(), is_on_lambda=self.case.is_claiming)
        return server

    def leftovers(self, server: Server) -> list[str]:
        """Return payloads that no record names, and records of insertions."""
        records = self.database.records()
        prefixes = ("ingest:", "vectors:")
        named = blobs_named_by(records)
        return sorted(self.database.blobs() - named) + [r.key.sk for r in records if r.key.sk.startswith(prefixes)]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("dynamodb", marks=NIGHTLY)])
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    with KINDS[request.param](tmp_path_factory.mktemp("ingest")) as made, small_limits():
        yield made


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Silence the log: dying processes write long tracebacks."""
    caplog.set_level(logging.CRITICAL)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make vectors of few texts at a time, and store pages of few."""
    monkeypatch.setattr(ingest_runs, "EMBEDDED_AT_ONCE", 40)
    monkeypatch.setattr(ingest_runs, "PAGE_CHUNKS", 40)


@pytest.mark.parametrize("case", [Case(is_new=True, is_claiming=True), Case(is_new=False, is_claiming=False)], ids=str)
def test_a_failure_of_any_call_halves_and_loses_no_document(make: Make, case: Case) -> None:
    points = list(product(calls_without_failure(make, case), Moment))
    print(f"{len(points)} crash points of {case}")
    assert len(points) > 100
    for number, (call, moment) in list(enumerate(points))[case.is_new :: 3]:  # of each call one moment, or none
        ends_after(make, case, Fault(call, moment, tuple(Blow)[number // 3 % 2]))


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("case", [Case(*each) for each in product((False, True), repeat=2)], ids=str)
def test_either_failure_of_any_call_halves_and_loses_no_document(make: Make, case: Case) -> None:
    for call, moment, blow in product(calls_without_failure(make, case), Moment, Blow):
        ends_after(make, case, Fault(call, moment, blow))


def calls_without_failure(make: Make, case: Case) -> list:  # type: ignore[type-arg] # of calls
    with over(make, case) as (world, server, file_id):
        world.faults.begin()
        insert(world, server, file_id)
        world.faults.end()
        assert is_whole(server) is True
        work_off(world, server)
        assert world.leftovers(server) == []
        return world.faults.calls


def ends_after(make: Make, case: Case, fault: Fault) -> None:
    with over(make, case, fault) as (world, server, file_id):
        world.faults.begin()
        with suppress(ProcessDied, StoreUnavailable):
            insert(world, server, file_id)
        world.faults.end()
        assert world.faults.has_struck, str(fault)
        heir = world.process()
        assert is_whole(heir) in (True, False), str(fault)
        add(heir, file_id)  # changes nothing unless the first request had no effect
        work_off(world, heir)
        assert is_whole(heir) is True, str(fault)
        assert world.leftovers(heir) == [], str(fault)


def insert(world: World, server: Server, file_id: str) -> None:
    """Request an insertion, and do its job in several runs."""
    add(server, file_id)
    for _ in range(ROUNDS):
        if not run_due(server, timedelta(0)):
            return
        world.clock.advance(61)
    pytest.fail("the insertion has no end")


def add(server: Server, file_id: str) -> None:
    new = NewDocument(TIDE, file_id=file_id, chunking=WORDS)
    server.core.ingesting.add_file(LOCAL_CALLER, BANK, new, FIRST)


def run_due(server: Server, duration: timedelta) -> bool:
    """Do the insertions that are due; return whether there are any."""
    jobs = server.core.cleaning.due(lambda kind: kind == "ingest_document")
    for job in jobs:
        server.core.cleaning.run_for(job, duration)
    return bool(jobs)


def work_off(world: World, server: Server) -> None:
    """Do all jobs, each when it is due."""
    idle = 0
    while idle < 5:
        jobs = server.core.cleaning.due()
        for job in jobs:
            server.core.cleaning.run_for(job, timedelta(hours=1))
        idle = 0 if jobs else idle + 1
        world.clock.advance(1_000)


def is_whole(server: Server) -> bool | None:
    """Return whether the new content is found wholly, False for the earlier one, None for parts of any."""
    try:
        found = texts_found(server)
        document = server.core.documents.get(LOCAL_CALLER, BANK, TIDE)
    except NotFound:
        return False
    if found == sorted(NEW) and document.status == "completed":
        return True
    is_earlier = found == (sorted(OLD) if document.found_id else []) and document.chunks == len(found)
    return False if is_earlier else None


def texts_found(server: Server) -> list[str]:
    question = BankQuestion(" ".join((*OLD, *NEW)), None, "keyword", 1_000)
    hits = server.core.searching.search(LOCAL_CALLER, BANK, question, NO_PROVIDER_DATA)
    return sorted(hit.chunk.text for hit in hits)


@contextmanager
def over(make: Make, case: Case, fault: Fault | None = None) -> Iterator[tuple[World, Server, str]]:
    """Yield a world, a process, and a file to insert."""
    world = World(make(), case, fault)
    server = world.process()
    try:
        server.core.banks.register(LOCAL_CALLER, NewBank(BANK, "vector", "scripted"), NO_PROVIDER_DATA, FIRST)
        if not case.is_new:
            old = server.core.files.create(LOCAL_CALLER, "old", "text/plain", "assistants", [" ".join(OLD).encode()])
            add(server, old.file_id)
            run_due(server, timedelta(hours=1))
            work_off(world, server)
        new = server.core.files.create(LOCAL_CALLER, "new", "text/plain", "assistants", [" ".join(NEW).encode()])
        yield world, server, new.file_id
    finally:
        world.database.close()


# ---- folds and merges


BEFORE, ADDED = ("low", "water"), ("rising", "high", "slack")
FIVE_MINUTES_S, STEP_S = 300, 30


@pytest.fixture
def folding_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold each insertion, and merge two segments."""
    monkeypatch.setattr(folding, "FOLDED_FROM", 2)
    monkeypatch.setattr(folding, "ONE_IN", 1)
    monkeypatch.setattr(merging, "MERGED", 2)


@pytest.mark.usefixtures("folding_early")
def test_a_death_at_any_call_of_a_fold_changes_no_answer_and_leaves_nothing_after_five_minutes(make: Make) -> None:
    with over_segment(make) as (world, server):
        world.faults.begin()
        insert_text(server, "tide", ADDED)
        world.faults.end()
        assert len(segments_of(server)) == 1, "nothing was folded and merged"
        calls = world.faults.calls
    assert {"write", "put"} < {call.verb for call in calls}
    for call, moment in product(calls, Moment):
        fault = Fault(call, moment, Blow.DEATH)
        with over_segment(make, fault) as (world, server):
            world.faults.begin()
            with suppress(ProcessDied):
                insert_text(server, "tide", ADDED)
            world.faults.end()
            assert world.faults.has_struck, str(fault)
            heir = world.process()
            answers = hits_of(heir)
            assert sorted(text for text, _ in answers) in (sorted(BEFORE), sorted(BEFORE + ADDED)), str(fault)
            for _ in range(0, FIVE_MINUTES_S, STEP_S):
                world.clock.advance(STEP_S)
                for job in heir.core.cleaning.due():
                    heir.core.cleaning.run_for(job, timedelta(hours=1))
            assert hits_of(world.process()) == answers, str(fault)
            assert world.leftovers(heir) == [], str(fault)
            assert segments_stored(world) == segments_of(heir), str(fault)


@contextmanager
def over_segment(make: Make, fault: Fault | None = None) -> Iterator[tuple[World, Server]]:
    """Yield a world, and a process, with a bank of one segment."""
    world = World(make(), Case(is_new=True, is_claiming=False), fault)
    server = world.process()
    try:
        server.core.banks.register(LOCAL_CALLER, NewBank(BANK, "vector", "scripted"), NO_PROVIDER_DATA, FIRST)
        insert_text(server, "ebb", BEFORE)
        yield world, server
    finally:
        world.database.close()


def insert_text(server: Server, document_id: str, texts: tuple[str, ...]) -> None:
    given = [GivenChunk(text, {}, document_id) for text in texts]
    server.core.inserting.insert_chunks(LOCAL_CALLER, BANK, given, NO_PROVIDER_DATA, FIRST)


def hits_of(server: Server) -> list[tuple[str, float]]:
    question = BankQuestion(" ".join(BEFORE + ADDED), None, "keyword", 100)
    hits = server.core.searching.search(LOCAL_CALLER, BANK, question, NO_PROVIDER_DATA)
    return [(hit.chunk.text, round(hit.score, 6)) for hit in hits]


def segments_of(server: Server) -> set[str]:
    """Return the names of the segments that the bank lists."""
    return {segment.name for segment in manifest_of(server).segments}


def segments_stored(world: World) -> set[str]:
    return {record.key.sk.split(":")[1] for record in world.database.records() if record.key.sk.startswith("seg:")}
