"""Any interleaving of what clients, processes and clocks do leaves every turn where a simple model says it must be."""

import logging

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.integration.session_machine import SessionMachine

STEPS_AT_LEAST = 10_000
RULES = {"say", "answer", "repeat", "answer wrongly", "let go", "attend", "hand over", "crash", "jump"}
HOW = settings(
    max_examples=360,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
def test_whatever_happens_in_whatever_order_every_turn_is_where_it_must_be(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # processes die with long last words
    SessionMachine.steps = 0
    run_state_machine_as_test(SessionMachine, settings=HOW)
    print(f"{SessionMachine.steps} steps of {len(SessionMachine.kinds)} kinds")
    assert SessionMachine.kinds == RULES
    assert SessionMachine.steps >= STEPS_AT_LEAST
