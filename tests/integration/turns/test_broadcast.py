"""Each subscriber of a turn receives all events, in order, once, however late or slow it is.

Covers: services/threads/publisher, services/streams/broadcast, services/streams/event_cursor, http/streams/receiving,
  http/streams/sse
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.engine.harness import PATIENCE_S, drained_events, eventually
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import StepProgressed, TextDelta, TurnEvent, TurnStarted
from turnstone.http.streams.receiving import received
from turnstone.http.streams.silence import Silence
from turnstone.http.streams.sse import sse_chunks
from turnstone.services.streams.broadcast import Broadcasts, TurnBroadcast
from turnstone.services.streams.event_cursor import EventCursor

REF = TurnRef(tenant="local", agent_id="a", session_id="s", turn_id="t")
EVENTS = 2_000


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def event(number: int) -> TurnEvent:
    return StepProgressed(step_type="inference", step_id="s", delta=TextDelta(text=str(number)))


def numbers(events: tuple[TurnEvent, ...] | list[TurnEvent]) -> list[int]:
    return [int(event.delta.text) for event in events]


def published(broadcast: TurnBroadcast, count: int = EVENTS) -> threading.Thread:
    """Return the thread that publishes the events, by ones, twos and threes, the last few with the close."""

    def publish() -> None:
        number = 0
        while number < count - 3:
            size = number % 3 + 1
            broadcast.publish(*(event(n) for n in range(number, min(number + size, count - 3))))
            number += size
        broadcast.close(*(event(n) for n in range(count - 3, count)))

    (thread,) = in_threads(publish)
    return thread


def in_threads(*actions: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=action, daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    return threads


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a listener hangs"


def test_listeners_in_several_threads_receive_every_event_once_in_order() -> None:
    broadcast = TurnBroadcast(REF)
    numbers_received: list[list[int]] = [[] for _ in range(6)]

    def listen(number: int) -> None:
        for each in broadcast.wait():
            numbers_received[number].append(int(each.delta.text))

    threads = in_threads(*(lambda number=number: listen(number) for number in range(6)))
    threads.append(published(broadcast))
    joined(threads)
    assert numbers_received == [list(range(EVENTS))] * 6


def test_late_joiners_receive_the_first_events_too() -> None:
    broadcast = TurnBroadcast(REF)
    numbers_received: list[list[int]] = []
    lock = threading.Lock()

    def listen() -> None:
        own = numbers(list(broadcast.wait()))
        with lock:
            numbers_received.append(own)

    publishing = published(broadcast)
    threads = []
    for part in range(1, 6):
        eventually(lambda part=part: len(broadcast.events) >= part * EVENTS // 8)
        threads += in_threads(listen)
    joined([publishing, *threads, *in_threads(listen)])
    assert numbers_received == [list(range(EVENTS))] * 6
    assert numbers(drained_events(broadcast)) == list(range(EVENTS))


def test_a_listener_is_woken_once_between_two_polls() -> None:
    broadcast = TurnBroadcast(REF)
    wakes: list[int] = []
    listener = broadcast.subscribe(lambda: wakes.append(1))
    broadcast.publish(event(0))
    assert wakes == [], "the first poll needs no wake"
    assert numbers(listener.take().events) == [0]
    for number in range(1, 100):
        broadcast.publish(event(number))
    assert wakes == [1]
    assert numbers(listener.take().events) == list(range(1, 100))
    assert listener.take().events == ()
    broadcast.close()
    assert (wakes, listener.take().is_last) == ([1, 1], True)


def test_a_listener_that_has_left_is_not_woken() -> None:
    broadcast = TurnBroadcast(REF)
    wakes: list[int] = []
    listener = broadcast.subscribe(lambda: wakes.append(1))
    listener.take()
    broadcast.unsubscribe(listener)
    broadcast.close(event(0))
    assert wakes == []


def test_a_listener_that_stops_half_way_is_unsubscribed() -> None:
    broadcast = TurnBroadcast(REF)
    broadcast.publish(event(0), event(1))
    waiting = broadcast.wait()
    assert next(waiting) == event(0)
    waiting.close()
    assert broadcast._subscribers == []


class InterruptedLock:
    """A lock that runs an action right after its first release."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._happens = [happens]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._happens:
            self._happens.pop()()


def test_an_event_right_after_a_poll_wakes_the_listener() -> None:
    broadcast = TurnBroadcast(REF)
    wakes: list[int] = []
    listener = broadcast.subscribe(lambda: wakes.append(1))
    broadcast.lock = InterruptedLock(lambda: broadcast.publish(event(0)))
    assert (listener.take().events, wakes) == ((), [1])
    assert numbers(listener.take().events) == [0]


def test_no_event_is_lost_between_a_poll_and_the_wait() -> None:
    """A listener that polls only when it is woken misses no event, not even the last."""
    for _ in range(150):
        broadcast = TurnBroadcast(REF)
        ready = threading.Event()
        listener = broadcast.subscribe(ready.set)
        taken: list[TurnEvent] = []
        publishing = published(broadcast, 12)
        is_over = False
        while not is_over:
            news = listener.take()
            taken += news.events
            is_over = news.is_last
            if not is_over:
                assert ready.wait(PATIENCE_S), f"the listener was not woken after {numbers(taken)}"
                ready.clear()
        publishing.join(PATIENCE_S)
        assert numbers(taken) == list(range(12))


def test_no_event_is_lost_between_the_last_poll_and_the_end() -> None:
    """A listener that sees the end has received every event before it."""
    for _ in range(150):
        broadcast = TurnBroadcast(REF)
        listener = broadcast.subscribe(lambda: None)
        publishing = published(broadcast, 6)
        taken: list[TurnEvent] = []
        while not (news := listener.take()).is_last:
            taken += news.events
        publishing.join(PATIENCE_S)
        assert numbers([*taken, *news.events]) == list(range(6))


def test_a_slow_listener_delays_no_publisher() -> None:
    broadcast = TurnBroadcast(REF)
    slow = broadcast.wait()
    broadcast.publish(event(0))
    assert next(slow) == event(0)
    joined([published(broadcast, 100)])
    assert numbers(list(slow)) == list(range(100))


@pytest.mark.parametrize("listeners", [1, 5])
def test_the_event_loops_listeners_receive_every_event_once_in_order(listeners: int) -> None:
    async def listen(broadcast: TurnBroadcast) -> list[int]:
        return [n async for news in received(broadcast, silence=Silence(PATIENCE_S)) for n in numbers(news.events)]

    async def all_listen() -> list[list[int]]:
        broadcast = TurnBroadcast(REF)
        listening = [asyncio.create_task(listen(broadcast)) for _ in range(listeners)]
        publishing = published(broadcast)
        results = await asyncio.wait_for(asyncio.gather(*listening), PATIENCE_S)
        await asyncio.to_thread(publishing.join)
        return results

    assert asyncio.run(all_listen()) == [list(range(EVENTS))] * listeners


def test_callers_that_expect_a_turn_share_one_broadcast_until_it_ends() -> None:
    broadcasts = Broadcasts()
    assert broadcasts.find(REF) is None
    expected: list[TurnBroadcast] = []
    joined(in_threads(*[lambda: expected.append(broadcasts.expect(REF))] * 8))
    assert len({id(broadcast) for broadcast in expected}) == 1
    assert broadcasts.find(REF) is expected[0]
    broadcasts.end(expected[0], TurnStarted(turn_id="t"))
    assert broadcasts.find(REF) is None
    assert drained_events(expected[0]) == (TurnStarted(turn_id="t"),)
    assert broadcasts.expect(REF) is not expected[0]


@pytest.mark.parametrize("is_waited_for", [False, True])
def test_a_run_marks_its_doubtful_events_with_or_without_a_waiting_caller(is_waited_for: bool) -> None:
    broadcasts = Broadcasts()
    waiting = broadcasts.expect(REF) if is_waited_for else None
    begun = broadcasts.begin(REF, doubtful_after=3)
    assert (begun.doubtful_after, begun.is_run) == (3, True)
    assert waiting in (None, begun)
    assert broadcasts.find(REF) is begun


def test_the_end_of_an_older_broadcast_leaves_the_newer_one() -> None:
    broadcasts = Broadcasts()
    older = broadcasts.expect(REF)
    broadcasts.end(older)
    newer = broadcasts.expect(REF)
    broadcasts.end(older)
    assert broadcasts.find(REF) is newer


def test_a_stream_ends_when_its_client_leaves_and_its_cursor_stops_forwarding() -> None:
    running = TurnBroadcast(REF)
    excerpt = EventCursor(REF, 0)
    excerpt.attach(running)

    async def scene() -> list[bytes]:
        left = asyncio.Event()

        async def receive() -> dict[str, str]:
            await left.wait()
            return {"type": "http.disconnect"}

        sent = []
        async with asyncio.timeout(PATIENCE_S):
            running.publish(event(0))
            async for piece in sse_chunks(excerpt.broadcast, TurnStream(), receive):
                sent.append(piece)
                left.set()
        return sent

    (piece,) = asyncio.run(scene())
    assert b'"text":"0"' in piece
    assert excerpt.broadcast.is_left
    running.publish(event(1))
    assert running.is_left
    assert numbers(excerpt.broadcast.events) == [0]


def test_a_cursor_that_leaves_in_two_threads_at_once_leaves_once() -> None:
    running, excerpt = TurnBroadcast(REF), EventCursor(REF, 0)
    excerpt.attach(running)
    listener = excerpt.broadcast.subscribe(lambda: None)
    running.close(event(1))
    assert listener.take().is_last  # one thread leaves the run because it has ended
    excerpt.broadcast.unsubscribe(listener)  # another one because the client has left
    assert running.is_left
    assert numbers(running.events) == [1]
