"""Any one call of any port fails, before its effect or after it, with the process or without; nothing told is lost.

On either database: what clients were told is there, once; every turn ends or waits; the session goes on, and its
context is what follows from its turns; nothing lies about that nobody can reach (`leftovers.py` says what may be left).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, product

import pytest

from tests.harness import ProcessDied
from tests.integration.crash_matrix.databases import KINDS, Make
from tests.integration.crash_matrix.faults import PORTS, Blow, Fault, Moment, PortCall
from tests.integration.crash_matrix.processes import LEASE_S
from tests.integration.crash_matrix.scenarios import SCENARIOS, Scenario
from tests.integration.crash_matrix.world import Client, World
from turnstone.store import oversize

LARGE_FROM_BYTES = 2_000
RECOVERIES = ("repeated", "attended to", "a new turn")
CASES = [(scenario, port) for scenario, calls in SCENARIOS.items() for port in calls]


@pytest.fixture(scope="module", params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    with KINDS[request.param](tmp_path_factory.mktemp("matrix")) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(oversize, "RECORD_BYTES", LARGE_FROM_BYTES)
        yield made


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Processes die with long last words."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize(("scenario", "port"), CASES, ids=[f"{scenario.__name__}-{port}" for scenario, port in CASES])
def test_a_failure_of_any_call_loses_nothing_told(make: Make, scenario: Scenario, port: str) -> None:
    found = [call for call in calls_of(make, scenario) if call.port == port]
    assert len(found) >= SCENARIOS[scenario][port]
    print(f"{scenario.__name__}: {len(found)} calls of {port} x 2 = {2 * len(found)} crash points")
    recovery = cycle(RECOVERIES)
    for call, moment in product(found, Moment):
        went_on_after_a_failure(make, scenario, Fault(call, moment, Blow.ERROR))
        recovered_from_a_death(make, scenario, Fault(call, moment, Blow.DEATH), next(recovery))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_no_port_is_called_that_the_matrix_does_not_fail(make: Make, scenario: Scenario) -> None:
    assert {call.port for call in calls_of(make, scenario)} == set(SCENARIOS[scenario])


def test_the_matrix_does_not_shrink() -> None:
    counted = [calls for ports in SCENARIOS.values() for calls in ports.values()]
    print(f"{len(SCENARIOS)} scenarios, {sum(counted)} calls, x 2 = {2 * sum(counted)} crash points on each database")
    assert (len(SCENARIOS), 2 * sum(counted)) >= (11, 320)
    assert {port for ports in SCENARIOS.values() for port in ports} == set(PORTS)


def calls_of(make: Make, scenario: Scenario) -> list[PortCall]:
    """Return the calls of the ports when nothing fails."""
    with over(make) as (world, client):
        scenario(world, client)
        world.faults.end()
        client.finish(world.process())
        world.assert_over([client])
        return world.faults.calls


def went_on_after_a_failure(make: Make, scenario: Scenario, fault: Fault) -> None:
    with over(make, fault) as (world, client):
        scenario(world, client)
        assert world.faults.has_struck, str(fault)
        world.faults.end()
        world.assert_true([client])
        for process in world.living:
            process.go_on()
        client.finish(world.process())
        world.assert_over([client])


def recovered_from_a_death(make: Make, scenario: Scenario, fault: Fault, recovery: str) -> None:
    with over(make, fault) as (world, client):
        with suppress(ProcessDied):
            scenario(world, client)
        assert world.faults.has_struck, str(fault)
        world.faults.end()
        world.assert_true([client])
        heir = world.process()
        if recovery == "repeated":
            client.repeat(heir)
        world.clock.advance(LEASE_S)
        if recovery == "attended to":
            heir.attend_open()
            world.assert_true([client])
        if recovery != "a new turn":
            client.finish(heir)
        client.say(heir, "plain again")
        world.assert_over([client])


@contextmanager
def over(make: Make, fault: Fault | None = None) -> Iterator[tuple[World, Client]]:
    world = World(make(), fault)
    try:
        yield world, world.client()
    finally:
        world.close()
