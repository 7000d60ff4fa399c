"""A memory bank of a process under test: changes, searches, segments and jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.engine.harness import Server, StoreCall
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.memory.banks import BankRef, NewBank
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.questions import BankQuestion, Hit
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Range
from turnstone.store.memory.contents import BankChange, BankContents, Manifest

BANK = "shore"
FIRST = Attempt(fingerprint="body")


def registered(server: Server, bank: str = BANK, caller: Caller = LOCAL_CALLER) -> None:
    server.core.banks.register(caller, NewBank(bank, "vector", "scripted"), NO_PROVIDER_DATA, FIRST)


def inserted(server: Server, *texts: str, document_id: str = "", bank: str = BANK) -> None:
    given = [GivenChunk(text, {"of": document_id}, document_id) for text in texts]
    server.core.inserting.insert_chunks(LOCAL_CALLER, bank, given, NO_PROVIDER_DATA, FIRST)


def stored(server: Server, *changes: BankChange) -> None:
    server.core.memory_services.folding.store(ref_of(server), changes)


def found(server: Server, text: str, mode: Any = "hybrid", **more: Any) -> tuple[Hit, ...]:
    question = BankQuestion(text, None, mode, 50, **more)
    return server.core.searching.search(LOCAL_CALLER, BANK, question, NO_PROVIDER_DATA)


def ref_of(server: Server, bank: str = BANK) -> BankRef:
    return BankRef(LOCAL_CALLER.tenant, server.core.banks.visible(LOCAL_CALLER, bank).content_id, bank)


def contents_of(server: Server) -> BankContents:
    return BankContents(server.store)


def manifest_of(server: Server) -> Manifest:
    return contents_of(server).manifest(ref_of(server))


def lists_segments(call: StoreCall) -> bool:
    puts = [getattr(each, "attributes", {}) for each in call.operations]
    return call.verb == "write" and {"status": "active"} in puts


def done_jobs(server: Server) -> None:
    """Do all jobs, each when it is due."""
    for _ in range(20):
        server.clock.advance(180)  # type: ignore[attr-defined] # in tests it is a fake
        jobs = server.core.cleaning.due()
        if not jobs:
            return
        for job in jobs:
            server.core.cleaning.run_for(job, timedelta(hours=1))
    pytest.fail("the jobs have no end")


def segments_stored(server: Server) -> set[str]:
    ref = ref_of(server)
    records = server.records.range(Range(f"{ref.tenant}|bank:{ref.content_id}", start="seg:", end="seg:~")).records
    return {record.key.sk.split(":")[1] for record in records}
