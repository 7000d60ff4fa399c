"""Texts at addresses in a request: fetched by the guarded fetcher before anything is stored, within limits.

Covers: services/memory/turns/turn_texts, services/turns/opening, dialects/llama_stack/turns/documents,
  dialects/llama_stack/memory/documents
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.models.openai_answers import text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.fakes.web.web_server import HOST, WebAnswer, WebRequest, WebServer
from tests.support.documents.made import DOCX, PDF, docx_with, paragraph, pdf_with
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, attempt, completes_turn, opens_turn, turn_in
from tests.support.server.asgi_client import Served, served
from turnstone.adapters.extracting.extractor import DocumentExtractor
from turnstone.adapters.extracting.reading_process import ReadingProcesses
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, Overloaded
from turnstone.domain.memory.documents import SourceBody
from turnstone.domain.messages.messages import UserMessage, message_text
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import NewTurn, TurnStatus
from turnstone.services.memory.documents.document_sources import DocumentSources
from turnstone.services.memory.turns.turn_texts import TurnTexts

ADDRESS = "https://example.com/a.txt"


def on_the_web(request: WebRequest) -> WebAnswer:
    match request.path:
        case "/notes":
            return WebAnswer(200, "Öppet på måndag.".encode("latin-1"), "text/plain; charset=iso-8859-1")
        case "/page":
            return WebAnswer(200, b"<p>Hi</p>", "text/html")
        case "/binary":
            return WebAnswer(200, b"\x89PNG", "image/png")
        case "/paper":
            return WebAnswer(200, pdf_with("Closed on Sundays."), "application/pdf")
        case "/long":
            return WebAnswer(200, b"x" * 9_000_000, "text/plain")
    return WebAnswer(404, b"no", "text/plain")


class World:
    def __init__(self, model: ModelServer, web: WebServer, serving: Served) -> None:
        self.model, self.web, self.serving = model, web, serving

    def turn(self, *addresses: str) -> Any:
        return self.turn_with(*({"content": {"uri": each}, "mime_type": "text/plain"} for each in addresses))

    def turn_with(self, *documents: Any) -> Any:
        made = self.serving.client.post("/v1/agents", {"agent_config": {"model": "m", "instructions": ""}}).json()
        agent = f"/v1/agents/{made['agent_id']}"
        session = self.serving.client.post(f"{agent}/session", {"session_name": "s"}).json()["session_id"]
        body = {"messages": [{"role": "user", "content": "Hi"}], "documents": documents}
        return self.serving.client.post(f"{agent}/session/{session}/turn", body)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ModelServer(lambda _: text_answer("ok")) as model, WebServer(on_the_web) as web:
        folder = tmp_path_factory.mktemp("fetched")
        with served(folder, model_url=model.url, fetch_allow=f"{HOST}:{web.port}") as serving:
            yield World(model, web, serving)


def test_the_model_is_shown_the_text_at_an_address(world: World) -> None:
    answered = world.turn(f"{world.web.url}/notes", f"{world.web.url}/page")
    assert answered.status == 200, answered
    assert world.model.requests[-1]["messages"][-1]["content"] == "Hi\n\nÖppet på måndag.\n<p>Hi</p>"
    assert "måndag" not in str(answered.json()["input_messages"])


def test_the_model_is_shown_the_text_of_other_types(world: World) -> None:
    page = {"content": {"uri": "data:text/html,<h1>Hours</h1><p>Open on <b>Mondays</b>."}, "mime_type": "text/html"}
    docx = {"content": b64encode(docx_with(paragraph("Ring twice."))).decode(), "mime_type": DOCX}
    paper = {"content": {"uri": f"{world.web.url}/paper"}, "mime_type": PDF}
    answered = world.turn_with(page, docx, paper)
    assert answered.status == 200, answered
    shown = world.model.requests[-1]["messages"][-1]["content"]
    assert shown == "Hi\n\n# Hours\n\nOpen on Mondays.\nRing twice.\nClosed on Sundays."


def test_a_document_over_half_of_the_window_is_refused_with_the_alternative(world: World) -> None:
    long = {"content": b64encode(pdf_with(*["tern knot " * 1000] * 40)).decode(), "mime_type": PDF}
    answered = world.turn_with(long)
    (problem,) = answered.json()["error"]["detail"]["errors"]
    assert (answered.status, problem["loc"], "builtin::rag" in problem["msg"]) == (400, ["documents"], True)


def test_a_document_of_a_type_without_a_text_is_refused_by_name(world: World) -> None:
    answered = world.turn_with({"content": "UEs=", "mime_type": "application/zip"})
    (problem,) = answered.json()["error"]["detail"]["errors"]
    assert (answered.status, problem["loc"]) == (400, ["documents", 0, "mime_type"])


@pytest.mark.parametrize(
    ("path", "why"),
    [("/gone", "HTTP 404"), ("/binary", "no text"), ("/long", "longer than"), ("", "no public address")],
)
def test_an_address_without_a_usable_text_is_a_400_before_the_turn_is_opened(world: World, path: str, why: str) -> None:
    before = len(world.model.requests)
    address = f"{world.web.url}{path}" if path else "https://127.0.0.1/notes"
    answered = world.turn(f"{world.web.url}/notes", address)
    assert answered.status == 400, answered
    (problem,) = answered.json()["error"]["detail"]["errors"]
    assert (problem["loc"], why in problem["msg"]) == (["documents", 1, "content"], True), problem
    assert len(world.model.requests) == before


def bank_with(world: World, name: str, *contents: str, **more: str) -> Any:
    """Insert these texts into a new bank; return the answer."""
    bank = {"memory_bank_id": name, "params": {"memory_bank_type": "keyword"}}
    assert world.serving.client.post("/v1/memory-banks", bank).status == 200
    documents = [{"document_id": str(at), "content": each, **more} for at, each in enumerate(contents)]
    return world.serving.client.post("/v1/tool-runtime/rag-tool/insert", {"vector_db_id": name, "documents": documents})


def found_in(world: World, name: str, query: str) -> list[str]:
    answered = world.serving.client.post(f"/v1/memory-banks/{name}/query", {"query": query})
    return [chunk["content"] for chunk in answered.json()["chunks"]]


@pytest.mark.parametrize("more", [{}, {"mime_type": "text/plain"}])
def test_a_text_of_rag_that_is_an_address_stands_for_the_text_there(world: World, more: dict[str, str]) -> None:
    name = f"fetched-{len(more)}"
    contents = (f" {world.web.url}/notes\n", "data:text/plain;base64,VGVybnMgZGl2ZS4=")
    answered = bank_with(world, name, *contents, **more)
    assert answered.status == 200, answered
    assert found_in(world, name, "måndag") == ["Öppet på måndag."]
    assert found_in(world, name, "terns") == ["Terns dive."]


def test_a_text_of_rag_that_only_contains_an_address_is_kept(world: World) -> None:
    contents = (
        f"See {world.web.url}/notes",
        f"{world.web.url}/notes is in Swedish",
        "data: swedish, and more",
        "http://",
    )
    answered = bank_with(world, "kept", *contents)
    assert answered.status == 200, answered
    assert sorted(found_in(world, "kept", "notes")) == sorted(contents[:2])
    assert found_in(world, "kept", "data") == [contents[2]]


def test_an_address_in_rag_is_fetched_by_the_rules_of_every_address(world: World) -> None:
    answered = bank_with(world, "refused", "https://127.0.0.1/notes")
    (problem,) = answered.json()["error"]["detail"]["errors"]
    assert (answered.status, "no public address" in problem["msg"]) == (400, True), problem


class Web:
    """Answers each request at once, and keeps it."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def fetch(self, address: str, timeout_s: float, most_bytes: int) -> SourceBody:
        self.requests.append(address)
        return SourceBody(f"text {len(self.requests)}".encode(), "text/plain", None)


def texts_of(web: Web) -> TurnTexts:
    return TurnTexts(DocumentSources(web.fetch, DocumentExtractor(ReadingProcesses()).extract, lambda: 0.0).read)


def at(*addresses: str | None) -> list[TurnDocument]:
    return [TurnDocument(content="" if address else "here", address=address) for address in addresses]


def test_texts_at_addresses_are_put_among_those_of_the_request(make: Make) -> None:
    found = texts_of(Web()).fetched({"documents": at(ADDRESS, None), "attachments": at(None, "data:,a%20b", ADDRESS)})
    assert [each.content for each in found["documents"]] == ["text 1", "here"]
    assert [each.content for each in found["attachments"]] == ["here", "a b", "text 2"]
    assert {each.address for each in (*found["documents"], *found["attachments"])} == {None}


@pytest.mark.parametrize(
    ("address", "mime_type"), [("ftp://example.com/a", "text/plain"), ("data:x", "text/plain"), (ADDRESS, "image/x")]
)
def test_an_unusable_address_is_refused_by_its_field_and_index(address: str, mime_type: str) -> None:
    given = (*at(None), TurnDocument(content="", address=address, mime_type=mime_type))
    with pytest.raises(InvalidRequest) as refused:
        texts_of(Web()).fetched({"documents": (), "attachments": given})
    assert refused.value.location[:2] == ("attachments", 1)
    assert str(refused.value).startswith("attachments.1.")


def test_a_text_is_fetched_once_for_a_turn_that_is_opened_in_the_second_try(make: Make) -> None:
    server, other = make("ok"), make("ok")
    web = Web()
    server.core.turn_memory_services.texts = texts_of(web)
    ref = server.session()
    server.store.before(opens_turn, lambda: other.whole_turn(ref))
    new = NewTurn(messages=(UserMessage(content="Hi"),), documents=(TurnDocument(content="", address=ADDRESS),))
    server.drain(server.turns.start(LOCAL_CALLER, ref, new, attempt()))
    assert len(server.states(ref)) == 2
    assert web.requests == [ADDRESS]


def test_nothing_is_fetched_without_a_slot(make: Make) -> None:
    server, web = make("ok", max_running_turns=1), Web()
    server.core.turn_memory_services.texts = texts_of(web)
    ref = server.session()
    new = NewTurn(messages=(UserMessage(content="Hi"),), documents=tuple(at(ADDRESS)))
    with server.core.executor.permit("other"), pytest.raises(Overloaded):
        server.turns.start(LOCAL_CALLER, ref, new, attempt())
    assert (server.states(ref), web.requests) == ([], [])


def test_a_process_that_takes_a_turn_over_shows_the_texts_that_were_fetched_for_it(make: Make) -> None:
    """Also a text that was read from a document, which the heir neither fetches nor reads again."""
    server, heir = make("ok"), make("ok")
    web, none = Web(), Web()
    server.core.turn_memory_services.texts = texts_of(web)
    heir.core.turn_memory_services.texts = texts_of(none)
    ref = server.session()
    paper = f"data:{PDF};base64,{b64encode(pdf_with('Closed on Sundays.')).decode()}"
    documents = (*at(ADDRESS, None), TurnDocument(content="", address=paper, mime_type=PDF))
    new = NewTurn(messages=(UserMessage(content="Hi"),), documents=documents)
    server.store.before(completes_turn, server.store.die)
    broadcast = server.turns.start(LOCAL_CALLER, ref, new, attempt())
    server.drain(broadcast)
    server.clock.advance(LEASE_S)  # type: ignore[attr-defined] # in tests it is a fake
    run = heir.core.recovery.reconcile(broadcast.ref).run
    assert run is not None
    turn_in(heir.drain(run))
    assert heir.states(ref)[0].status is TurnStatus.COMPLETED
    shown = [message_text(each.inference.requests[-1].messages[-1]) for each in (server, heir)]
    assert shown == ["Hi\ntext 1\nhere\nClosed on Sundays."] * 2
    assert (web.requests, none.requests) == ([ADDRESS], [])
