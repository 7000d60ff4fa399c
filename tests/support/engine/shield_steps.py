"""Steps of shields in the engine's journal, and their content."""

from __future__ import annotations

from tests.support.engine.turn_loop import (
    Engine,
)
from turnstone.domain.turns.events import StepStarted
from turnstone.domain.turns.turns import ShieldCallStep, TurnState

KEPT = ["S shield_call", "saved shield_call", "C shield_call"]
LEFT_TO_THE_CLOSE = ["S shield_call"]


def touchpoints(engine: Engine) -> list[object]:
    return [event.metadata.get("touchpoint") for event in engine.emitted if isinstance(event, StepStarted)]


def violations(state: TurnState) -> list[object]:
    return [step.violation for step in state.turn.steps if isinstance(step, ShieldCallStep)]
