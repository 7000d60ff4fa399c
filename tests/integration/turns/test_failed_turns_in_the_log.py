"""Each failed turn is one warning in the log, whichever process stores its end, with the reason and no message text.

Covers: services/turns/turn_failures, services/turns/recovery, edge/logs
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Harness, client_tool, serving
from turnstone.domain.errors import ModelFailed, ModelTimedOut
from turnstone.domain.refs import TurnRef
from turnstone.edge.logs import JsonLines
from turnstone.services.turns.recovery import MAX_TAKEOVERS

SECRET = "a word of the conversation"


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the warnings of failed turns as the log has them; no line may contain message text."""
    lines = [JsonLines().format(record) for record in caplog.records]
    assert not [line for line in lines if SECRET in line and "Traceback" not in line]
    return [line for line in map(json.loads, lines) if line["message"].startswith("turn failed")]


def about(ref: TurnRef, kind: str, **more: object) -> dict[str, object]:
    ids = {"tenant": ref.tenant, "agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": ref.turn_id}
    named = {"level": "WARNING", "logger": "turnstone.services.turns.turn_failures", "message": f"turn failed: {kind}"}
    return {**named, "kind": kind, **ids, **more}


def without_time(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "timestamp"}


FAILURES: list[tuple[Any, str, dict[str, object]]] = [
    (ModelFailed(SECRET, status=500), "model_failed", {"error": "ModelFailed", "provider_status": 500}),
    (
        ModelFailed(SECRET, status=400, code="ValidationException"),
        "model_failed",
        {"error": "ModelFailed", "provider_status": 400, "provider_code": "ValidationException"},
    ),
    (ModelTimedOut(SECRET), "model_timed_out", {"error": "ModelTimedOut"}),
    (RuntimeError("a bug"), "internal", {"error": "RuntimeError"}),
]


@pytest.mark.parametrize(("error", "kind", "more"), FAILURES, ids=[str(kind) for _, kind, _ in FAILURES])
def test_a_turn_that_fails_while_it_runs(
    make: Make, caplog: pytest.LogCaptureFixture, error: BaseException, kind: str, more: dict[str, object]
) -> None:
    caplog.set_level(logging.DEBUG)
    server = make(ScriptedReply(error=error))
    broadcast = server.start(server.session(), SECRET)
    server.drain(broadcast)
    server.settle()
    assert [without_time(line) for line in warnings_in(caplog)] == [about(broadcast.ref, kind, **more)]


def test_model_requests_of_a_turn_carry_its_ids_for_the_log(make: Make) -> None:
    server = make("ok")
    broadcast = server.start(server.session(), SECRET)
    server.drain(broadcast)
    ref = broadcast.ref
    assert [request.about for request in server.inference.requests] == [
        {"tenant": ref.tenant, "agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": ref.turn_id}
    ]


def test_a_turn_that_ends_well_waits_or_is_cancelled_is_no_warning(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = make("ok", "ok")
    server.whole_turn(server.session(), SECRET)
    server.whole_turn(server.session(client_tools=(client_tool(),)), SECRET)
    assert warnings_in(caplog) == []


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    yield from serving(tmp_path)


@pytest.fixture
def dead(serve: Callable[..., Harness]) -> tuple[Harness, TurnRef]:
    """A turn whose process died while its model thought, and that process."""
    server = serve([lambda _: server.store.die()])
    broadcast = server.start(server.session(), SECRET)
    server.drain(broadcast)
    server.clock.advance(LEASE_S)
    return server, broadcast.ref


def test_a_turn_whose_process_died_and_that_a_new_one_supersedes(
    dead: tuple[Harness, TurnRef], caplog: pytest.LogCaptureFixture
) -> None:
    server, turn = dead
    caplog.clear()
    server.another(["ok"]).whole_turn(turn)
    assert [without_time(line) for line in warnings_in(caplog)] == [about(turn, "ended", cause="process gone")]


def test_a_turn_that_every_process_abandons(dead: tuple[Harness, TurnRef], caplog: pytest.LogCaptureFixture) -> None:
    server, turn = dead
    caplog.clear()
    for _ in range(MAX_TAKEOVERS):
        heir = server.another([lambda _, at=(heirs := []): at[0].store.die()])
        heirs.append(heir)
        heir.reconcile_open()
        heir.settle()
        server.clock.advance(LEASE_S)
    last = server.another(["ok"])
    last.reconcile_open()
    last.reconcile_open()
    assert [without_time(line) for line in warnings_in(caplog)] == [about(turn, "ended", cause="process gone")]
