"""Sources over both stores: files become passages by jobs, which agents find while the source is attached.

Covers: services/letta/sources, services/letta/source_files, services/agents/passages, store/letta/jobs,
domain/letta/sources, dialects/letta/sources, dialects/letta/turns/jobs, bootstrap/services/letta/sources,
store/memory/banks, store/keys/banks, services/memory/documents/ingesting
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import ProcessDied, Server, StoreCall, attempt
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.dialects.letta.sources import CreateSource, UpdateSource
from turnstone.dialects.letta.turns.jobs import JobObject, job_of
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.archives import Passage, PassageQuery
from turnstone.domain.errors import Forbidden, IdempotencyMismatch, InvalidRequest, NotFound
from turnstone.domain.files.stored_files import FilesQuery
from turnstone.domain.letta.sources import (
    MOST_SOURCES,
    JobQuery,
    LettaJob,
    NewSourceFile,
    SourceQuery,
    sent_name,
    stored_name,
)
from turnstone.domain.memory.banks import Bank
from turnstone.domain.memory.documents import NewDocument, TextDocument
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Put
from turnstone.services.letta.source_files import FILE_LIVES_S
from turnstone.store.letta.agents import put_fields

TENANT = LOCAL_CALLER.tenant
LONG = "Knots probe the mud for clams and worms. " * 120
STRANGER = Caller(tenant="another", principal="stranger")
ANN, BOB = (Caller(tenant=TENANT, principal=name, teams=(name,)) for name in ("ann", "bob"))
EVE = Caller(tenant=TENANT, principal="eve", teams=("ann",))
ADMIN = Caller(tenant=TENANT, principal="root", roles=("admin",))
ALL = PassageQuery(1_000)


def begins_ingestion(called: StoreCall) -> bool:
    return any(isinstance(each, Put) and each.key.sk.startswith("ingest:") for each in called.operations)


def source(server: Server, name: str = "birds", caller: Caller = LOCAL_CALLER, by: Attempt | None = None) -> Bank:
    server.clock.advance(1)  # type: ignore[attr-defined] # else their order is random
    new = CreateSource.model_validate({"name": name, "metadata_": {"k": 1}}).to_new()
    return server.core.letta_sources.create(caller, new, by or attempt())


def agent(server: Server, caller: Caller = LOCAL_CALLER, **fields: Any) -> str:
    body = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}, **fields})
    return server.core.letta_agents.create(caller, body.to_new("Sam"), attempt()).agent_id


def upload(
    server: Server,
    source_id: str,
    text: str = LONG,
    caller: Caller = LOCAL_CALLER,
    by: Attempt | None = None,
    media_type: str = "text/plain",
) -> LettaJob:
    server.clock.advance(1)  # type: ignore[attr-defined]
    sent = NewSourceFile("folder/birds.txt", media_type, [text.encode()])
    return server.core.source_files.upload(caller, source_id, sent, by or attempt())


def work(server: Server) -> None:
    """Do the jobs that are due, with those that they begin."""
    while due := server.core.cleaning.due():
        for job in due:
            server.core.cleaning.run_for(job, timedelta(minutes=5))
        server.clock.advance(0.001)  # type: ignore[attr-defined]


def inserted(server: Server, source_id: str, text: str = LONG, caller: Caller = LOCAL_CALLER) -> JobObject:
    job = upload(server, source_id, text, caller)
    work(server)
    return read(server, job, caller)


def read(server: Server, job: LettaJob, caller: Caller = LOCAL_CALLER) -> JobObject:
    return job_of(server.core.source_files.job(caller, f"job-{job.listed.order}"))


def passages(server: Server, agent_id: str, query: PassageQuery = ALL) -> tuple[Passage, ...]:
    return server.core.archives.list(TENANT, agent_id, query)


def ids(found: Any) -> list[str]:
    return [each.passage_id for each in found]


def jobs(server: Server, caller: Caller = LOCAL_CALLER, limit: int = 50, **query: Any) -> list[str]:
    return [job.listed.order for job in server.core.source_files.list_jobs(caller, JobQuery(limit, **query))]


def sources(server: Server, caller: Caller = LOCAL_CALLER, limit: int = 50, after: str | None = None) -> list[str]:
    return [bank.bank_id for bank in server.core.letta_sources.list(caller, SourceQuery(limit, after))]


def test_a_job_is_created_runs_and_counts_its_passages(make: Make) -> None:
    server = make()
    birds = source(server).bank_id
    job = upload(server, birds)
    begun = job_of(job)
    assert (begun.status, begun.completed_at) == ("created", None)
    assert begun.metadata_ == {"type": "embedding", "filename": "birds.txt", "source_id": birds}
    order = job.listed.order
    assert jobs(server) == jobs(server, is_active=True) == jobs(server, source_id=birds) == [order]
    assert jobs(server, source_id=source(server, "others").bank_id) == []
    work(server)
    ended = read(server, job)
    count = ended.metadata_["num_passages"]
    assert (ended.status, ended.metadata_["num_documents"]) == ("completed", 1)
    assert ended.completed_at is not None
    assert ended.completed_at > ended.created_at
    assert count > 3
    assert (jobs(server), jobs(server, is_active=True)) == ([order], [])
    assert len(server.core.letta_sources.list_passages(LOCAL_CALLER, birds, ALL)) == count


def test_an_upload_leaves_no_file_behind(make: Make) -> None:
    server = make()
    birds = source(server).bank_id
    inserted(server, birds)
    assert list(server.core.files.list(LOCAL_CALLER, FilesQuery())[1]) == []
    _, (document,) = server.core.source_files.list(LOCAL_CALLER, birds, SourceQuery(50))
    name, digits = str(document.filename).removesuffix(".txt").split("_")
    assert (name, len(digits), document.size_bytes) == ("birds", 32, len(LONG))


def test_an_upload_is_made_once_for_its_key(make: Make) -> None:
    server = make()
    birds, by = source(server).bank_id, attempt("same", key="k")
    first = upload(server, birds, by=by)
    assert upload(server, birds, by=by).listed == first.listed
    work(server)
    assert job_of(upload(server, birds, by=by)).status == "completed"
    with pytest.raises(IdempotencyMismatch):
        upload(server, birds, by=attempt("other", key="k"))
    assert jobs(server) == [first.listed.order]
    assert upload(server, birds).listed.order != first.listed.order


def test_an_upload_that_dies_before_its_document_is_continued_by_its_repetition(make: Make) -> None:
    server = make()
    birds, by = source(server).bank_id, attempt("same", key="k")
    dying = make()
    dying.store.before(begins_ingestion, dying.store.die)
    with pytest.raises(ProcessDied):
        upload(dying, birds, by=by)
    assert jobs(server) == []
    job = upload(server, birds, by=by)
    work(server)
    assert (read(server, job).status, jobs(server)) == ("completed", [job.listed.order])


def test_a_file_without_text_fails_with_its_reason(make: Make) -> None:
    server = make()
    birds = source(server).bank_id
    job = upload(server, birds, "\x00\x01\x02", media_type="application/zip")
    work(server)
    failed = read(server, job)
    assert failed.status == "failed"
    assert failed.metadata_["error"]
    assert failed.completed_at is not None
    assert list(server.core.files.list(LOCAL_CALLER, FilesQuery())[1]) == []


def test_an_attached_source_is_in_archival_memory_until_it_is_detached(make: Make) -> None:
    server = make()
    sam, birds = agent(server), source(server).bank_id
    count = inserted(server, birds).metadata_["num_passages"]
    assert (passages(server, sam), server.core.archives.count(TENANT, sam)) == ((), 0)
    assert server.core.letta_agents.attach_source(LOCAL_CALLER, sam, birds).bank_id == birds
    found = passages(server, sam)
    assert len(found) == server.core.archives.count(TENANT, sam) == count
    assert {each.source.bank_id for each in found if each.source} == {birds}
    assert " ".join(each.text for each in found).split() == LONG.split()
    hits = server.core.archives.search(TENANT, sam, "clams", slice(0, 2), NO_PROVIDER_DATA)
    assert set(ids(hits)) <= set(ids(found))
    assert len(hits) == 2
    later = inserted(server, birds, "Terns dive.").metadata_["num_passages"]
    assert len(passages(server, sam)) == count + later
    assert server.core.letta_agents.attach_source(LOCAL_CALLER, sam, birds).bank_id == birds
    assert [each.bank_id for each in server.core.letta_agents.read(LOCAL_CALLER, sam).sources] == [birds]
    server.core.letta_agents.detach_source(LOCAL_CALLER, sam, birds)
    assert (passages(server, sam), server.core.archives.count(TENANT, sam)) == ((), 0)
    assert server.core.archives.search(TENANT, sam, "clams", slice(0, 2), NO_PROVIDER_DATA) == ()
    assert server.core.letta_agents.detach_source(LOCAL_CALLER, sam, birds).bank_id == birds
    with pytest.raises(NotFound, match="source"):
        server.core.letta_agents.detach_source(LOCAL_CALLER, sam, "source-none")


def test_passages_of_sources_and_of_the_agent_are_listed_by_time_in_pages(make: Make) -> None:
    server = make()
    birds, fish = source(server, "birds").bank_id, source(server, "fish").bank_id
    sam = agent(server, source_ids=[birds, fish])

    def keep(text: str) -> None:
        server.clock.advance(1)  # type: ignore[attr-defined]
        server.core.archives.insert(TENANT, sam, text, None, NO_PROVIDER_DATA)

    keep("First.")
    inserted(server, fish, "Herrings swim. " * 200)
    keep("Second.")
    inserted(server, birds)
    keep("Third.")
    every = passages(server, sam)
    whole, texts = ids(every), [each.text for each in every]
    assert len(set(whole)) == len(whole) > 8
    assert [texts[0], texts[-1]] == ["First.", "Third."]
    middle = texts.index("Second.")
    assert all("Herrings" in text for text in texts[1:middle])
    assert all("Knots" in text for text in texts[middle + 1 : -1])
    for limit in (1, 3, len(whole)):
        forward: list[str] = []
        while page := ids(passages(server, sam, PassageQuery(limit, after=forward[-1] if forward else None))):
            forward += page
        assert forward == whole
        backward: list[str] = [whole[-1]]
        while page := ids(passages(server, sam, PassageQuery(limit, before=backward[0]))):
            backward[:0] = page
        assert backward == whole
    assert ids(passages(server, sam, PassageQuery(9, after=whole[1], before=whole[4]))) == whole[2:4]
    assert server.core.archives.count(TENANT, sam) == len(whole)


def test_a_page_costs_the_same_in_a_source_of_any_size(make: Make) -> None:
    server = make()
    few, many = source(server, "few").bank_id, source(server, "many").bank_id
    inserted(server, few)
    for _ in range(12):
        inserted(server, many, LONG * 8)

    def calls(act: Callable[[], object]) -> int:
        act()  # loads the segments
        before = len(server.store.calls)
        act()
        return len(server.store.calls) - before

    def costs(source_id: str) -> list[int]:
        return [
            calls(lambda: server.core.letta_sources.list_passages(LOCAL_CALLER, source_id, PassageQuery(2))),
            calls(lambda: server.core.source_files.list(LOCAL_CALLER, source_id, SourceQuery(1))),
            calls(lambda: jobs(server, limit=1)),
            calls(lambda: sources(server, limit=1)),
        ]

    assert costs(few) == costs(many)
    assert len(server.core.letta_sources.list_passages(LOCAL_CALLER, many, ALL)) > 300


def test_a_cursor_of_another_source_is_missing_and_a_passage_of_a_source_stays(make: Make) -> None:
    server = make()
    birds, others = source(server).bank_id, source(server).bank_id
    sam, eve = agent(server, source_ids=[birds]), agent(server)
    inserted(server, birds)
    inserted(server, others)
    passage_id = ids(passages(server, sam))[0]
    (foreign, *_) = ids(server.core.letta_sources.list_passages(LOCAL_CALLER, others, ALL))
    for text in (foreign, "none", f"{foreign[:-5]}zzzzz"):
        with pytest.raises(NotFound, match="passage"):
            passages(server, sam, PassageQuery(1, after=text))
    with pytest.raises(InvalidRequest, match="with its file"):
        server.core.archives.drop(TENANT, sam, passage_id)
    for agent_id, text in ((sam, foreign), (eve, passage_id)):
        with pytest.raises(NotFound, match="passage"):
            server.core.archives.drop(TENANT, agent_id, text)


def test_the_tool_finds_passages_of_attached_sources(make: Make) -> None:
    search: Scripted = call("archival_memory_search", "s", inner_thoughts="Hm.", query="clams", request_heartbeat=True)
    server = make(search, call("send_message", "t", inner_thoughts="Hm.", message="done"), is_on_lambda=False)
    birds = source(server).bank_id
    inserted(server, birds, "Knots eat clams.")
    sam = agent(server, source_ids=[birds])
    run = server.core.letta_runs.start(LOCAL_CALLER, sam, [UserMessage(content="hi")], {}, attempt())
    server.settle()
    steps = server.state(run.ref).turn.steps
    answers = [str(response.content) for step in steps for response in getattr(step, "tool_responses", ())]
    assert "Knots eat clams." in answers[0]


def test_files_are_listed_in_pages_and_deleted_with_their_passages(make: Make) -> None:
    server = make()
    birds = source(server).bank_id
    sam = agent(server, source_ids=[birds])
    first, second = (inserted(server, birds, f"Fact {number}.") for number in range(2))

    def files(limit: int = 50, after: str | None = None, of: str = birds) -> list[str]:
        return [
            each.document_id for each in server.core.source_files.list(LOCAL_CALLER, of, SourceQuery(limit, after))[1]
        ]

    names = files()
    assert [name.removeprefix("file-") for name in names] == [each.id.removeprefix("job-") for each in (first, second)]
    assert (files(1), files(1, names[0]), files(1, names[1])) == ([names[0]], [names[1]], [])
    with pytest.raises(NotFound, match="file"):
        files(after="file-none")
    server.core.source_files.delete(LOCAL_CALLER, birds, names[0])
    assert files() == [names[1]]
    assert [each.text for each in passages(server, sam)] == ["Fact 1."]
    with pytest.raises(NotFound, match="file"):
        server.core.source_files.delete(LOCAL_CALLER, birds, names[0])
    assert jobs(server) == [second.id.removeprefix("job-")]
    with pytest.raises(NotFound, match="job"):
        server.core.source_files.job(LOCAL_CALLER, first.id)


def test_a_deleted_job_is_cancelled_and_its_file_stays(make: Make) -> None:
    server = make()
    birds = source(server).bank_id
    job = upload(server, birds)
    deleted = job_of(server.core.source_files.delete_job(LOCAL_CALLER, f"job-{job.listed.order}"))
    assert (deleted.status, deleted.metadata_["error"]) == ("failed", "the insertion was cancelled")
    assert jobs(server) == []
    with pytest.raises(NotFound, match="job"):
        server.core.source_files.delete_job(LOCAL_CALLER, job.listed.order)
    work(server)
    assert server.core.letta_sources.list_passages(LOCAL_CALLER, birds, ALL) == ()
    assert list(server.core.files.list(LOCAL_CALLER, FilesQuery())[1]) == []
    assert len(server.core.source_files.list(LOCAL_CALLER, birds, SourceQuery(50))[1]) == 1


def test_sources_are_listed_named_changed_and_deleted(make: Make) -> None:
    server = make()
    first, second, third = (source(server, name) for name in ("a", "b", "a"))
    own = [each.bank_id for each in (first, second, third)]
    assert sources(server) == own
    assert (sources(server, limit=2), sources(server, after=own[1])) == (own[:2], own[2:])
    with pytest.raises(NotFound, match="source"):
        sources(server, after="source-none")
    named = server.core.letta_sources.named
    assert named(LOCAL_CALLER, "a").bank_id == own[0]
    changes = UpdateSource.model_validate({"name": "c:d|e", "description": "New.", "embedding_config": {"x": 1}})
    changed = server.core.letta_sources.change(LOCAL_CALLER, own[0], changes.to_changes())
    assert (changed.name, changed.description, changed.metadata) == ("c:d|e", "New.", {"k": 1})
    assert changed.source is not None
    assert (changed.source.embedding_config, changed.source.updated_at > first.created_at) == ({"x": 1}, True)
    assert (named(LOCAL_CALLER, "c:d|e").bank_id, named(LOCAL_CALLER, "a").bank_id) == (own[0], own[2])
    server.core.letta_sources.delete(LOCAL_CALLER, own[2])
    for missing in (lambda: named(LOCAL_CALLER, "a"), lambda: server.core.letta_sources.get(LOCAL_CALLER, own[2])):
        with pytest.raises(NotFound, match="source"):
            missing()
    assert sources(server) == own[:2]


def test_a_source_is_created_once_for_its_key(make: Make) -> None:
    server, by = make(), attempt("same", key="k")
    assert source(server, by=by).bank_id == source(server, by=by).bank_id
    assert len(sources(server)) == 1


def test_a_deleted_source_leaves_its_agents_and_nothing_in_the_store(make: Make) -> None:
    server = make()
    birds, fish = source(server).bank_id, source(server).bank_id
    sam = agent(server, source_ids=[birds, fish])
    ended = inserted(server, birds)
    upload(server, birds)
    server.core.letta_sources.delete(LOCAL_CALLER, birds)
    assert [each.bank_id for each in server.core.letta_agents.read(LOCAL_CALLER, sam).sources] == [fish]
    assert (passages(server, sam), jobs(server)) == ((), [])
    for act in (
        lambda: server.core.source_files.job(LOCAL_CALLER, ended.id),
        lambda: upload(server, birds),
        lambda: server.core.letta_agents.attach_source(LOCAL_CALLER, sam, birds),
        lambda: server.core.letta_sources.delete(LOCAL_CALLER, birds),
    ):
        with pytest.raises(NotFound):
            act()
    server.core.letta_agents.attach_source(LOCAL_CALLER, sam, source(server).bank_id)
    stored = server.core.letta_agents._deps.store.fields(TENANT, sam).source_ids
    assert birds not in stored
    assert len(stored) == 2
    work(server)
    server.clock.advance(FILE_LIVES_S)  # type: ignore[attr-defined] # where the insertion was removed before its job ran
    work(server)
    assert list(server.core.files.list(LOCAL_CALLER, FilesQuery())[1]) == []


def test_a_bank_that_is_no_source_is_none(make: Make) -> None:
    server = make()
    sam = agent(server)
    server.core.archives.insert(TENANT, sam, "Once.", None, NO_PROVIDER_DATA)
    name = f"archive-{sam}"
    assert sources(server) == []
    for act in (
        lambda: server.core.letta_sources.get(LOCAL_CALLER, name),
        lambda: server.core.letta_sources.delete(LOCAL_CALLER, name),
        lambda: server.core.letta_agents.attach_source(LOCAL_CALLER, sam, name),
        lambda: agent(server, source_ids=["source-none"]),
    ):
        with pytest.raises(NotFound, match="source"):
            act()


def test_a_document_of_another_api_is_a_passage_too(make: Make) -> None:
    server = make()
    birds = source(server).bank_id
    sam = agent(server, source_ids=[birds])
    given = [TextDocument(NewDocument("own name"), "Terns dive.")]
    server.core.documents.insert(LOCAL_CALLER, birds, given, NO_PROVIDER_DATA, attempt())
    assert [(each.text, each.file_id) for each in passages(server, sam)] == [("Terns dive.", "own name")]


def test_strangers_and_other_teams_see_no_source_file_or_job(make: Make) -> None:
    server = make()
    birds = source(server, "birds", ANN).bank_id
    job = upload(server, birds, caller=ANN)
    work(server)
    order = job.listed.order
    sam = {caller: agent(server, caller) for caller in (ANN, BOB)}
    for caller in (STRANGER, BOB):
        assert (sources(server, caller), jobs(server, caller)) == ([], [])
        for act in (
            lambda caller=caller: server.core.letta_sources.get(caller, birds),
            lambda caller=caller: server.core.letta_sources.named(caller, "birds"),
            lambda caller=caller: server.core.letta_sources.change(caller, birds, UpdateSource(name="x").to_changes()),
            lambda caller=caller: server.core.letta_sources.delete(caller, birds),
            lambda caller=caller: server.core.letta_sources.list_passages(caller, birds, ALL),
            lambda caller=caller: sources(server, caller, after=birds),
            lambda caller=caller: upload(server, birds, caller=caller),
            lambda caller=caller: server.core.source_files.list(caller, birds, SourceQuery(5)),
            lambda caller=caller: server.core.source_files.delete(caller, birds, f"file-{order}"),
            lambda caller=caller: server.core.source_files.job(caller, order),
            lambda caller=caller: server.core.source_files.delete_job(caller, order),
            lambda caller=caller: server.core.letta_agents.attach_source(caller, sam[BOB], birds),
            lambda caller=caller: agent(server, caller, source_ids=[birds]),
        ):
            with pytest.raises(NotFound):
                act()
    assert sources(server, EVE) == [birds]
    for forbidden in (
        lambda: server.core.letta_sources.change(EVE, birds, UpdateSource(name="x").to_changes()),
        lambda: server.core.letta_sources.delete(EVE, birds),
        lambda: server.core.source_files.delete_job(EVE, order),
        lambda: server.core.letta_agents.attach_source(EVE, sam[ANN], birds),
    ):
        with pytest.raises(Forbidden):
            forbidden()
    deleted = job_of(server.core.source_files.delete_job(ADMIN, order))
    assert (deleted.status, deleted.metadata_) == ("completed", {})


def test_an_agent_lends_its_sources_to_its_users_but_none_that_its_owner_may_not_see(make: Make) -> None:
    server = make()
    birds = source(server, "birds", ANN).bank_id
    inserted(server, birds, "Knots eat clams.", ANN)
    root = Caller(tenant=TENANT, principal="root", roles=("admin",), teams=("ann", "bob"))
    bobs, anns = agent(server, BOB), agent(server, ANN, source_ids=[birds])
    with pytest.raises(NotFound, match="source"):
        server.core.letta_agents.attach_source(root, bobs, birds)
    store = server.core.letta_agents._deps.store
    assert store.fields(TENANT, bobs).source_ids == ()
    server.store.write(
        [put_fields(TENANT, bobs, store.fields(TENANT, bobs).model_copy(update={"source_ids": (birds,)}))]
    )
    assert (passages(server, bobs), server.core.letta_agents.read(BOB, bobs).sources) == ((), ())
    assert server.core.letta_agents.attach_source(root, anns, birds).bank_id == birds
    assert [each.text for each in passages(server, anns)] == ["Knots eat clams."]


def test_an_agent_has_a_limited_number_of_sources(make: Make) -> None:
    server = make()
    every = [source(server, f"s{number}").bank_id for number in range(MOST_SOURCES + 1)]
    sam = agent(server, source_ids=every[:-1])
    with pytest.raises(InvalidRequest, match="at most 20 sources"):
        server.core.letta_agents.attach_source(LOCAL_CALLER, sam, every[-1])
    server.core.letta_sources.delete(LOCAL_CALLER, every[0])
    server.core.letta_agents.attach_source(LOCAL_CALLER, sam, every[-1])
    assert [each.bank_id for each in server.core.letta_agents.read(LOCAL_CALLER, sam).sources] == every[1:]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("birds.pdf", "birds_ab12.pdf"),
        ("a/b\\birds.tar.gz", "birds.tar_ab12.gz"),
        ("birds", "birds_ab12"),
        (".hidden", ".hidden_ab12"),
        ("a.long extension of words", "a.long extension of words_ab12"),
    ],
)
def test_a_stored_name_has_digits_before_its_extension(name: str, expected: str) -> None:
    assert stored_name(name, "ab-12") == expected
    assert sent_name(stored_name(name, "0" * 32)) == name.rpartition("\\")[2]
    assert len(stored_name("x" * 600 + ".txt", "0" * 32)) <= 512
