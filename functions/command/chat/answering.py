"""Answers to the calls that a turn waits for: a person at the terminal approves a call, then the tool runs here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .exhibit import plain_json, plain_name
from .screen import Screen
from .wire import Json

if TYPE_CHECKING:
    from .tools import ClientTool

CHOICES = "[y]es, [n]o, [a]lways: "
DECLINED = "Not executed: the user declined this call."
NOBODY_TO_ASK = "Not executed: no user was there to allow this call."
MOST_APPROVED = 20_000  # characters: some hundred rows, which terminals keep and a person may still read
TOO_LONG = f"Not executed: a user can't check arguments of more than {MOST_APPROVED} characters. Make them shorter."


@dataclass
class Answering:
    """Runs the tools that are here, each when it is allowed to.

    Attributes:
        ask: puts a question and returns the line that is typed after it; None where nobody can be asked.
        is_allowed: every tool may be run without a question.
        allowed: the tools that may, by name.
    """

    tools: Mapping[str, "ClientTool"]
    screen: Screen
    ask: Callable[[str], str] | None
    is_allowed: bool
    allowed: set[str] = field(default_factory=set)

    def missing(self, calls: Sequence[Json]) -> list[str]:
        """Return the names of the tools that are called and are not here."""
        return sorted({call["tool_name"] for call in calls} - set(self.tools))

    def answers(self, calls: Sequence[Json]) -> list[Json]:
        """Return an answer to each call of a tool that is here.

        Raises EOFError if the person at the terminal has left, KeyboardInterrupt for Ctrl-C.
        """
        return [self._answer(call) for call in calls]

    def _answer(self, call: Json) -> Json:
        response = {"call_id": call["call_id"], "tool_name": call["tool_name"], "content": self._content(call)}
        self.screen.response(response)
        return response

    def _content(self, call: Json) -> str:
        name, arguments = call["tool_name"], call["arguments"]
        if not isinstance(arguments, dict):
            self.screen.exhibit(call)
            return f"Error: the arguments are not a JSON object: {arguments}"
        if self.is_allowed or name in self.allowed:
            self.screen.exhibit(call)
        elif (refusal := self._refusal(call)) is not None:
            return refusal
        return self.tools[name].run(arguments)

    def _refusal(self, call: Json) -> str | None:
        """Return the answer to a call that may not run, None if a person approved it as it was shown."""
        if self.ask is None:
            self.screen.exhibit(call)
            name = plain_name(call["tool_name"])
            self.screen.note(f"  {name} was not run: no user can be asked here; --yes runs tools without asking")
            return NOBODY_TO_ASK
        if len(plain_json(call["arguments"])) > MOST_APPROVED:
            self.screen.note(f"  {plain_name(call['tool_name'])} was not run: its arguments are too long to be checked")
            return TOO_LONG
        return None if self._is_approved(call, self.ask) else DECLINED

    def _is_approved(self, call: Json, ask: Callable[[str], str]) -> bool:
        while True:
            self.screen.exhibit(call)  # before each question: what was typed may have moved it out of sight
            match ask(f"  run {plain_name(call['tool_name'])}? {CHOICES}").strip().lower():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False
                case "a" | "always":
                    self.allowed.add(call["tool_name"])
                    return True
