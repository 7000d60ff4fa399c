"""The scenarios of the crash matrix without a crash: events, requests to models, tools and shields, and records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import shields
from tests.fakes.models.scripted import ScriptedInference, ScriptedTools
from tests.golden import product
from tests.golden.normal import Normaliser
from tests.golden.play import Scenario, left_in
from tests.golden.product import FakeClock
from tests.golden.records import Left, lines_of
from tests.golden.writing import body_lines
from tests.integration.crash_matrix import scenarios as matrix
from tests.integration.crash_matrix.databases import OPEN_SHARDS, Database, small_limits
from tests.integration.crash_matrix.world import World
from tests.support.engine.harness import Server

STANDS_FOR = "tests/integration/crash_matrix"
Line = tuple[str, str, bytes]


@dataclass
class Log:
    """The log of a scenario; each line has a heading, a sort key for concurrent lines, and a text."""

    lines: list[Line]
    left: Left

    def texts(self, constant: Collection[str]) -> tuple[str, str, set[str]]:
        normalise = Normaliser({}, constant)
        wire = "\n".join(self._wire_lines(normalise)) + "\n"
        return wire, "\n".join([*lines_of(self.left, normalise, OPEN_SHARDS), ""]), normalise.tokens

    def _wire_lines(self, normalise: Normaliser) -> Iterator[str]:
        for heading, _, text in in_order(self.lines):
            yield f"... {heading}"
            yield from body_lines(normalise(text.decode()).encode())


EVENT = "event of the turn"


def in_order(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines, concurrent ones sorted by tool call."""
    for is_concurrent, group in groupby(lines, key=lambda line: line[1] != ""):
        run = list(group)
        yield from sorted(run, key=lambda line: line[1]) if is_concurrent else run


def played(scenario: matrix.Scenario, database: Database, folder: Path, seed: int) -> Log:
    """Run a scenario without a fault."""
    lines: list[Line] = []
    with small_limits(), product.steadied(FakeClock(), seed), noted(lines):
        world = World(database)
        scenario(world, world.client())
        left = left_in(database, folder)
        values = list(lines)
        world.faults.end()
        world.finish(world.process())
        world.assert_over()
        for process in world._processes:
            process.core.leases.close()
    return Log(values, left)


@contextmanager
def noted(lines: list[Line]) -> Iterator[None]:
    """Log requests to models, tools and shields, and events of turns, within the block."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, describe in (
            (ScriptedInference, "stream", product.describe_model_request),
            (ScriptedTools, "invoke", product.describe_tool_call),
            (shields._Scripted, "judge", product.describe_shield_request),
        ):
            patch.setattr(owner, name, noting(getattr(owner, name), describe, lines))
        collect_events = Server.drain

        def collect(server: Server, broadcast: product.Broadcast) -> tuple[product.Event, ...]:
            events = collect_events(server, broadcast)
            lines.extend((EVENT, "", product.encode(event)) for event in events)
            return events

        patch.setattr(Server, "drain", collect)
        yield


def noting(method: Callable[..., Any], describe: Callable[..., Line], lines: list[Line]) -> Callable[..., Any]:
    def wrapped(*given: Any) -> Any:
        lines.append(describe(*given))
        return method(*given)

    return wrapped


def scenarios() -> Iterator[Scenario]:
    for scenario in matrix.SCENARIOS:
        yield Scenario(f"crash_matrix/{scenario.__name__}", unplayed, (STANDS_FOR,), play=partial(played, scenario))


def unplayed(_: object) -> None:
    """Do nothing: these scenarios run without a world."""
