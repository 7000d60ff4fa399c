"""The model server of both: answers by the user's message, each with a unique id, by which the peer stores them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from tests.fakes.models.openai_answers import Answer, HangUp, HttpAnswer, embeddings_answer, whole_answer
from tests.support.models.worded_model import answer_by_words

_numbers = count()


def answer_with_id(body: Mapping[str, Any]) -> Answer:
    """Return the answer by the user's message, with a unique id."""
    answer = answer_by_words(body)
    if isinstance(answer, HttpAnswer | HangUp):
        return answer
    own = {"id": f"chatcmpl-{next(_numbers)}"}
    if body.get("stream"):
        return tuple({**item, **own} if isinstance(item, Mapping) else item for item in answer)
    whole = whole_answer(tuple(answer)).body
    assert isinstance(whole, Mapping)
    return HttpAnswer(200, {**whole, **own})


def embeddings_with_dimensions(body: Mapping[str, Any]) -> HttpAnswer:
    """Return embeddings; the peer sends a null for an absent field."""
    return embeddings_answer({name: value for name, value in body.items() if value is not None})
