"""Any one call of any port fails, before or after its effect, with the process or without; nothing published is lost.

On either database: every published step is stored, once; every turn ends or waits; the session continues, and its
context follows from its turns; a confirmed deletion stays, and nothing of it is left in the end;
every record can be reached (`leftovers.py` names the exceptions).

Each run tries one failure at every third call, before or after its effect in turns; each night tries every failure at
every point. DynamoDB's double takes ten times as long. There each run fails some calls of the store, the only port that
differs, in every sixth scenario.

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
from tests.support.cases import NIGHTLY
from tests.support.engine.harness import ProcessDied

RECOVERIES = ("repeated", "reconciled", "a new turn")
CASES = [(scenario, port) for scenario, calls in SCENARIOS.items() for port in calls]
CallsOf = Callable[[Scenario], list[PortCall]]


def matrix(*kinds: str, ports: frozenset[str] = frozenset(PORTS)) -> list[Any]:
    """Return the parameters of a test: kind of database, scenario and port."""
    return [
        pytest.param(kind, scenario, port, id=f"{kind}-{scenario.__name__}-{port}")
        for kind in kinds
        for scenario, port in CASES
        if port in ports
    ]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("dynamodb", marks=NIGHTLY)])
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
    """Silence the log: dying processes write long tracebacks."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize(
    ("kind", "scenario", "port"),
    [*matrix("sqlite"), *matrix("dynamodb", ports=frozenset({"store"}))[::6]],
    indirect=["kind"],
    scope="module",
)
def test_a_failure_of_any_call_loses_nothing_published(
    make: Make, calls_of: CallsOf, kind: str, scenario: Scenario, port: str
) -> None:
    blows = one_blow_in_five if kind == "dynamodb" else one_blow_in_three_calls
    fail_each_call(make, calls_of(scenario), scenario, port, blows)


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("kind", "scenario", "port"), matrix(*KINDS), indirect=["kind"], scope="module")
def test_either_failure_of_any_call_loses_nothing_published(
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
                continue_after_a_failure(make, scenario, fault)
            else:
                recover_from_a_death(make, scenario, fault, next(recovery))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_no_port_is_called_that_the_matrix_does_not_fail(calls_of: CallsOf, scenario: Scenario) -> None:
    assert {call.port for call in calls_of(scenario)} == set(SCENARIOS[scenario])


def test_the_matrix_does_not_shrink() -> None:
    counted = [calls for ports in SCENARIOS.values() for calls in ports.values()]
    print(f"{len(SCENARIOS)} scenarios, {sum(counted)} calls, x 2 = {2 * sum(counted)} crash points on each database")
    assert (len(SCENARIOS), 2 * sum(counted)) >= (37, 1_320)
    assert {port for ports in SCENARIOS.values() for port in ports} == set(PORTS)


def every_blow(_: int) -> tuple[Blow, ...]:
    return tuple(Blow)


def one_blow_in_three_calls(point: int) -> tuple[Blow, ...]:
    """Return one of the failures to try at one point of every third call: before it and after it in turns."""
    third, rest = divmod(point // 2, 3)
    return (tuple(Blow)[third // 2 % 2],) if rest == 0 and point % 2 == third % 2 else ()


def one_blow_in_five(point: int) -> tuple[Blow, ...]:
    """Return one of the failures to try at every fifth point, before a call and after another in turns."""
    return (tuple(Blow)[point // 10 % 2],) if point % 5 == 0 else ()


def calls_without_failure(make: Make, scenario: Scenario) -> list[PortCall]:
    """Return the calls of the ports when nothing fails."""
    with over(make) as (world, client):
        scenario(world, client)
        world.faults.end()
        world.finish(world.process())
        world.assert_over()
        return world.faults.calls


def continue_after_a_failure(make: Make, scenario: Scenario, fault: Fault) -> None:
    with over(make, fault) as (world, client):
        scenario(world, client)
        assert world.faults.has_struck, str(fault)
        world.faults.end()
        world.assert_true()
        for process in world.living:
            process.pass_time()
        world.finish(world.process())
        world.assert_over()


def recover_from_a_death(make: Make, scenario: Scenario, fault: Fault, recovery: str) -> None:
    with over(make, fault) as (world, client):
        with suppress(ProcessDied):
            scenario(world, client)
        assert world.faults.has_struck, str(fault)
        world.faults.end()
        world.assert_true()
        heir = world.process()
        if recovery == "repeated":
            world.repeat(heir, client)
        world.clock.advance(LEASE_S)
        if recovery == "reconciled":
            world.queue.taken()  # the queue loses its messages
            heir.reconcile_open()
            world.assert_true()
        if recovery != "a new turn":
            world.finish(heir)
        world.send(heir, "plain again")
        world.assert_over()


@contextmanager
def over(make: Make, fault: Fault | None = None) -> Iterator[tuple[World, Client]]:
    world = World(make(), fault)
    try:
        yield world, world.client()
    finally:
        world.close()
