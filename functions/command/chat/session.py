"""A session of an agent as a client uses it: opens, resumes, cancels and follows turns across lost connections."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode
from uuid import uuid4

from ..client import Client, CommandFailed, ConnectionLost, NoServer, Refused
from ..wire import Json, StreamEvent

REJOIN_S = 120.0  # longer than the restart of a server, and than a lease until another process takes its turns over
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0
BUSY = 503  # such as from a server that has just started
RUNNING = "in_progress"
AWAITING = "awaiting_input"


@dataclass(frozen=True)
class FetchedTurn:
    """State of a turn.

    Attributes:
        status: in_progress, awaiting_input, completed, failed, expired or cancelled.
        tokens: used so far.
    """

    turn: Json
    status: str
    tokens: int


@dataclass
class StreamProgress:
    """Progress of receiving a turn.

    Attributes:
        text: message of the turn, if it was opened here.
        turn_id: empty until the first event.
        number: number of its last event.
        is_counted: the stream has no event numbers, and repeats no event.
    """

    text: str = ""
    turn_id: str = ""
    number: int = 0
    is_counted: bool = True

    def note(self, event: StreamEvent) -> None:
        if self.is_counted:
            self.number += 1
        elif event.number is not None:
            self.number = event.number
        self.turn_id = str(event.payload.get("turn_id", self.turn_id))


@dataclass
class ChatSession:
    """One session.

    Attributes:
        overrides: changes of the agent's configuration for each turn.
        on_loss: called when the connection is lost, before it is restored.
        received: progress of the turn that was opened or followed last.
    """

    client: Client
    agent_id: str
    session_id: str
    overrides: Json
    on_loss: Callable[[], None]
    received: StreamProgress = field(default_factory=StreamProgress)

    @property
    def path(self) -> str:
        return f"/agents/{quote(self.agent_id, safe='')}/session/{quote(self.session_id, safe='')}"

    def renew(self) -> None:
        """Open another session of the agent. Raises CommandFailed."""
        self.session_id = open_session(self.client, self.agent_id)
        self.received = StreamProgress()

    def agent(self) -> Json:
        """Return the agent. Raises CommandFailed."""
        return self.client.get(f"/agents/{quote(self.agent_id, safe='')}")[0]

    def usage(self) -> Json:
        """Return the usage of this session today. Raises CommandFailed."""
        query = urlencode({"agent_id": self.agent_id, "session_id": self.session_id})
        return self.client.get(f"/usage?{query}")[0]

    def turns(self) -> list[Json]:
        """Return the turns so far, oldest first. Raises CommandFailed."""
        turns: list[Json] = self.client.get(self.path)[0]["turns"]
        return turns

    def begin(self, text: str) -> Iterator[StreamEvent]:
        """Yield the events of a new turn, until it ends or waits for answers. Raises CommandFailed."""
        self.received = StreamProgress(text=text)
        body = {**self.overrides, "messages": [{"role": "user", "content": text}]}
        return self._posted(f"{self.path}/turn", body)

    def resume(self, responses: Sequence[Json]) -> Iterator[StreamEvent]:
        """Answer the calls that the turn waits for, and yield its events. Raises CommandFailed."""
        return self._posted(f"{self._turn_path}/resume", {"tool_responses": list(responses)}, is_kept=True)

    def follow(self, turn_id: str) -> Iterator[StreamEvent]:
        """Yield all events of a turn. Raises CommandFailed."""
        self.received = StreamProgress(turn_id=turn_id)
        return self._rejoined(self._followed)

    def state(self) -> FetchedTurn:
        """Return the state of the last turn. Raises CommandFailed."""
        turn, headers = self.client.get(self._turn_path)
        return FetchedTurn(turn, headers.get("x-turn-status", ""), int(headers.get("x-turn-tokens", "0")))

    def cancel(self) -> bool:
        """Cancel the last turn; return False if it has ended. Raises CommandFailed."""
        if not self.received.turn_id:
            newest = self.turns()[-1:]
            ours = [turn for turn in newest if turn["input_messages"][0]["content"] == self.received.text]
            if not ours:
                return False
            self.received.turn_id = ours[0]["turn_id"]
        if self.state().status not in (RUNNING, AWAITING):
            return False
        self.client.post(f"{self._turn_path}/cancel", {})
        return True

    @property
    def _turn_path(self) -> str:
        return f"{self.path}/turn/{quote(self.received.turn_id, safe='')}"

    def _posted(self, path: str, body: Json, *, is_kept: bool = False) -> Iterator[StreamEvent]:
        """Yield the events of the request; with `is_kept` it waits even if the server is gone from the start."""
        key, before = uuid4().hex, self.received.number

        def opened() -> Iterator[StreamEvent]:
            if self.received.number == before:  # the request may have arrived; its key prevents a second run
                self.received.is_counted = True
                return self.client.posted(path, body, key)
            return self._followed()

        return self._rejoined(opened, is_kept=is_kept)

    def _followed(self) -> Iterator[StreamEvent]:
        self.received.is_counted = False
        return self.client.followed(f"{self._turn_path}/events", self.received.number)

    def _rejoined(self, opened: Callable[[], Iterator[StreamEvent]], *, is_kept: bool = False) -> Iterator[StreamEvent]:
        """Yield the events of one stream after the other, until one has the result of the turn."""
        patience = Patience()
        while True:
            for event in self._one_stream(opened, waits=is_kept or patience.is_used):
                if event.error is not None and self._is_running():
                    break  # the server ended, not the turn
                if event.error is None:
                    self.received.note(event)
                    patience.renew()
                yield event
                if event.error is not None or event.turn is not None:
                    return
            if not patience.is_used:
                self.on_loss()
            patience.wait(self.client.url)

    def _one_stream(self, opened: Callable[[], Iterator[StreamEvent]], *, waits: bool) -> Iterator[StreamEvent]:
        """Yield the events of one stream until it is cut; none if `waits` and there is no server."""
        try:
            yield from opened()
        except NoServer:
            if not waits:
                raise
        except Refused as refusal:
            if not waits or refusal.status != BUSY:
                raise
        except ConnectionLost:
            return

    def _is_running(self) -> bool:
        """Return whether the turn still runs, though its stream ended with an error."""
        if not self.received.turn_id:
            return False
        try:
            return self.state().status == RUNNING
        except (NoServer, ConnectionLost):
            return True


def open_session(client: Client, agent_id: str) -> str:
    """Return the id of a new session of the agent. Raises CommandFailed."""
    path = f"/agents/{quote(agent_id, safe='')}/session"
    return str(client.post(path, {"session_name": "chat"})["session_id"])


class Patience:
    """Waiting times for a server that does not answer, counted from its last event."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Reset after an event of the server."""
        self._until = 0.0
        self._wait_s = FIRST_WAIT_S

    @property
    def is_used(self) -> bool:
        return self._until > 0

    def wait(self, url: str) -> None:
        """Sleep until the next try. Raises CommandFailed after REJOIN_S."""
        now = time.monotonic()
        self._until = self._until or now + REJOIN_S
        if now >= self._until:
            raise CommandFailed(f"the connection to {url} was lost and could not be restored within {REJOIN_S:g} s.")
        time.sleep(self._wait_s)
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
