"""Ids of responses, conversations and items name their turn and session, and nothing else decodes.

Covers: domain/responses/addresses
"""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.domain.errors import NotFound
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.responses.addresses import (
    FIRST_INPUT,
    conversation_id,
    item_address,
    item_id,
    response_id,
    session_of,
    turn_of,
)

UUIDS = st.uuids().map(str)
NAMES = st.one_of(UUIDS, st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()), st.just("responses"))


@given(NAMES, NAMES, NAMES)
def test_a_response_id_names_its_turn(agent_id: str, session_id: str, turn_id: str) -> None:
    ref = TurnRef(tenant="t", agent_id=agent_id, session_id=session_id, turn_id=turn_id)
    assert turn_of("t", response_id(ref)) == ref


@given(NAMES, NAMES)
def test_a_conversation_id_names_its_session(agent_id: str, session_id: str) -> None:
    ref = SessionRef(tenant="t", agent_id=agent_id, session_id=session_id)
    assert session_of("t", conversation_id(ref)) == ref


@given(NAMES, NAMES, NAMES, st.data())
def test_an_id_that_differs_in_a_character_names_another_turn_or_none(
    a: str, s: str, t: str, data: st.DataObject
) -> None:
    ref = TurnRef(tenant="t", agent_id=a, session_id=s, turn_id=t)
    text = response_id(ref)
    at = data.draw(st.integers(0, len(text) - 1))
    other = text[:at] + data.draw(st.sampled_from("aZ0_-=.%")) + text[at + 1 :]
    try:
        assert (turn_of("t", other) == ref) == (other == text)
    except NotFound:
        assert other != text


@given(st.text(max_size=60))
def test_any_other_text_is_not_found(text: str) -> None:
    for read in (turn_of, session_of):
        with pytest.raises(NotFound):
            read("t", text)
        with pytest.raises(NotFound):
            read("t", f"resp_{text}==")


@given(st.uuids(), st.integers(0, 0xFFFF))
def test_an_item_id_names_turn_and_position(turn_id: UUID, position: int) -> None:
    address = item_address(item_id("msg", str(turn_id), position))
    assert address is not None
    assert (address.turn_id, address.position) == (str(turn_id), position)
    assert address.is_input == (position >= FIRST_INPUT)
    assert item_address(f"msg_{turn_id}") is None
