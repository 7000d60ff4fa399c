"""Any one call of any port fails, before its effect or after it, with the process or without; nothing told is lost.

On either database: what clients were told is there, once; every turn ends or waits; the session goes on, and its
context is what follows from its turns; what is told to be gone stays gone, and nothing is left of it in the end;
nothing lies about that nobody can reach (`leftovers.py` says what may be left).

Each run tries one failure at each point, in turns; each night tries every failure. DynamoDB's double takes ten times as
long. There each run fails the calls of the store alone, which is what differs, each before its effect or after it.

Covers: services, store, engine
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import cycle, product
from typing import Any

import pytest

from tests.integration.crash_matrix.client import Client
from tests.integration.crash_matrix.databases import KINDS, Make, small_limits
from tests.integration.crash_matrix.faults import PORTS, Blow, Fault, Moment, PortCall
from tests.integration.crash_matrix.processes import LEASE_S
from tests.integration.crash_matrix.scenarios import SCENARIOS, Scenario
from tests.integration.crash_matrix.world import World
from tests.support.engine.harness import ProcessDied

RECOVERIES = ("repeated", "attended to", "a new turn")
CASES = [(scenario, port) for scenario, calls in SCENARIOS.items() for port in calls]
CallsOf = Callable[[Scenario], list[PortCall]]


def matrix(*kinds: str, ports: frozenset[str] = frozenset(PORTS)) -> list[Any]:
    """Return what one test takes at a time: kind of database, scenario and port."""
    return [
        pytest.param(kind, scenario, port, id=f"{kind}-{scenario.__name__}-{port}")
        for kind in kinds
        for scenario, port in CASES
        if port in ports
    ]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def make(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    with KINDS[kind](tmp_path_factory.mktemp("matrix")) as made, small_limits():
        yield made


@pytest.fixture(scope="module")
def calls_of(make: Make) -> CallsOf:
    """Count the calls of each scenario once, not for each of its ports."""

    @cache
    def counted(scenario: Scenario) -> list[PortCall]:
        return calls_without_failure(make, scenario)

    return counted


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Processes die with long last words."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize(
    ("kind", "scenario", "port"),
    [*matrix("sqlite"), *matrix("dynamodb", ports=frozenset({"store"}))],
    indirect=["kind"],
    scope="module",
)
def test_a_failure_of_any_call_loses_nothing_told(
    make: Make, calls_of: CallsOf, kind: str, scenario: Scenario, port: str
) -> None:
    fail_each_call(make, calls_of(scenario), scenario, port, blow_of_two_points if kind == "dynamodb" else blow_in_turn)


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("kind", "scenario", "port"), matrix(*KINDS), indirect=["kind"], scope="module")
def test_either_failure_of_any_call_loses_nothing_told(
    make: Make, calls_of: CallsOf, scenario: Scenario, port: str
) -> None:
    fail_each_call(make, calls_of(scenario), scenario, port, every_blow)


def fail_each_call(
    make: Make, calls: list[PortCall], scenario: Scenario, port: str, blows: Callable[[int], tuple[Blow, ...]]
) -> None:
    found = [call for call in calls if call.port == port]
    assert len(found) >= SCENARIOS[scenario][port]
    print(f"{scenario.__name__}: {len(found)} calls of {port} x 2 = {2 * len(found)} crash points")
    recovery = cycle(RECOVERIES)
    for number, (call, moment) in enumerate(product(found, Moment)):
        for blow in blows(number):
            fault = Fault(call, moment, blow)
            if blow is Blow.ERROR:
                went_on_after_a_failure(make, scenario, fault)
            else:
                recovered_from_a_death(make, scenario, fault, next(recovery))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_no_port_is_called_that_the_matrix_does_not_fail(calls_of: CallsOf, scenario: Scenario) -> None:
    assert {call.port for call in calls_of(scenario)} == set(SCENARIOS[scenario])


def test_the_matrix_does_not_shrink() -> None:
    counted = [calls for ports in SCENARIOS.values() for calls in ports.values()]
    print(f"{len(SCENARIOS)} scenarios, {sum(counted)} calls, x 2 = {2 * sum(counted)} crash points on each database")
    assert (len(SCENARIOS), 2 * sum(counted)) >= (24, 814)
    assert {port for ports in SCENARIOS.values() for port in ports} == set(PORTS)


def every_blow(_: int) -> tuple[Blow, ...]:
    return tuple(Blow)


def blow_in_turn(point: int) -> tuple[Blow, ...]:
    """Return one of the failures to try at the point, in turns.

    Points come in pairs, before and after a call, so that the turns change with every pair.
    """
    return (tuple(Blow)[(point + point // 2) % 2],)


def blow_of_two_points(point: int) -> tuple[Blow, ...]:
    """Return one of the failures to try at one point of each call: before it and after it in turns, as are failures."""
    call = point // 2
    return (tuple(Blow)[call // 2 % 2],) if point % 2 == call % 2 else ()


def calls_without_failure(make: Make, scenario: Scenario) -> list[PortCall]:
    """Return the calls of the ports when nothing fails."""
    with over(make) as (world, client):
        scenario(world, client)
        world.faults.end()
        world.finish(world.process())
        world.assert_over()
        return world.faults.calls


def went_on_after_a_failure(make: Make, scenario: Scenario, fault: Fault) -> None:
    with over(make, fault) as (world, client):
        scenario(world, client)
        assert world.faults.has_struck, str(fault)
        world.faults.end()
        world.assert_true()
        for process in world.living:
            process.go_on()
        world.finish(world.process())
        world.assert_over()


def recovered_from_a_death(make: Make, scenario: Scenario, fault: Fault, recovery: str) -> None:
    with over(make, fault) as (world, client):
        with suppress(ProcessDied):
            scenario(world, client)
        assert world.faults.has_struck, str(fault)
        world.faults.end()
        world.assert_true()
        heir = world.process()
        if recovery == "repeated":
            client.repeat(heir)
        world.clock.advance(LEASE_S)
        if recovery == "attended to":
            world.queue.taken()  # the queue loses what it has
            heir.attend_open()
            world.assert_true()
        if recovery != "a new turn":
            world.finish(heir)
        world.say(heir, "plain again")
        world.assert_over()


@contextmanager
def over(make: Make, fault: Fault | None = None) -> Iterator[tuple[World, Client]]:
    world = World(make(), fault)
    try:
        yield world, world.client()
    finally:
        world.close()
