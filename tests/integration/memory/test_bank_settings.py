"""Settings of memory banks: their expiry by last use, changes, and one namespace for all kinds.

Covers: services/memory/banks, store/memory/banks, services/cleanup/cleaning
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import AlreadyRegistered, Forbidden, NotFound
from turnstone.domain.memory.banks import NewBank
from turnstone.domain.memory.documents import NewDocument, TextDocument
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Range

BANK = "shore"
FIRST = Attempt(fingerprint="body")
HOUR = 3_600


def registered(server: Server, new: NewBank, caller: Caller = LOCAL_CALLER) -> str:
    server.core.banks.register(caller, new, NO_PROVIDER_DATA, FIRST)
    return server.core.banks.visible(caller, new.bank_id).content_id


def inserted(server: Server, text: str) -> None:
    server.core.documents.insert(LOCAL_CALLER, BANK, [TextDocument(NewDocument("a"), text)], NO_PROVIDER_DATA, FIRST)


def searched(server: Server) -> int:
    return len(server.core.searching.search(LOCAL_CALLER, BANK, BankQuestion("tern", None), NO_PROVIDER_DATA))


def passed(server: Server, seconds: float) -> None:
    """Let that time pass, and do the jobs that are due."""
    server.clock.advance(seconds)  # type: ignore[attr-defined] # in tests it is a fake
    for _ in range(9):
        for job in server.core.cleaning.due():
            server.core.cleaning.run_for(job, timedelta(hours=1))


def jobs_of(server: Server) -> int:
    server.clock.advance(100 * HOUR)  # type: ignore[attr-defined] # in tests it is a fake
    jobs = [job for job in server.core.cleaning.due() if job.kind == "end_bank"]
    server.clock.advance(-100 * HOUR)  # type: ignore[attr-defined] # in tests it is a fake
    return len(jobs)


def test_a_bank_that_is_not_used_expires_and_leaves_nothing(both: Make) -> None:
    server = both()
    content_id = registered(server, NewBank(BANK, "vector", "scripted", expires_after_s=10 * HOUR))
    inserted(server, "tern")
    for _ in range(4):
        passed(server, 8 * HOUR)
        assert searched(server) == 1, "it was used"
    server.clock.advance(11 * HOUR)  # type: ignore[attr-defined] # in tests it is a fake
    for use in (
        lambda: searched(server),
        lambda: inserted(server, "knot"),
        lambda: server.core.banks.get(LOCAL_CALLER, BANK),
    ):
        with pytest.raises(NotFound, match="memory bank 'shore' not found"):
            use()
    assert server.core.banks.list(LOCAL_CALLER) == ()
    for _ in range(4):
        passed(server, 180)
    assert server.records.range(Range(f"{LOCAL_CALLER.tenant}|bank:{content_id}")).records == ()
    assert server.records.range(Range(f"{LOCAL_CALLER.tenant}|banks")).records == ()


def test_uses_are_recorded_once_in_an_hour(make: Make) -> None:
    server = make()
    registered(server, NewBank(BANK, "vector", "scripted", expires_after_s=10 * HOUR))
    inserted(server, "tern")
    writes = 0
    original = server.store.write

    def counted(*arguments: object, **named: object) -> None:
        nonlocal writes
        writes += 1
        original(*arguments, **named)  # type: ignore[arg-type]

    server.store.write = counted  # type: ignore[method-assign]
    for _ in range(20):
        server.clock.advance(15 * 60)  # type: ignore[attr-defined] # in tests it is a fake
        searched(server)
    assert writes == 5


def test_an_expired_bank_is_registered_again_with_new_content(make: Make) -> None:
    server = make()
    new = NewBank(BANK, "vector", "scripted", expires_after_s=HOUR)
    first = registered(server, new)
    inserted(server, "tern")
    server.clock.advance(2 * HOUR)  # type: ignore[attr-defined] # in tests it is a fake
    assert registered(server, new) != first
    assert searched(server) == 0


def test_changed_settings_keep_the_content_and_one_job(both: Make) -> None:
    server = both()
    registered(server, NewBank(BANK, "vector", "scripted", expires_after_s=HOUR, metadata={"a": 1}))
    inserted(server, "tern")
    for hours in (3, 4, 5):
        changes = {"name": "Shore", "metadata": {"b": hours}, "expires_after_s": hours * HOUR}
        server.core.banks.update(LOCAL_CALLER, BANK, "vector", lambda bank, to=changes: bank.model_copy(update=to))  # type: ignore[misc]
    passed(server, 2 * HOUR)
    bank = server.core.banks.get(LOCAL_CALLER, BANK)
    assert (bank.name, bank.metadata, searched(server)) == ("Shore", {"b": 5}, 1)
    passed(server, 4 * HOUR)
    assert jobs_of(server) == 1
    server.core.banks.update(LOCAL_CALLER, BANK, None, lambda bank: bank.model_copy(update={"expires_after_s": None}))
    passed(server, 100 * HOUR)
    assert searched(server) == 1
    assert jobs_of(server) == 0


def test_only_the_owner_changes_a_bank(make: Make) -> None:
    server = make()
    registered(server, NewBank(BANK, "keyword"))
    teammate = Caller(tenant=LOCAL_CALLER.tenant, principal="b")
    for caller, refusal in ((teammate, Forbidden), (Caller(tenant="other", principal="b"), NotFound)):
        with pytest.raises(refusal):
            server.core.banks.update(caller, BANK, None, lambda bank: bank)


def test_banks_of_all_kinds_share_one_namespace(make: Make) -> None:
    server = make()
    registered(server, NewBank(BANK, "keyword"))
    with pytest.raises(AlreadyRegistered):
        registered(server, NewBank(BANK, "graph"))
    for act in (
        lambda: server.core.banks.get(LOCAL_CALLER, BANK, "vector"),
        lambda: server.core.banks.delete(LOCAL_CALLER, BANK, "vector"),
        lambda: searched(server),
    ):
        with pytest.raises(NotFound):
            act()
    assert server.core.banks.list(LOCAL_CALLER, "vector") == ()
    assert [bank.kind for bank in server.core.banks.list(LOCAL_CALLER)] == ["keyword"]
