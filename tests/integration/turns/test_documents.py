"""Documents of a turn: seen by its model in that turn, whichever process continues it, and judged by its shields.

Covers: dialects/llama_stack/turns/documents, domain/turns/turn_settings, services/turns/opening, engine/shields
"""

from __future__ import annotations

from typing import Any

import pytest

from turnstone.dialects.llama_stack.turns.documents import documents_of
from turnstone.dialects.llama_stack.turns.requests import CreateTurn
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import Attachment
from turnstone.domain.values.content import Image, ImageItem, Url
from turnstone.services.turns.opening import refuse_large_documents

PICTURE = ImageItem(image=Image(data="aGk="))


def _only(content: Any, mime_type: str) -> TurnDocument:
    (document,) = documents_of([Attachment(content=content, mime_type=mime_type)])
    return document


@pytest.mark.parametrize("mime_type", ["text/plain", "Text/Markdown; charset=utf-8", "application/json", "text/html"])
def test_texts_are_kept_as_they_are(mime_type: str) -> None:
    assert _only("a <b>", mime_type).content == "a <b>"
    assert _only([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], mime_type).content == "a\nb"


def test_a_text_at_an_address_is_read_before_its_turn_is_opened() -> None:
    for uri in ("https://example.com/a.txt", "data:,a%20b"):
        document = _only({"uri": uri}, "Text/Plain; charset=utf-8")
        assert (document.content, document.address, document.mime_type) == ("", uri, "text/plain")


def test_images_are_shown_by_value_or_address() -> None:
    assert _only([PICTURE], "image/png").content == (PICTURE,)
    found = _only({"uri": "https://example.com/a.png"}, "image/png").content
    assert found == ImageItem(image=Image(url=Url(uri="https://example.com/a.png")))


@pytest.mark.parametrize(
    ("content", "mime_type", "refused", "field"),
    [
        ("x", "application/zip", Unsupported, "mime_type"),
        ("x", "", Unsupported, "mime_type"),
        ([PICTURE], "text/plain", InvalidRequest, "content"),
        ("aGk=", "image/png", InvalidRequest, "content"),
    ],
)
def test_other_documents_are_refused_by_their_field(
    content: Any, mime_type: str, refused: type[InvalidRequest], field: str
) -> None:
    with pytest.raises(refused) as raised:
        _only(content, mime_type)
    assert raised.value.location == ("documents", 0, field)


def test_documents_beside_tool_responses_are_refused() -> None:
    answer = {"role": "tool", "call_id": "c", "content": "x"}
    body = CreateTurn.model_validate({"messages": [answer], "documents": [{"content": "x", "mime_type": "text/plain"}]})
    with pytest.raises(InvalidRequest, match="continue a turn"):
        body.to_new_turn()


def test_documents_may_take_half_of_the_window() -> None:
    document = _only("x" * 3_960, "text/plain")
    refuse_large_documents([document], 2_000)
    with pytest.raises(InvalidRequest, match=r"half of the model's context window.*builtin::rag"):
        refuse_large_documents([document], 1_900)
