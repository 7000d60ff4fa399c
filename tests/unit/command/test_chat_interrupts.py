"""Ctrl-C is noticed though Python drops the interrupt that it raises.

Covers: functions/command/chat/interrupts
"""

import os
import signal
from collections.abc import Iterator

import pytest

from functions.command.chat.interrupts import Interrupts


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    before = signal.getsignal(signal.SIGINT)
    listening = Interrupts()
    listening.install()
    yield listening
    signal.signal(signal.SIGINT, before)


def test_a_swallowed_interrupt_is_raised_again(interrupts: Interrupts) -> None:
    before = interrupts.count
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupts.raise_since(before)


def test_an_interrupt_of_an_earlier_turn_ends_no_later_one(interrupts: Interrupts) -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    interrupts.raise_since(interrupts.count)
