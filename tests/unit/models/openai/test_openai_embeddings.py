"""Embeddings of a server of OpenAI's API: its replies, well-formed and not.

Covers: adapters/models/openai/openai_embeddings
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnstone.adapters.models.openai.openai_embeddings import embedded_in
from turnstone.domain.errors import ModelFailed
from turnstone.domain.models.requests import Embedded


def answer(*entries: tuple[int, Any], **more: Any) -> bytes:
    return json.dumps({"data": [{"index": i, "embedding": vector} for i, vector in entries], **more}).encode()


def test_vectors_are_put_in_order_and_tokens_read_from_the_usage() -> None:
    body = answer((1, [3, 4]), (0, [1, 2.5]), usage={"prompt_tokens": 5})
    assert embedded_in(body, 2) == Embedded(((1.0, 2.5), (3.0, 4.0)), 5)
    assert embedded_in(answer((0, [1]), usage={"total_tokens": 6}), 1).tokens == 6
    assert embedded_in(answer((0, [1])), 1).tokens is None
    assert embedded_in(answer((0, [1]), usage={"prompt_tokens": 10**310, "total_tokens": 7}), 1).tokens == 7
    assert embedded_in(answer((0, [1]), usage={"prompt_tokens": float("inf"), "total_tokens": -1}), 1).tokens is None


@pytest.mark.parametrize(
    "body",
    [
        b"no JSON",
        b"[]",
        b'{"data": null}',
        b'{"data": [{"index": 0}]}',
        answer((0, [])),
        answer((0, "AAAA")),
        answer((0, "12")),
        answer((0, ["x"])),
        answer((0, [float("nan")])),
        answer((0, {"0": 1})),
        answer((1, [1])),
        answer((0, [1]), (0, [2])),
        answer((0, [1]), (1, [2])),
        b"[" * 100_000,
        b'{"data": [{"index": 1e999, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [%s]}]}' % (b"9" * 400),
        answer((0, [0] * 100_001)),
    ],
)
def test_a_reply_without_one_vector_for_each_text_is_a_failure(body: bytes) -> None:
    with pytest.raises(ModelFailed):
        embedded_in(body, 1)
