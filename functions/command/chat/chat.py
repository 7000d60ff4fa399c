"""A chat: turns of one session, each from its message to its end, with runs of the tools that it waits for."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urljoin

from ..wire import Json, StreamEvent
from .answering import Answering
from .call_rows import plain_name
from .interrupts import INTERRUPTS
from .screen import Screen
from .session import AWAITING, ChatSession, FetchedTurn


@dataclass
class Chat:
    """Turns of one session, and the screen that shows them.

    Attributes:
        options: further options of the command that continues the session.
        last: state of the newest turn of this chat, at its end.
    """

    session: ChatSession
    screen: Screen
    answering: Answering
    options: str = ""
    last: FetchedTurn | None = None

    @property
    def how_to_return(self) -> str:
        """The command that continues the session."""
        named = shlex.quote(f"{self.session.agent_id}/{self.session.session_id}")
        return f"turnstone chat --session {named}{self.options}"

    def send(self, text: str) -> FetchedTurn:
        """Run a new turn until it ends or waits for a tool that the chat does not have; return its state.

        Raises CommandFailed, and EOFError or KeyboardInterrupt as `Answering` does.
        """
        self.screen.begin_turn()
        return self._run(self.session.begin(text))

    def continue_turn(self, turn_id: str) -> FetchedTurn:
        """Follow an open turn until it ends or waits, and show it from its start; return its state."""
        self.screen.begin_turn()
        return self._run(self.session.follow(turn_id))

    def cancel(self) -> None:
        """Cancel the running or waiting turn."""
        self.screen.note("· cancelled" if self.session.cancel() else "· nothing is running")

    def _run(self, events: Iterator[StreamEvent]) -> FetchedTurn:
        while True:
            calls = self._shown(events)
            if not calls:
                break
            if missing := self.answering.missing(calls):
                names = ", ".join(map(plain_name, missing))
                self.screen.note(
                    f"· the turn waits for {names}, which this chat does not have. Continue with a file that has it, "
                    f"{self.how_to_return} --tools FILE.py, or send another message: that cancels the turn."
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
            self.screen.note(f"· the turn waits for its tools. Continue with: {self.how_to_return}")
            raise

    def _shown(self, events: Iterator[StreamEvent]) -> Sequence[Json]:
        """Show all events; return the calls that the turn waits for, none if it has ended."""
        calls: Sequence[Json] = ()
        pressed = INTERRUPTS.count
        with closing(events):  # type: ignore[type-var] # a generator: closing it closes the connection
            for event in events:
                INTERRUPTS.raise_since(pressed)
                self.screen.event(event)
                if event.error is not None:
                    self.screen.note(f"· the turn has failed: {event.error}")
                elif event.kind == "turn_awaiting_input":
                    calls = event.payload["turn"]["output_message"]["tool_calls"]
        return calls
