"""First requests that are sent again join the response that their first attempt began, over both stores.

Covers: store/responses/attempts, services/responses/responses, services/turns/turns
"""

from __future__ import annotations

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import Held, attempt
from tests.support.engine.responses import calls_of_store, live, queued, responded, started
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.turns.attempts import Attempt
from turnstone.store.responses.attempts import KEPT


def again(first: Attempt) -> Attempt:
    return first.model_copy(update={"is_retry": True})


def test_a_first_request_sent_again_joins_the_running_response(make: Make) -> None:
    held, first = Held("one"), attempt()
    server = make(held)
    running = started(server, first)
    held.wait()
    joined = started(server, again(first))
    held.open()
    server.drain(running.broadcast)
    assert joined.broadcast.ref == running.broadcast.ref
    assert joined.sent.model_dump() == running.sent.model_dump()
    assert len(server.inference.requests) == 1


def test_a_first_request_sent_again_gets_the_same_stream_after_its_end(make: Make) -> None:
    first, server = attempt(), make("one")
    events = live(started(server, first))
    server.settle()
    assert live(started(server, again(first))) == events
    other = make()
    assert live(started(other, again(first))) == events
    assert other.inference.requests == []


def test_equal_first_requests_are_two_responses_unless_they_are_sent_again(make: Make) -> None:
    server, first = make("one", "two"), attempt()
    ids = []
    for _ in range(2):
        server.clock.advance(1)
        ids.append(responded(server, first)["id"])
    assert len(set(ids)) == 2
    assert responded(server, again(first))["id"] == ids[1]
    assert len(server.inference.requests) == 2


def test_a_fork_sent_again_joins(make: Make) -> None:
    server, fork = make("one", "two", "fork"), attempt()
    first = responded(server)
    responded(server, previous_response_id=first["id"])
    forked = responded(server, fork, previous_response_id=first["id"])
    assert responded(server, again(fork), previous_response_id=first["id"]) == forked


def test_a_background_request_sent_again_joins(make: Make) -> None:
    server, first = make("one"), attempt()
    begun = queued(server, first)
    assert queued(server, again(first)).ref == begun.ref


@pytest.mark.parametrize("is_late", [False, True])
def test_a_retry_after_deletion_or_long_after_the_answer_begins_another(make: Make, *, is_late: bool) -> None:
    server, first = make("one", "two"), attempt()
    before = responded(server, first)
    if is_late:
        server.clock.advance(first.repeated_within_s + 1)
    else:
        server.core.responses.delete(LOCAL_CALLER, before["id"])
    after = responded(server, again(first))
    assert after["id"] != before["id"]
    assert len(server.inference.requests) == 2


def test_an_attempt_is_kept_for_an_hour(make: Make) -> None:
    server = make("one", "two")
    first = Attempt(fingerprint="f" * 32, repeated_within_s=KEPT.total_seconds() * 2)
    before = responded(server, first)
    server.clock.advance(KEPT.total_seconds() + 1)
    assert responded(server, again(first))["id"] != before["id"]


def test_other_tenants_join_nothing(make: Make) -> None:
    server, first = make("one", "two"), attempt()
    before = responded(server, first)
    other = LOCAL_CALLER.model_copy(update={"tenant": "other"})
    assert responded(server, again(first), caller=other)["id"] != before["id"]


def test_a_caller_without_access_to_the_response_joins_nothing(make: Make) -> None:
    server, first = make("one", "two"), attempt()
    ann, bob = (
        Caller(tenant="acme", principal=name, teams=(team,)) for name, team in (("ann", "red"), ("bob", "blue"))
    )
    before = responded(server, first, caller=ann)
    assert responded(server, again(first), caller=ann)["id"] == before["id"]
    assert responded(server, again(first), caller=bob)["id"] != before["id"]


def test_ordinary_requests_make_no_further_call_of_the_store(make: Make) -> None:
    server = make("one", "two")
    with calls_of_store(server) as calls:
        responded(server, is_read=False)
    assert not any(call.verb == "range" for call in calls)
    assert not any("attempt:" in key for call in calls for key in call.keys)
