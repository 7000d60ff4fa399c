"""Any interleaving of clients, processes and clocks leaves every turn in the state that a simple model predicts.

Covers: services/turns/turns, services/turns/cancelling, services/turns/joining, services/turns/recovery
"""

import logging

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.engine.session_machine import SessionMachine

PARTS = 1
PARTS_AT_NIGHT = 4
STEPS_AT_LEAST = 2_500
RULES = {
    "start turn",
    "queue",
    "answer",
    "repeat",
    "answer wrongly",
    "open again",
    "let go",
    "reconcile",
    "hand over",
    "crash",
    "jump",
    "wait in vain",
    "answer too late",
    "cancel",
    "delete session",
    "delete agent",
    "request deleted",
    "clean up",
}
HOW = settings(
    max_examples=80,
    stateful_step_count=50,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Silence the log: dying processes write long tracebacks."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_in_any_order_of_events_every_turn_is_in_the_predicted_state(part: int) -> None:
    assert run(part) == RULES


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS_AT_NIGHT))
def test_with_a_fresh_seed_every_turn_is_in_the_predicted_state(part: int, fresh_seed: int) -> None:
    run(fresh_seed + part)  # a seed may happen to draw no event of a rare kind


def run(number: int) -> set[str]:
    """Run the machine with the seed, and return the kinds of events that came up."""

    @seed(number)
    class Part(SessionMachine):
        steps = 0
        kinds = set()

    run_state_machine_as_test(Part, settings=HOW)
    print(f"{Part.steps} steps of {len(Part.kinds)} kinds")
    assert Part.steps >= STEPS_AT_LEAST
    return Part.kinds
