"""Queries of turns: cut to the length of a question, however long the messages are.

Covers: services/memory/turns/query_making
"""

from __future__ import annotations

import time

import pytest

from turnstone.domain.memory.questions import LONGEST_QUESTION
from turnstone.domain.messages.messages import UserMessage
from turnstone.services.memory.turns.query_making import LONGEST_QUERY, joined

SHORT_S = 1.0


@pytest.mark.parametrize("text", ["heron" * 1_000_000, " " * 5_000_000 + "heron", "heron " * 800_000, "鷺" * 2_000_000])
def test_a_query_of_long_messages_is_cut_to_the_length_of_a_question(text: str) -> None:
    begun = time.monotonic()
    query = joined((UserMessage(content=text),))
    assert 0 < len(query) <= LONGEST_QUESTION
    assert text.strip().startswith(query)
    assert time.monotonic() - begun < SHORT_S


def test_a_query_has_a_limit_of_tokens_too() -> None:
    assert len(joined((UserMessage(content="鷺" * LONGEST_QUESTION),))) == LONGEST_QUERY
