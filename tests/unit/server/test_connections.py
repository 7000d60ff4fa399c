"""Connections: the order in which idle ones make room, the time that counts, and how many the descriptors suffice for.

Covers: functions/local/connections, functions/local/descriptors, functions/local/http_limits
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time

import pytest

from functions.local.connections import Connections, Phase
from functions.local.descriptors import RareWarning
from functions.local.http_limits import HttpLimits
from tests.support.server.servers import ROOT

LIMIT = 6
ROOM = """
import resource
from functions.local.descriptors import room_for_connections
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(room_for_connections({requested}, 64), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


class Fake:
    """A connection that notes its end."""

    def __init__(self, *, is_sending: bool = False) -> None:
        self.phase: Phase = {}
        self.sends = is_sending
        self.has_made_room = False
        self.timed_out = 0

    def is_sending(self) -> bool:
        return self.sends

    def check_pace(self) -> bool:
        return False

    def time_out(self) -> None:
        self.timed_out += 1

    def make_room(self) -> None:
        self.has_made_room = True


async def _order_of_leaving() -> list[int]:
    connections = Connections(HttpLimits(connections=LIMIT))
    fakes = [Fake(is_sending=number == 3) for number in range(LIMIT)]
    for fake in fakes:
        assert connections.admit(fake)
        connections._now_s += 1
    connections.move(fakes[0], connections.answered)
    connections.move(fakes[1], connections.bodies)
    connections.move(fakes[3], connections.kept)
    connections.move(fakes[4], connections.kept)
    connections.move(fakes[5], connections.leaving)
    order = []
    while connections.make_room():
        order += [number for number, fake in enumerate(fakes) if fake.has_made_room and number not in order]
    return order


def test_the_longest_idle_makes_room_and_an_answered_one_never_does() -> None:
    assert asyncio.run(_order_of_leaving()) == [5, 2, 4, 1]


async def _admitted(number: int) -> list[bool]:
    connections = Connections(HttpLimits(connections=LIMIT))
    fakes = [Fake() for _ in range(number)]
    admitted = []
    for fake in fakes:
        admitted.append(connections.admit(fake))
        if admitted[-1]:
            connections.move(fake, connections.answered)
    return admitted


def test_no_connection_is_admitted_beside_answered_ones_when_there_are_too_many() -> None:
    assert asyncio.run(_admitted(LIMIT + 2)) == [True] * LIMIT + [False] * 2


async def _timed_out(*, stands_still: bool) -> int:
    connections = Connections(HttpLimits(head_s=0.2))
    fake = Fake()
    connections.admit(fake)
    if stands_still:
        time.sleep(0.5)
        await asyncio.sleep(0.01)
    else:
        await asyncio.sleep(0.5)
    connections.leave(fake)
    return fake.timed_out


def test_time_in_which_the_process_stands_still_does_not_count() -> None:
    assert asyncio.run(_timed_out(stands_still=True)) == 0
    assert asyncio.run(_timed_out(stands_still=False)) > 0


@pytest.mark.parametrize(
    ("soft", "hard", "requested", "room"),
    [(256, 256, 4_096, "128 256"), (256, 9_000, 4_096, "4096 4736"), (1_024, 1_024, 100, "100 1024")],
)
def test_descriptors_are_raised_as_far_as_possible_and_shared(soft: int, hard: int, requested: int, room: str) -> None:
    code = ROOM.format(soft=soft, hard=hard, requested=requested)
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == room


def test_a_repeated_event_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    warning = RareWarning(logging.getLogger("often"), "%d times: %s")
    for _ in range(5):
        warning.count("why")
    now_s += 61
    warning.count("why")
    assert [record.getMessage() for record in caplog.records] == ["1 times: why", "5 times: why"]
