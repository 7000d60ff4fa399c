"""Equal insertions that another writer overtakes: their attributes never fall on content that is not theirs.

Covers: services/memory/documents/documents, services/memory/documents/ingesting
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server, call_number
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import NotFound
from turnstone.domain.memory.banks import BankKind, Chunking, NewBank
from turnstone.domain.memory.documents import Document, NewDocument, TextDocument
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt

BANK = "shore"
FIRST = Attempt(fingerprint="body")
OLD = '[{"subject": "tern", "relation": "eats", "object": "fish"}]'
NEW = '[{"subject": "knot", "relation": "eats", "object": "snail"}]'
LEAST_CALLS = 3
Act = Callable[[Server], object]


def opened(make: Make, kind: BankKind) -> Server:
    server = make()
    model = "scripted" if kind == "vector" else None
    server.core.banks.register(LOCAL_CALLER, NewBank(BANK, kind, model), NO_PROVIDER_DATA, FIRST)
    return server


def inserted(server: Server, text: str, document_id: str = "a", **attributes: Any) -> None:
    new = NewDocument(document_id, attributes, mime_type="application/json", chunking=Chunking(tokens=64, overlap=0))
    server.core.documents.insert(LOCAL_CALLER, BANK, [TextDocument(new, text)], NO_PROVIDER_DATA, FIRST)


def dropped(server: Server) -> None:
    server.core.documents.drop(LOCAL_CALLER, BANK, "a")


def replaced(server: Server) -> None:
    inserted(server, NEW, by="other")


def existing(server: Server) -> Document:
    return server.core.documents.get(LOCAL_CALLER, BANK, "a")


def shown(server: Server) -> Document | None:
    try:
        return existing(server)
    except NotFound:
        return None


@pytest.mark.parametrize("kind", ["vector", "keyvalue", "graph"])
@pytest.mark.parametrize("overtaking", [replaced, dropped], ids=["replaced", "dropped"])
def test_attributes_of_an_equal_insertion_fall_on_no_other_content(make: Make, kind: BankKind, overtaking: Act) -> None:
    slow, other = opened(make, kind), make()
    inserted(other, NEW)
    new_digest = existing(other).digest
    for number in count(1):
        inserted(other, OLD, by="first")
        overtaken: list[int] = []

        def overtake(overtaken: list[int] = overtaken, number: int = number) -> None:
            overtaking(other)
            overtaken.append(number)

        slow.store.before(call_number(len(slow.store.calls) + number), overtake)
        inserted(slow, OLD, by="slow")
        found = shown(other)
        if not overtaken:
            break
        is_other = found is None or found.digest == new_digest
        assert not is_other or found is None or found.attributes == {"by": "other"}, f"overtaken at call {number}"
    assert number > LEAST_CALLS
    assert existing(other).attributes == {"by": "slow"}


@pytest.mark.parametrize("overtaking", [replaced, dropped], ids=["replaced", "dropped"])
def test_attributes_of_an_equal_file_fall_on_no_other_content(make: Make, overtaking: Act) -> None:
    slow, other = opened(make, "vector"), make()
    file = slow.core.files.create(LOCAL_CALLER, "a.txt", "text/plain", "assistants", [b"terns eat fish"]).file_id

    def added(server: Server, **attributes: Any) -> None:
        server.core.ingesting.add_file(LOCAL_CALLER, BANK, NewDocument("a", attributes, file_id=file), FIRST)

    for number in count(1):
        added(other, by="first")
        overtaken: list[int] = []

        def overtake(overtaken: list[int] = overtaken, number: int = number) -> None:
            overtaking(other)
            overtaken.append(number)

        slow.store.before(call_number(len(slow.store.calls) + number), overtake)
        added(slow, by="slow")
        found = shown(other)
        if not overtaken:
            break
        assert found is None or found.file_id == file or found.attributes == {"by": "other"}, f"at call {number}"
    assert number > LEAST_CALLS
