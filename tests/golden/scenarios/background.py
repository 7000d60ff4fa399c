"""Turns in the background: the answer 202, the reads of the turn, a queue, and requests that are refused."""

from __future__ import annotations

from tests.golden.scenarios.registry import scenario
from tests.golden.world import World, from_user

PREFER = {"prefer": "respond-async"}


@scenario("tests/e2e/turns/test_background.py")
def accepted_in_the_background(world: World) -> None:
    world.serve()
    session = world.session()
    turn = world.turn(session, "hello", **PREFER).json()
    world.settle()
    world.get(turn["turn_url"])
    world.send("GET", turn["events_url"])
    world.turn(session, "again", idempotency_key="once", **PREFER)
    world.settle()
    world.turn(session, "again", idempotency_key="once", **PREFER)
    world.turn(session, "streamed", stream=True, **PREFER)
    world.turn(session, "whole", prefer="return=minimal; respond-async")
    world.send("POST", f"{session}/turn", {**from_user("wrong"), "documents": [{}]}, **PREFER)
    world.send("POST", f"{session[:-36]}none/turn", from_user("lost"), **PREFER)
    world.get(session)
