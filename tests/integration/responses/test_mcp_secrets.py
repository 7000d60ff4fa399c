"""Secrets of MCP servers, over both stores: outside of the turn's body, and dropped however the turn ends.

Covers: store/sessions/turn_records, dialects/openai/responses/tools
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.fakes.models.scripted import ScriptedReply
from tests.support.engine.either_store import DICE, Make
from tests.support.engine.harness import Held, Server, attempt
from tests.support.engine.responses import queued, read, responded, started
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import ModelFailed
from turnstone.domain.refs import TurnRef
from turnstone.domain.responses.addresses import response_id, turn_of
from turnstone.ports.records import Record
from turnstone.store.layout.keys import turn_key

SECRETS = ("key-of-the-birds", "token-of-the-birds", "key=hidden")
BIRDS: dict[str, Any] = {
    "type": "mcp",
    "server_label": "birds",
    "server_url": f"https://birds.example/mcp?{SECRETS[2]}",
    "headers": {"X-Key": SECRETS[0]},
    "authorization": SECRETS[1],
    "require_approval": "never",
}


def made(make: Make, *script: Any, **settings: Any) -> Server:
    server = make(*script, **settings)
    server.tools.offer({**DICE, "inline::birds": {"count": lambda _: "4"}})
    return server


def record_of(server: Server, ref: TurnRef) -> Record:
    record = server.records.get(turn_key(ref, ref.turn_id))
    assert record is not None
    return record


def found_in(content: object) -> list[str]:
    return [secret for secret in SECRETS if secret in str(content)]


def test_the_body_of_an_open_turn_has_no_secret(make: Make) -> None:
    """A large body is a payload, which is kept for a while when it is replaced."""
    held = Held("Four.")
    server = made(make, held)
    broadcast = started(server, tools=[BIRDS]).broadcast
    held.wait()
    record = record_of(server, broadcast.ref)
    assert found_in(record.body) == []
    assert found_in(record.attributes) == list(SECRETS)
    (own,) = server.state(broadcast.ref).own_toolgroups
    assert (own.label, own.uri) == ("birds", BIRDS["server_url"])
    assert own.headers == {"X-Key": SECRETS[0], "Authorization": f"Bearer {SECRETS[1]}"}
    held.open()
    server.drain(broadcast)
    assert found_in(record_of(server, broadcast.ref)) == []


@pytest.mark.parametrize("reply", ["Four.", ModelFailed("out of order"), ScriptedReply(("Fo",), is_cut_off=True)])
def test_an_ended_turn_has_no_secret(make: Make, reply: Any) -> None:
    server = made(make, reply)
    response = responded(server, tools=[BIRDS])
    assert response["status"] in ("completed", "failed", "incomplete")
    assert found_in(record_of(server, turn_of("local", response["id"]))) == []


def test_a_cancelled_turn_has_no_secret(make: Make) -> None:
    server = made(make, is_on_lambda=True)
    ref = queued(server, tools=[BIRDS]).ref
    assert found_in(record_of(server, ref).attributes) == list(SECRETS)
    server.core.responses.cancel(LOCAL_CALLER, response_id(ref), attempt())
    assert read(server, response_id(ref))["status"] == "cancelled"
    assert found_in(record_of(server, ref)) == []


def test_a_queued_turn_calls_the_server_with_its_secrets(make: Make) -> None:
    server = made(make, is_on_lambda=True)
    ref = queued(server, tools=[BIRDS]).ref
    worker = made(make, "Four.", is_on_lambda=True)
    worker.core.recovery.reconcile(ref)
    worker.settle()
    assert read(server, response_id(ref))["status"] == "completed"
    assert found_in(record_of(server, ref)) == []


def test_more_secrets_than_a_record_has_room_for_are_refused(make: Make) -> None:
    server = made(make)
    with pytest.raises(ValidationError, match="longer than 16384 bytes"):
        responded(server, tools=[{**BIRDS, "headers": {"X-Key": "k" * 16_384}}])
