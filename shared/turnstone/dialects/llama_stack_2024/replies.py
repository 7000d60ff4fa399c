"""Replies of the Agents API of September 2024: today's, with the fields of that time's clients next to them.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.40.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, computed_field

from turnstone.domain.turns.turns import (
    InferenceStep,
    MemoryRetrievalStep,
    ShieldCallStep,
    Step,
    ToolExecutionStep,
    Turn,
    TurnState,
)
from turnstone.domain.values.frozen import Frozen

RETRIEVAL = b'"memory_retrieval"'


class MemoryRetrieval2024(MemoryRetrievalStep):
    @computed_field
    def memory_bank_ids(self) -> tuple[str, ...]:
        """The same ids, one by one."""
        return tuple(filter(None, map(str.strip, self.vector_db_ids.split(","))))


Step2024 = Annotated[
    InferenceStep | ToolExecutionStep | ShieldCallStep | MemoryRetrieval2024, Field(discriminator="step_type")
]


class Turn2024(Turn):
    steps: tuple[Step2024, ...] = ()


class StepReply2024(Frozen):
    step: Step2024


def step_2024(step: Step) -> Step2024:
    return MemoryRetrieval2024.model_construct(**dict(step)) if isinstance(step, MemoryRetrievalStep) else step


def turn_2024(turn: Turn) -> Turn2024:
    return Turn2024.model_construct(**{**dict(turn), "steps": tuple(map(step_2024, turn.steps))})


def turn_wire(turn: Turn) -> bytes:
    """Return the turn as wire JSON."""
    return turn_2024(turn).model_dump_json().encode()


def state_wire(state: TurnState) -> bytes:
    """Return the turn of the state as wire JSON."""
    return turn_wire(state.turn)


def wire_2024(turn: bytes | Iterable[bytes]) -> bytes | Iterable[bytes]:
    """Return a turn in today's wire JSON as that time's; without retrieval both are the same.

    Reads the pieces of a large turn twice.
    """
    if isinstance(turn, bytes):
        return turn if RETRIEVAL not in turn else turn_wire(Turn.model_validate_json(turn))
    return turn if not _is_in(RETRIEVAL, turn) else turn_wire(Turn.model_validate_json(b"".join(turn)))


def _is_in(text: bytes, pieces: Iterable[bytes]) -> bool:
    end = b""
    for piece in pieces:
        if text in end + piece:
            return True
        end = piece[-len(text) :]
    return False
