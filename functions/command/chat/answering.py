"""Answers to the calls that a turn waits for: the user approves a call, then its tool runs here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..wire import Json
from .call_rows import plain_json, plain_name
from .screen import Screen

if TYPE_CHECKING:
    from .tools import ClientTool

CHOICES = "[y]es, [n]o, [a]lways: "
DECLINED = "Not executed: the user declined this call."
NO_USER = "Not executed: no user was there to allow this call."
MOST_APPROVED = 20_000  # characters: some hundred rows, which terminals keep and a person may still read
TOO_LONG = f"Not executed: a user can't check arguments of more than {MOST_APPROVED} characters. Make them shorter."


@dataclass
class Answering:
    """Runs the tools of the chat, each after approval.

    Attributes:
        question: prints a question and returns the line typed after it; None without a terminal.
        is_allowed: all tools run without a question.
        allowed: names of the tools that run without a question.
    """

    tools: Mapping[str, "ClientTool"]
    screen: Screen
    question: Callable[[str], str] | None
    is_allowed: bool
    allowed: set[str] = field(default_factory=set)

    def missing(self, calls: Sequence[Json]) -> list[str]:
        """Return the names of called tools that the chat does not have."""
        return sorted({call["tool_name"] for call in calls} - set(self.tools))

    def answers(self, calls: Sequence[Json]) -> list[Json]:
        """Return the answers to calls of tools that the chat has.

        Raises EOFError at the end of input, KeyboardInterrupt for Ctrl-C.
        """
        return [self._answer(call) for call in calls]

    def _answer(self, call: Json) -> Json:
        response = {"call_id": call["call_id"], "tool_name": call["tool_name"], "content": self._content(call)}
        self.screen.response(response)
        return response

    def _content(self, call: Json) -> str:
        name, arguments = call["tool_name"], call["arguments"]
        if not isinstance(arguments, dict):
            self.screen.show_call(call)
            return f"Error: the arguments are not a JSON object: {arguments}"
        if self.is_allowed or name in self.allowed:
            self.screen.show_call(call)
        elif (refusal := self._refusal(call)) is not None:
            return refusal
        return self.tools[name].run(arguments)

    def _refusal(self, call: Json) -> str | None:
        """Return the answer to a call that may not run, None for one that the user approved as shown."""
        if self.question is None:
            self.screen.show_call(call)
            name = plain_name(call["tool_name"])
            self.screen.note(
                f"  {name} was not run: there is no terminal to approve it; --yes runs tools without a question"
            )
            return NO_USER
        if len(plain_json(call["arguments"])) > MOST_APPROVED:
            self.screen.note(f"  {plain_name(call['tool_name'])} was not run: its arguments are too long to be checked")
            return TOO_LONG
        return None if self._request_approval(call, self.question) else DECLINED

    def _request_approval(self, call: Json, question: Callable[[str], str]) -> bool:
        while True:
            self.screen.show_call(call)  # before each question: earlier input may have scrolled it away
            match question(f"  run {plain_name(call['tool_name'])}? {CHOICES}").strip().lower():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False
                case "a" | "always":
                    self.allowed.add(call["tool_name"])
                    return True
