"""Answers to the calls that a turn waits for: who sits at the terminal is asked, then the tool is run here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from functions.chat.screen import Screen
from functions.chat.wire import Json

if TYPE_CHECKING:
    from functions.chat.tools import ClientTool

QUESTION = "  run it? [y]es, [n]o, [a]lways: "
DECLINED = "Not executed: the user declined this call."
NOBODY_TO_ASK = "Not executed: nobody was there who could allow this call."


@dataclass
class Answering:
    """Runs the tools that are here, each when it is allowed to.

    Attributes:
        ask: puts a question and returns the line that answers it; None where nobody can be asked.
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

        Raises EOFError if whoever is asked has left, KeyboardInterrupt if they end it.
        """
        return [self._answer(call) for call in calls]

    def _answer(self, call: Json) -> Json:
        self.screen.call(call, is_whole=True)
        response = {"call_id": call["call_id"], "tool_name": call["tool_name"], "content": self._content(call)}
        self.screen.response(response, is_whole=False)
        return response

    def _content(self, call: Json) -> str:
        name, arguments = call["tool_name"], call["arguments"]
        if not isinstance(arguments, dict):
            return f"Error: the arguments are no JSON object: {arguments}"
        if not (self.is_allowed or name in self.allowed):
            if self.ask is None:
                self.screen.note(f"  {name} was not run: nobody can be asked here; --yes runs tools without asking")
                return NOBODY_TO_ASK
            if not self._is_agreed(name, self.ask):
                return DECLINED
        return self.tools[name].run(arguments)

    def _is_agreed(self, name: str, ask: Callable[[str], str]) -> bool:
        while True:
            match ask(QUESTION).strip().lower():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False
                case "a" | "always":
                    self.allowed.add(name)
                    return True
