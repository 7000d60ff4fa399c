"""Texts at addresses in a request: fetched by the guarded fetcher before its turn is opened, within limits.

Covers: adapters/fetching/document_texts, services/turns/opening, dialects/llama_stack/turns/documents
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.models.openai_answers import text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.fakes.web.web_server import HOST, WebAnswer, WebRequest, WebServer
from tests.support.engine.either_store import Make
from tests.support.engine.harness import attempt, opens_turn
from tests.support.server.asgi_client import Served, served
from turnstone.adapters.fetching import document_texts
from turnstone.adapters.fetching.document_texts import FETCHED_S, DocumentTexts
from turnstone.adapters.fetching.messages import Fetched, FetchRequest
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import FetchFailed, InvalidRequest
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import NewTurn

ADDRESS = "https://example.com/a.txt"


def on_the_web(request: WebRequest) -> WebAnswer:
    match request.path:
        case "/notes":
            return WebAnswer(200, "Öppet på måndag.".encode("latin-1"), "text/plain; charset=iso-8859-1")
        case "/page":
            return WebAnswer(200, b"<p>Hi</p>", "text/html")
        case "/photo":
            return WebAnswer(200, b"\x89PNG", "image/png")
        case "/long":
            return WebAnswer(200, b"x" * 9_000_000, "text/plain")
    return WebAnswer(404, b"no", "text/plain")


class World:
    def __init__(self, model: ModelServer, web: WebServer, serving: Served) -> None:
        self.model, self.web, self.serving = model, web, serving

    def turn(self, *addresses: str) -> Any:
        made = self.serving.client.post("/v1/agents", {"agent_config": {"model": "m", "instructions": ""}}).json()
        agent = f"/v1/agents/{made['agent_id']}"
        session = self.serving.client.post(f"{agent}/session", {"session_name": "s"}).json()["session_id"]
        documents = [{"content": {"uri": each}, "mime_type": "text/plain"} for each in addresses]
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


@pytest.mark.parametrize(
    ("path", "why"),
    [("/gone", "HTTP 404"), ("/photo", "image/png"), ("/long", "longer than"), ("", "no public address")],
)
def test_an_address_without_a_usable_text_is_a_400_before_the_turn_is_opened(world: World, path: str, why: str) -> None:
    before = len(world.model.requests)
    address = f"{world.web.url}{path}" if path else "https://127.0.0.1/notes"
    answered = world.turn(f"{world.web.url}/notes", address)
    assert answered.status == 400, answered
    (problem,) = answered.json()["error"]["detail"]["errors"]
    assert (problem["loc"], why in problem["msg"]) == (["documents", 1, "content"], True), problem
    assert len(world.model.requests) == before


class Web:
    """Answers each request after so many seconds of a clock of its own."""

    def __init__(self, takes_s: float = 0.0, text: str = "text") -> None:
        self.now_s, self._takes_s, self._text = 0.0, takes_s, text
        self.requests: list[FetchRequest] = []

    def fetch(self, request: FetchRequest) -> Fetched:
        self.requests.append(request)
        self.now_s += self._takes_s
        if self._takes_s > request.timeout_s:
            raise FetchFailed("https://example.com", "it took too long")
        return Fetched(200, "text/plain", None, self._text.encode(), request.url)


def at(*addresses: str) -> dict[str, list[TurnDocument]]:
    return {"attachments": [TurnDocument(content="", address=address) for address in addresses]}


def test_the_documents_of_a_request_share_one_limit_of_time_and_one_of_size(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Web(takes_s=FETCHED_S / 2)
    texts = DocumentTexts(slow, lambda: slow.now_s)
    assert [each.content for each in texts.fetched(at(ADDRESS, ADDRESS))["attachments"]] == ["text", "text"]
    with pytest.raises(InvalidRequest, match=r"attachments\.2\.content"):
        texts.fetched(at(*[ADDRESS] * 3))
    monkeypatch.setattr(document_texts, "FETCHED_BYTES", 6)
    web = Web(text="four")
    with pytest.raises(InvalidRequest, match=r"attachments\.2\.content.*6 bytes in all"):
        DocumentTexts(web, lambda: 0.0).fetched(at(*[ADDRESS] * 3))
    assert [request.max_bytes for request in web.requests] == [6, 2]


def test_a_text_is_fetched_once_for_a_turn_that_is_opened_in_the_second_try(make: Make) -> None:
    server, other = make("ok"), make("ok")
    web = Web()
    server.core.turn_services._document_texts = DocumentTexts(web)  # type: ignore[misc] # in place of the real one
    ref = server.session()
    server.store.before(opens_turn, lambda: other.whole_turn(ref))
    new = NewTurn(messages=(UserMessage(content="Hi"),), documents=(TurnDocument(content="", address=ADDRESS),))
    server.drain(server.turns.start(LOCAL_CALLER, ref, new, attempt()))
    assert len(server.states(ref)) == 2
    assert len(web.requests) == 1
