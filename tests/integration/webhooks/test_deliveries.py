"""Events of turns are delivered at least once, by jobs, to the webhooks of their tenant that subscribe to them.

Covers: services/webhooks/webhooks, services/webhooks/sending, store/webhooks/webhooks, store/webhooks/deliveries,
store/webhooks/outbox, store/webhooks/reporting, store/keys/webhooks, domain/responses/webhook_events
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import timedelta
from hashlib import sha256
from hmac import digest
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.scripted import call
from tests.fakes.receiver import Received
from tests.support.engine.either_store import Make, made_over_sqlite
from tests.support.engine.harness import (
    AWAIT_S,
    CountingStore,
    Server,
    answer,
    attempt,
    client_tool,
    completes_turn,
    pauses_turn,
)
from tests.support.engine.webhooks import URL, create, deliveries, pass_time, receiver_of, run_due
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import FetchFailed, InvalidRequest, ModelFailed, NotFound
from turnstone.domain.lists import ListQuery
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.webhooks.webhooks import (
    KEPT,
    MAX_WEBHOOKS,
    MOST_TRIES,
    PAUSES,
    NewWebhook,
)

NOT_NOW = FetchFailed("https://hooks.example", "no connection")
STRANGER = Caller(tenant="other", principal="stranger")


def is_signed(request: Received, secret: str) -> bool:
    """Return whether one of the signatures is that of the secret, computed by the letter of the specification."""
    headers = request.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    expected = b64encode(digest(b64decode(secret.removeprefix("whsec_")), signed, sha256)).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split(" ")


def test_each_pause_and_end_of_a_turn_is_one_signed_event(make: Make) -> None:
    server = make(call("look", "l1"), "Done.", call("look", "l2"), ModelFailed("broken"))
    webhook, secret = create(server)
    ref = server.session(client_tools=[client_tool()])
    first = server.paused(ref)
    server.drain(server.resume(first, answer("l1")))
    second = server.paused(ref)
    pass_time(server, AWAIT_S + 1)
    server.core.recovery.reconcile(second)
    server.whole_turn(ref)
    run_due(server)

    receiver = receiver_of(server)
    types = ["turn.awaiting_input", "turn.completed", "turn.awaiting_input", "turn.expired", "turn.failed"]
    assert sorted(types) == sorted(receiver.types)
    assert all(is_signed(request, secret) for request in receiver.received)
    ids = {"agent_id": ref.agent_id, "session_id": ref.session_id}
    for request in receiver.received:
        event = request.event
        assert event["object"] == "event"
        assert event["id"] == request.headers["webhook-id"]
        assert ids.items() <= event["data"].items()
        assert set(event) == {"id", "object", "created_at", "type", "data"}
    assert len({request.event["id"] for request in receiver.received}) == len(types)
    turn_ids = {request.event["data"]["turn_id"] for request in receiver.received}
    assert turn_ids == {state.turn_id for state in server.states(ref)}
    assert {"delivered"} == {delivery.status for delivery in deliveries(server, webhook.webhook_id)}


def test_the_event_is_stored_with_the_turn_and_sent_by_another_process(make: Make) -> None:
    server = make("Done.")
    create(server, "turn.completed")
    ref = server.session()
    server.store.after(completes_turn, server.store.die)
    server.drain(server.start(ref))
    assert server.store.is_dead

    other = make()
    run_due(other)
    assert receiver_of(other).types == ["turn.completed"]


def test_an_unreachable_queue_does_not_fail_the_turn(make: Make) -> None:
    server = make("Done.")
    create(server, "turn.completed")
    server.jobs.is_down = True
    server.whole_turn(server.session())
    server.jobs.is_down = False
    pass_time(server, 360)
    assert receiver_of(server).types == ["turn.completed"]


def test_only_subscribed_types_are_sent(make: Make) -> None:
    server = make(call("look", "l1"), "Done.")
    create(server, "turn.completed")
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)
    assert not server.core.cleaning.due()
    server.drain(server.resume(turn, answer("l1")))
    run_due(server)
    assert receiver_of(server).types == ["turn.completed"]


def test_a_failed_delivery_is_tried_eight_times_within_a_day(make: Make) -> None:
    server = make("Done.")
    webhook, _ = create(server, "turn.completed")
    receiver = receiver_of(server, *[500, NOT_NOW] * 4)
    server.whole_turn(server.session())
    run_due(server)
    for number, pause in enumerate(PAUSES, start=1):
        assert len(receiver.received) == number
        pass_time(server, pause.total_seconds() - 1)
        assert len(receiver.received) == number
        pass_time(server, 2)
    assert len(receiver.received) == MOST_TRIES
    (delivery,) = deliveries(server, webhook.webhook_id)
    assert (delivery.status, delivery.tries_left, delivery.next_try_at) == ("failed", 0, None)
    assert [done.status for done in delivery.tries] == [500, None] * 4
    assert timedelta(hours=20) < sum(PAUSES, timedelta()) < timedelta(hours=26)
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1
    assert not server.core.cleaning.due()


def test_a_delivery_that_is_accepted_later_is_delivered(make: Make) -> None:
    server = make("Done.")
    webhook, secret = create(server, "turn.completed")
    receiver = receiver_of(server, 302, NOT_NOW, 204)
    server.whole_turn(server.session())
    run_due(server)
    pass_time(server, PAUSES[0].total_seconds())
    pass_time(server, PAUSES[1].total_seconds() + 1)
    (delivery,) = deliveries(server, webhook.webhook_id)
    assert delivery.status == "delivered"
    first, *_, last = receiver.received
    assert first.headers["webhook-timestamp"] != last.headers["webhook-timestamp"]
    assert is_signed(last, secret)


def test_410_disables_the_webhook_until_it_is_enabled(make: Make) -> None:
    server = make("Done.", "Done.", "Done.")
    webhook, _ = create(server, "turn.completed")
    receiver = receiver_of(server, 410)
    ref = server.session()
    server.whole_turn(ref)
    run_due(server)
    found = server.core.webhooks.get(LOCAL_CALLER, webhook.webhook_id)
    assert (found.status, found.disabled_reason) == ("disabled", "gone")
    server.whole_turn(ref)
    run_due(server)
    assert len(receiver.received) == 1
    with pytest.raises(InvalidRequest):
        server.core.webhooks.send_test(LOCAL_CALLER, webhook.webhook_id, attempt())
    enabled = server.core.webhooks.update(LOCAL_CALLER, webhook.webhook_id, {"status": "enabled"}, attempt())
    assert enabled.disabled_reason is None
    server.whole_turn(ref)
    run_due(server)
    assert len(receiver.received) == 2


@pytest.mark.parametrize("change", ["delete", "disable"])
def test_a_pending_delivery_of_a_webhook_that_is_gone_is_never_sent(make: Make, change: str) -> None:
    server = make("Done.")
    webhook, _ = create(server, "turn.completed")
    receiver = receiver_of(server, 500)
    server.whole_turn(server.session())
    run_due(server)
    if change == "delete":
        server.core.webhooks.delete(LOCAL_CALLER, webhook.webhook_id)
        with pytest.raises(NotFound):
            deliveries(server, webhook.webhook_id)
    else:
        server.core.webhooks.update(LOCAL_CALLER, webhook.webhook_id, {"status": "disabled"}, attempt())
    pass_time(server, 10)
    assert len(receiver.received) == 1
    assert not server.core.cleaning.due()


@pytest.mark.parametrize("what", ["session", "agent"])
def test_an_event_of_a_deleted_session_is_never_sent(make: Make, what: str) -> None:
    server = make("Done.")
    webhook, _ = create(server, "turn.completed")
    ref = server.session()
    server.whole_turn(ref)
    if what == "session":
        server.core.deleting.delete_session(LOCAL_CALLER, ref)
    else:
        server.core.deleting.delete_agent(LOCAL_CALLER, ref.agent_id)
    pass_time(server, 1)
    assert not receiver_of(server).received
    (delivery,) = deliveries(server, webhook.webhook_id)
    assert (delivery.status, delivery.reason) == ("failed", "its session was deleted")


def test_a_delivery_can_be_resent_under_its_id(make: Make) -> None:
    server = make("Done.")
    webhook, _ = create(server, "turn.completed")
    receiver = receiver_of(server, 500)
    server.whole_turn(server.session())
    run_due(server)
    (delivery,) = deliveries(server, webhook.webhook_id)
    again = server.core.webhooks.resend(LOCAL_CALLER, webhook.webhook_id, delivery.delivery_id, attempt())
    assert (again.status, again.tries_left) == ("pending", MOST_TRIES)
    run_due(server)
    server.core.webhooks.resend(LOCAL_CALLER, webhook.webhook_id, delivery.delivery_id, attempt())
    run_due(server)
    (delivery,) = deliveries(server, webhook.webhook_id)
    assert [done.status for done in delivery.tries] == [500, 204, 204]
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1
    pass_time(server, 86_400)
    assert len(receiver.received) == 3  # the job of the first try's failure is gone


def test_a_resend_during_a_try_wins(make: Make) -> None:
    server = make("Done.")
    webhook, _ = create(server, "turn.completed")
    receiver = receiver_of(server, 500)
    server.whole_turn(server.session())

    def resend() -> None:
        receiver.on_request = lambda: None
        (delivery,) = deliveries(server, webhook.webhook_id)
        server.core.webhooks.resend(LOCAL_CALLER, webhook.webhook_id, delivery.delivery_id, attempt())

    receiver.on_request = resend
    run_due(server)
    (delivery,) = deliveries(server, webhook.webhook_id)
    assert delivery.status == "delivered"
    assert len(receiver.received) == 2


def test_a_stopping_process_leaves_its_tries_to_the_next(make: Make) -> None:
    server = make("Done.")
    webhook, _ = create(server, "turn.completed")
    receiver = receiver_of(server, NOT_NOW)
    receiver.on_request = lambda: setattr(receiver, "is_stopped", True)
    server.whole_turn(server.session())
    for _ in range(2):  # the event, then the try of its delivery
        server.clock.advance(0.001)  # type: ignore[attr-defined]
        for job in server.core.cleaning.due():
            server.core.cleaning.run_for(job, timedelta(0))
    (delivery,) = deliveries(server, webhook.webhook_id)
    assert (delivery.status, delivery.tries) == ("pending", ())
    other = make()
    run_due(other)
    assert receiver_of(other).types == ["turn.completed"]


def test_two_tenants_share_nothing(make: Make) -> None:
    server = make("Done.")
    mine, _ = create(server, url="https://hooks.example/mine")
    other, _ = create(server, url="https://hooks.example/other", caller=STRANGER)
    server.whole_turn(server.session())
    run_due(server)
    assert [request.url for request in receiver_of(server).received] == ["https://hooks.example/mine"]
    assert not deliveries(server, other.webhook_id, STRANGER)
    (delivery,) = deliveries(server, mine.webhook_id)
    webhooks = server.core.webhooks
    for act in (
        lambda: webhooks.get(STRANGER, mine.webhook_id),
        lambda: webhooks.update(STRANGER, mine.webhook_id, {"status": "disabled"}, attempt()),
        lambda: webhooks.rotate_secret(STRANGER, mine.webhook_id, attempt()),
        lambda: webhooks.delete(STRANGER, mine.webhook_id),
        lambda: webhooks.send_test(STRANGER, mine.webhook_id, attempt()),
        lambda: webhooks.resend(STRANGER, mine.webhook_id, delivery.delivery_id, attempt()),
        lambda: webhooks.resend(STRANGER, other.webhook_id, delivery.delivery_id, attempt()),
        lambda: deliveries(server, mine.webhook_id, STRANGER),
    ):
        with pytest.raises(NotFound):
            act()
    assert [webhook.webhook_id for webhook in webhooks.list(STRANGER)] == [other.webhook_id]


def test_after_a_rotation_both_secrets_sign_for_a_day(make: Make) -> None:
    server = make()
    webhook, old = create(server)
    _, new = server.core.webhooks.rotate_secret(LOCAL_CALLER, webhook.webhook_id, attempt())
    assert old != new
    server.core.webhooks.send_test(LOCAL_CALLER, webhook.webhook_id, attempt())
    run_due(server)
    pass_time(server, 86_401)
    server.core.webhooks.send_test(LOCAL_CALLER, webhook.webhook_id, attempt())
    run_due(server)
    receiver = receiver_of(server)
    assert receiver.types == ["webhook.test", "webhook.test"]
    assert [is_signed(request, new) for request in receiver.received] == [True, True]
    assert [is_signed(request, old) for request in receiver.received] == [True, False]


def test_a_repeated_creation_returns_the_webhook_with_its_secret(make: Make) -> None:
    server = make()
    new = NewWebhook(url=URL, event_types=("turn.completed",))
    first = server.core.webhooks.create(LOCAL_CALLER, new, attempt("same", key="k"))
    assert first == server.core.webhooks.create(LOCAL_CALLER, new, attempt("same", key="k"))
    assert len(server.core.webhooks.list(LOCAL_CALLER)) == 1


def test_repeated_changes_under_a_key_are_made_once(make: Make) -> None:
    server = make()
    webhook, _ = create(server)
    webhooks, webhook_id = server.core.webhooks, webhook.webhook_id
    key = attempt("rotate", key="r")
    rotated = webhooks.rotate_secret(LOCAL_CALLER, webhook_id, key)
    assert rotated == webhooks.rotate_secret(LOCAL_CALLER, webhook_id, key)
    key = attempt("test", key="t")
    sent = webhooks.send_test(LOCAL_CALLER, webhook_id, key)
    assert sent == webhooks.send_test(LOCAL_CALLER, webhook_id, key)
    run_due(server)
    key = attempt("resend", key="s")
    for _ in range(2):
        assert webhooks.resend(LOCAL_CALLER, webhook_id, sent.delivery_id, key).delivery_id == sent.delivery_id
        run_due(server)
    assert receiver_of(server).types == ["webhook.test"] * 2
    key = attempt("update", key="u")
    webhooks.update(LOCAL_CALLER, webhook_id, {"description": "first"}, key)
    webhooks.update(LOCAL_CALLER, webhook_id, {"description": "second"}, attempt())
    assert webhooks.update(LOCAL_CALLER, webhook_id, {"description": "first"}, key).description == "second"


def test_a_tenant_has_a_limited_number_of_webhooks(make: Make) -> None:
    server = make()
    for number in range(MAX_WEBHOOKS):
        create(server, url=f"{URL}/{number}")
    with pytest.raises(InvalidRequest, match="delete one first"):
        create(server)


def test_urls_are_checked_when_they_are_named_and_again_when_they_are_requested(make: Make) -> None:
    server = make("Done.")
    with pytest.raises(InvalidRequest, match="url:"):
        create(server, url="http://private.example")
    webhook, _ = create(server)
    with pytest.raises(InvalidRequest, match="url:"):
        server.core.webhooks.update(LOCAL_CALLER, webhook.webhook_id, {"url": "http://private.example"}, attempt())


def test_expired_deliveries_are_not_found(make: Make) -> None:
    server = make()
    webhook, _ = create(server)
    delivery = server.core.webhooks.send_test(LOCAL_CALLER, webhook.webhook_id, attempt())
    run_due(server)
    assert deliveries(server, webhook.webhook_id)
    pass_time(server, KEPT.total_seconds() + 1)
    assert not deliveries(server, webhook.webhook_id)
    with pytest.raises(NotFound):
        server.core.webhooks.resend(LOCAL_CALLER, webhook.webhook_id, delivery.delivery_id, attempt())


def test_deliveries_are_listed_newest_first_page_by_page(make: Make) -> None:
    server = make()
    webhook, _ = create(server)
    sent = []
    for _ in range(5):
        sent.append(server.core.webhooks.send_test(LOCAL_CALLER, webhook.webhook_id, attempt()).delivery_id)
        pass_time(server, 1)
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = server.core.webhooks.deliveries(LOCAL_CALLER, webhook.webhook_id, ListQuery(limit=2, cursor=cursor))
        found += [delivery.delivery_id for delivery in page.deliveries]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == sent[::-1]


def test_no_secret_is_logged_or_listed(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    server = make("Done.")
    webhook, secret = create(server)
    _, new = server.core.webhooks.rotate_secret(LOCAL_CALLER, webhook.webhook_id, attempt())
    receiver_of(server, 500)
    server.whole_turn(server.session())
    run_due(server)
    assert "webhook" in caplog.text
    for hidden in (secret, new):
        assert hidden not in caplog.text
        assert hidden not in repr(server.core.webhooks.list(LOCAL_CALLER))
        assert hidden not in repr(server.core.webhook_services._webhook_store.list(LOCAL_CALLER.tenant))
        assert hidden not in repr(deliveries(server, webhook.webhook_id))


def calls_of_turns(server: Server, store: CountingStore) -> list[Any]:
    """Return the calls of the store, and the records of its writes, of a turn with a pause."""
    ref = server.session(client_tools=[client_tool()])
    before = len(store.calls)
    turn = server.paused(ref)
    server.drain(server.resume(turn, answer("l1")))
    return [
        (call.verb, call.keys, [operation.key.sk.split(":")[0] for operation in call.operations])
        for call in store.calls[before:]
    ]


def test_a_turn_pays_nothing_without_webhooks_and_one_record_with_them(tmp_path: Path) -> None:
    """Reads and writes of a turn are the same, but for the event's record in the pausing and the closing one."""
    (make,) = islice(made := made_over_sqlite(tmp_path), 1)
    plain, subscribed = make(call("look", "l1"), "Done."), make(call("look", "l1"), "Done.")
    without = calls_of_turns(plain, plain.store)
    create(subscribed)
    create(subscribed)
    with_events = calls_of_turns(subscribed, subscribed.store)
    assert [verb for verb, *_ in without] == [verb for verb, *_ in with_events]
    more = [
        len(written) - len(before) for (*_, before), (*_, written) in zip(without, with_events, strict=True) if before
    ]
    assert sorted(more) == [0] * (len(more) - 2) + [1, 1]
    next(made, None)


def test_a_long_turn_reads_no_snapshot_again(make: Make) -> None:
    """The snapshot that the turn read when it opened is long out of date for other readers when it ends."""
    clocks: list[Any] = []

    def think(_: InferenceRequest) -> str:
        clocks[0].advance(120)
        return "Done."

    server = make(think)
    clocks.append(server.clock)
    create(server, "turn.completed")
    ref = server.session()
    before = len(server.store.calls)
    server.whole_turn(ref)
    assert {call.verb for call in server.store.calls[before:]} == {"gather", "write"}, "no record is read by itself"
    run_due(server)
    assert receiver_of(server).types == ["turn.completed"]


def test_the_pause_is_stored_with_its_event(make: Make) -> None:
    server = make(call("look", "l1"))
    create(server, "turn.awaiting_input")
    ref = server.session(client_tools=[client_tool()])
    server.store.after(pauses_turn, server.store.die)
    server.drain(server.start(ref))
    other = make()
    run_due(other)
    assert receiver_of(other).types == ["turn.awaiting_input"]
