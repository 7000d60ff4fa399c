"""A chat: turns of one session, each from what is said until it has ended, with the tools run that it waits for."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urljoin

from .answering import Answering
from .exhibit import plain_name
from .interrupts import INTERRUPTS
from .screen import Screen
from .session import AWAITING, ChatSession, TurnState
from .wire import Event, Json


@dataclass
class Chat:
    """Turns of one session, and where they are shown.

    Attributes:
        options: what the command that goes on with the session has to be told beside it.
        last: the newest turn that was talked through here, as it stood then.
    """

    session: ChatSession
    screen: Screen
    answering: Answering
    options: str = ""
    last: TurnState | None = None

    @property
    def how_to_return(self) -> str:
        """The command that goes on with the session."""
        named = shlex.quote(f"{self.session.agent_id}/{self.session.session_id}")
        return f"turnstone chat --session {named}{self.options}"

    def say(self, text: str) -> TurnState:
        """Return how the turn stands that this opened, once it has ended or waits for a tool that is not here.

        Raises ChatError, and EOFError or KeyboardInterrupt as `Answering` does.
        """
        self.screen.begin_turn()
        return self._talk(self.session.begin(text))

    def go_on(self, turn_id: str) -> TurnState:
        """Return how a turn stands that was open already, once it has ended or waits; it is shown from its start."""
        self.screen.begin_turn()
        return self._talk(self.session.follow(turn_id))

    def cancel(self) -> None:
        """End the turn that runs or waits."""
        self.screen.note("· cancelled" if self.session.cancel() else "· nothing is running")

    def _talk(self, events: Iterator[Event]) -> TurnState:
        while True:
            calls = self._shown(events)
            if not calls:
                break
            if missing := self.answering.missing(calls):
                names = ", ".join(map(plain_name, missing))
                self.screen.note(
                    f"· the turn waits for {names}, which is not here. Come back with a file that has it, "
                    f"{self.how_to_return} --tools FILE.py, or say something else: that ends its waiting."
                )
                break
            events = self.session.resume(self._answers(calls))
        self.last = self.session.state()
        if self.last.status != AWAITING:
            for made in self.last.turn.get("output_attachments") or ():
                address = urljoin(f"{self.session.client.url}/", made["content"]["uri"])
                self.screen.note(f"· file {address} ({made['mime_type']})")
            self.screen.note(f"· {self.last.tokens} tokens")
        return self.last

    def _answers(self, calls: Sequence[Json]) -> Sequence[Json]:
        try:
            return self.answering.answers(calls)
        except EOFError:
            self.screen.note(f"· the turn waits for its tools. Come back with: {self.how_to_return}")
            raise

    def _shown(self, events: Iterator[Event]) -> Sequence[Json]:
        """Show events to their end; return the calls that the turn waits for, none if it has ended."""
        calls: Sequence[Json] = ()
        pressed = INTERRUPTS.count
        with closing(events):  # type: ignore[type-var] # a generator: what is left unread hangs up
            for event in events:
                INTERRUPTS.raise_since(pressed)
                self.screen.event(event)
                if event.error is not None:
                    self.screen.note(f"· the turn has failed: {event.error}")
                elif event.kind == "turn_awaiting_input":
                    calls = event.payload["turn"]["output_message"]["tool_calls"]
        return calls
