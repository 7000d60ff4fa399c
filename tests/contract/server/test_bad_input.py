"""Invalid requests to every route: a true status, an envelope of the contract, no internal text, nothing stored.

`tests/support/server/body_shapes.py` defines the valid bodies a second time, apart from the models that parse them.

Covers: functions, http/request, http/route
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from functions.local.routes import ROUTES
from tests.support.cases import generated
from tests.support.server.asgi_client import Served, served
from tests.support.server.bad_requests import (
    JUNK,
    LITERALS,
    SUBSTITUTES,
    Case,
    World,
    cases,
    changed,
    named,
    slots_in,
    written,
)
from tests.support.server.valid_bodies import BODIES, UNREAD
from turnstone.http.route import Route

CASES = 2
CASES_AT_NIGHT = 2_000
TWELFTHS = 12


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """Serve one route's cases alone: objects made by those of another would be in every list."""
    with served(tmp_path) as serving:
        serving.server._jobs.close()  # the clean-up after deletions would change the store between two reads
        serving.server._ingest_jobs.close()  # and so would the insertion of files
        yield serving


WITH_BODIES = [route for route in ROUTES if BODIES.get((route.method, route.path), UNREAD).grade]


@pytest.mark.slow
@pytest.mark.parametrize("route", WITH_BODIES, ids=named)
def test_every_value_of_a_valid_body_is_checked(server: Served, route: Route) -> None:
    """Each position receives a twelfth of the values, the next position the next twelfth."""
    check_substitutes(World(server, route), route, [SUBSTITUTES[first::TWELFTHS] for first in range(TWELFTHS)])


@pytest.mark.nightly
@pytest.mark.parametrize("route", WITH_BODIES, ids=named)
def test_every_value_of_a_valid_body_is_checked_with_every_substitute(server: Served, route: Route) -> None:
    check_substitutes(World(server, route), route, [[*JUNK, *LITERALS]])


def check_substitutes(world: World, route: Route, substitutes: Sequence[Sequence[Any]]) -> None:
    """Change each position of each valid body; successive positions use successive lists of substitutes."""
    in_turn = cycle(substitutes)
    for valid in BODIES[route.method, route.path].valid:
        for where, _ in enumerate(slots_in({"body": valid})):
            for way, value in [("remove", None), ("wrap", None), *(("replace", value) for value in next(in_turn))]:
                body = written(changed(valid, [(where, way, value)]), in_ascii=where % 2 == 0)
                world.check(Case(body, odd_id=None, query=b"", headers=(), cut_at=0))


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_any_request_has_a_true_answer(server: Served, route: Route) -> None:
    check_cases(World(server, route), route, CASES)


@pytest.mark.nightly
@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_any_other_request_has_a_true_answer(server: Served, route: Route, fresh_seed: int) -> None:
    check_cases(World(server, route), route, CASES_AT_NIGHT, fresh_seed)


def check_cases(world: World, route: Route, count: int, seed: int | None = None) -> None:
    made = 0

    @generated(count, seed)
    @given(cases(route))
    def check(case: Case) -> None:
        nonlocal made
        made += 1
        world.check(case)

    check()
    assert made >= count
