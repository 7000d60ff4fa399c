"""Insertions of files into a bank of a process under test: requests, runs of jobs, leftovers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.memory.banks import BankKind, BankRef, Chunking, NewBank
from turnstone.domain.memory.documents import Document
from turnstone.domain.models.requests import Embedded, EmbeddingRequest
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Range

BANK = "shore"
FIRST = Attempt(fingerprint="body")
WORDS = Chunking(tokens=1, overlap=0)


def opened(make: Make, kind: BankKind = "vector", **settings: Any) -> Server:
    server = make(**settings)
    model = "scripted" if kind == "vector" else None
    server.core.banks.register(LOCAL_CALLER, NewBank(BANK, kind, model), NO_PROVIDER_DATA, FIRST)
    return server


def uploaded(server: Server, content: bytes, name: str = "a.txt", caller: Caller = LOCAL_CALLER) -> str:
    return server.core.files.create(caller, name, "application/octet-stream", "assistants", [content]).file_id


def got(server: Server, document_id: str) -> Document:
    return server.core.documents.get(LOCAL_CALLER, BANK, document_id)


def run(server: Server, duration: timedelta = timedelta(hours=1)) -> None:
    """Do the insertions that are due, each once."""
    for job in server.core.cleaning.due(lambda kind: kind == "ingest_document"):
        server.core.cleaning.run_for(job, duration)


def ended(server: Server) -> None:
    """Do every job when it is due, the clean-ups included."""
    for _ in range(40):
        if jobs := server.core.cleaning.due():
            for job in jobs:
                server.core.cleaning.run_for(job, timedelta(hours=1))
        else:
            server.clock.advance(700)  # type: ignore[attr-defined] # in tests it is a fake
            if not server.core.cleaning.due():
                return
    pytest.fail("the jobs have no end")


def texts(server: Server, document_id: str) -> list[str]:
    return [chunk.text for chunk in server.core.documents.chunks(LOCAL_CALLER, BANK, document_id)]


def ref_of(server: Server) -> BankRef:
    return BankRef(LOCAL_CALLER.tenant, server.core.banks.visible(LOCAL_CALLER, BANK).content_id, BANK)


def left_of_insertions(server: Server) -> list[str]:
    ref = ref_of(server)
    records = server.records.range(Range(f"{ref.tenant}|bank:{ref.content_id}")).records
    return [record.key.sk for record in records if record.key.sk.startswith(("ingest:", "vectors:"))]


class Embeddings:
    """Makes vectors, and acts before each request."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        self.before: Callable[[], object] = lambda: None
        embeddings: Any = server.core.foundation.ports.embeddings
        self._embed = embeddings.embed
        monkeypatch.setattr(embeddings, "embed", self.embed)

    def embed(self, request: EmbeddingRequest) -> Embedded:
        self.before()
        self.texts += map(str, request.texts)
        made: Embedded = self._embed(request)
        return made


def failing(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail
