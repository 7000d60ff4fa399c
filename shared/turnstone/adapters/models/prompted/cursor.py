"""A place in a text that a model is still writing: reading there may find that more has to come first. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Ending = Literal["open", "whole", "cut"]
SPACES = re.compile(r"\s*")
MOST_STEPS = 30_000  # a fraction of a second


class Unfinished(Exception):
    """What comes next decides, and it has not come yet."""


@dataclass(slots=True)
class Effort:
    """How many more steps an answer is worth: a value read, a bracket expected, a place tried.

    It bounds the time that a model's text can take, which may open a call at every character.
    """

    left: int

    def spend(self, steps: int = 1) -> None:
        """Take so many steps. Raises Unreadable if there were too few."""
        self.left -= steps
        if self.left < 0:
            raise Unreadable


class Unreadable(Exception):
    """What is written here is not what was looked for, whatever follows."""


@dataclass(slots=True)
class Cursor:
    """Where to read on.

    Attributes:
        ending: whether more of the text may come, the model ended it, or it was cut off.
        effort: that of the whole answer.
    """

    text: str
    position: int = 0
    ending: Ending = "open"
    effort: Effort = field(default_factory=lambda: Effort(MOST_STEPS))

    @property
    def is_over(self) -> bool:
        """Whether nothing is left. Raises Unfinished if that may change."""
        if self.position < len(self.text):
            return False
        if self.ending == "open":
            raise Unfinished
        return True

    @property
    def is_ended_by_model(self) -> bool:
        """Whether the model stopped here, so that the brackets it left open can be taken for closed."""
        return self.is_over and self.ending == "whole"

    def take(self, token: str) -> bool:
        """Go behind the token if it is here; tell whether it was. Raises Unfinished if only its beginning is."""
        if self.text.startswith(token, self.position):
            self.position += len(token)
            return True
        left = len(self.text) - self.position
        if self.ending == "open" and left < len(token) and self.text.endswith(token[:left]):
            raise Unfinished
        return False

    def take_any(self, tokens: Iterable[str]) -> str:
        """Return the first of the tokens that was here, empty if none was. Raises Unfinished."""
        return next((token for token in tokens if self.take(token)), "")

    def take_match(self, pattern: re.Pattern[str]) -> str:
        """Return what matches here, and go behind it. Raises Unfinished if the match might go on."""
        match = pattern.match(self.text, self.position)
        end = match.end() if match else self.position
        if end == len(self.text) and self.ending == "open":
            raise Unfinished
        matched = self.text[self.position : end]
        self.position = end
        return matched

    def skip_spaces(self) -> None:
        self.take_match(SPACES)

    def expect(self, token: str) -> None:
        """Go behind the token. Raises Unreadable if something else is here."""
        self.effort.spend()
        if not self.take(token):
            raise Unreadable
