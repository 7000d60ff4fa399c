"""A session for readers of September 2024, with its memory bank.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.63.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from turnstone.dialects.json_objects import after_entries
from turnstone.dialects.llama_stack.memory.memory_banks import MemoryBank, memory_bank_of
from turnstone.dialects.llama_stack.turns.replies import LostTurns
from turnstone.dialects.llama_stack_2024.replies import Turn2024
from turnstone.domain.memory.banks import Bank
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.values.frozen import Frozen


class Session2024(Frozen):
    """A session for readers; its turns are written into it one by one."""

    session_id: str
    session_name: str
    turns: tuple[Turn2024, ...]
    started_at: str
    memory_bank: Annotated[MemoryBank | None, Field(exclude_if=lambda bank: bank is None)] = None
    lost_turns: LostTurns = ()


def session_tail_2024(session: Session, lost_turns: Sequence[str], bank: Bank | None) -> bytes:
    """Return the JSON of a session after the turns, with its bank if it has one."""
    tail: dict[str, Any] = {"started_at": session.started_at}
    if bank is not None:
        tail["memory_bank"] = memory_bank_of(bank).model_dump(mode="json")
    return after_entries({**tail, **({"lost_turns": lost_turns} if lost_turns else {})})
