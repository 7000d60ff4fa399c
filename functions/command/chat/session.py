"""A session of an agent as a client uses it: opens turns, answers them, cancels them, and stays with them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode
from uuid import uuid4

from .client import ChatError, Client, ConnectionLost, NoServer, Refused
from .wire import Event, Json

REJOIN_S = 120.0  # longer than a server takes to come back, and a lease until somebody takes its turns over
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0
BUSY = 503  # such as a server that has just come back
RUNNING = "in_progress"
AWAITING = "awaiting_input"


@dataclass(frozen=True)
class TurnState:
    """A turn as it stands.

    Attributes:
        status: in_progress, awaiting_input, completed, failed, expired or cancelled.
        tokens: how many it has taken.
    """

    turn: Json
    status: str
    tokens: int


@dataclass
class Heard:
    """What was heard of a turn.

    Attributes:
        said: what it was begun with, if it was begun here.
        turn_id: empty until it is known.
        number: of its last event.
        is_counted: the stream tells no numbers, and no event twice.
    """

    said: str = ""
    turn_id: str = ""
    number: int = 0
    is_counted: bool = True

    def note(self, event: Event) -> None:
        if self.is_counted:
            self.number += 1
        elif event.number is not None:
            self.number = event.number
        self.turn_id = str(event.payload.get("turn_id", self.turn_id))


@dataclass
class ChatSession:
    """One session.

    Attributes:
        overrides: what each turn changes of its agent.
        on_loss: called when the connection broke and is to be had again.
        heard: of the turn that was begun or followed last.
    """

    client: Client
    agent_id: str
    session_id: str
    overrides: Json
    on_loss: Callable[[], None]
    heard: Heard = field(default_factory=Heard)

    @property
    def path(self) -> str:
        return f"/agents/{quote(self.agent_id, safe='')}/session/{quote(self.session_id, safe='')}"

    def renew(self) -> None:
        """Open another session of the agent. Raises ChatError."""
        self.session_id = open_session(self.client, self.agent_id)
        self.heard = Heard()

    def agent(self) -> Json:
        """Return the agent. Raises ChatError."""
        return self.client.get(f"/agents/{quote(self.agent_id, safe='')}")[0]

    def usage(self) -> Json:
        """Return what this session spent today. Raises ChatError."""
        query = urlencode({"agent_id": self.agent_id, "session_id": self.session_id})
        return self.client.get(f"/usage?{query}")[0]

    def turns(self) -> list[Json]:
        """Return the turns so far, oldest first. Raises ChatError."""
        turns: list[Json] = self.client.get(self.path)[0]["turns"]
        return turns

    def begin(self, text: str) -> Iterator[Event]:
        """Yield the events of a new turn, until it ends or waits for answers. Raises ChatError."""
        self.heard = Heard(said=text)
        body = {**self.overrides, "messages": [{"role": "user", "content": text}]}
        return self._posted(f"{self.path}/turn", body)

    def resume(self, responses: Sequence[Json]) -> Iterator[Event]:
        """Yield what comes of the answers to the calls that the turn waits for. Raises ChatError."""
        return self._posted(f"{self._turn_path}/resume", {"tool_responses": list(responses)}, is_kept=True)

    def follow(self, turn_id: str) -> Iterator[Event]:
        """Yield the events of a turn from its first one on. Raises ChatError."""
        self.heard = Heard(turn_id=turn_id)
        return self._stayed(self._followed)

    def state(self) -> TurnState:
        """Return how the turn that was heard last stands. Raises ChatError."""
        turn, headers = self.client.get(self._turn_path)
        return TurnState(turn, headers.get("x-turn-status", ""), int(headers.get("x-turn-tokens", "0")))

    def cancel(self) -> bool:
        """End the turn that was begun or followed last; return whether there was something to end. Raises ChatError."""
        if not self.heard.turn_id:
            newest = self.turns()[-1:]
            ours = [turn for turn in newest if turn["input_messages"][0]["content"] == self.heard.said]
            if not ours:
                return False
            self.heard.turn_id = ours[0]["turn_id"]
        if self.state().status not in (RUNNING, AWAITING):
            return False
        self.client.post(f"{self._turn_path}/cancel", {})
        return True

    @property
    def _turn_path(self) -> str:
        return f"{self.path}/turn/{quote(self.heard.turn_id, safe='')}"

    def _posted(self, path: str, body: Json, *, is_kept: bool = False) -> Iterator[Event]:
        """Yield the events that the request leads to; one that is kept waits for a server that is away already."""
        key, before = uuid4().hex, self.heard.number

        def opened() -> Iterator[Event]:
            if self.heard.number == before:  # whether it arrived is not known; the key has it done once
                self.heard.is_counted = True
                return self.client.posted(path, body, key)
            return self._followed()

        return self._stayed(opened, is_kept=is_kept)

    def _followed(self) -> Iterator[Event]:
        self.heard.is_counted = False
        return self.client.followed(f"{self._turn_path}/events", self.heard.number)

    def _stayed(self, opened: Callable[[], Iterator[Event]], *, is_kept: bool = False) -> Iterator[Event]:
        """Yield the events of one stream after the other, until one of them tells how the turn stands."""
        patience = Patience()
        while True:
            for event in self._unbroken(opened, waits=is_kept or patience.is_used):
                if event.error is not None and self._goes_on():
                    break  # it was the server's end, not the turn's
                if event.error is None:
                    self.heard.note(event)
                    patience.renew()
                yield event
                if event.error is not None or event.turn is not None:
                    return
            if not patience.is_used:
                self.on_loss()
            patience.wait(self.client.url)

    def _unbroken(self, opened: Callable[[], Iterator[Event]], *, waits: bool) -> Iterator[Event]:
        """Yield the events of one stream, which ends where it breaks off, or at once where it waits for a server."""
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

    def _goes_on(self) -> bool:
        """Tell whether the turn runs on elsewhere, or later, though its stream ended with an error."""
        if not self.heard.turn_id:
            return False
        try:
            return self.state().status == RUNNING
        except (NoServer, ConnectionLost):
            return True


def open_session(client: Client, agent_id: str) -> str:
    """Return the id of a new session of the agent. Raises ChatError."""
    path = f"/agents/{quote(agent_id, safe='')}/session"
    return str(client.post(path, {"session_name": "chat"})["session_id"])


class Patience:
    """How long to wait for a server that does not answer, from the last word of it on."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew, after a word of it."""
        self._until = 0.0
        self._wait_s = FIRST_WAIT_S

    @property
    def is_used(self) -> bool:
        return self._until > 0

    def wait(self, url: str) -> None:
        """Return when it is time to try again. Raises ChatError when it has been long enough."""
        now = time.monotonic()
        self._until = self._until or now + REJOIN_S
        if now >= self._until:
            raise ChatError(f"the connection to {url} was lost and could not be restored within {REJOIN_S:g} s.")
        time.sleep(self._wait_s)
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
