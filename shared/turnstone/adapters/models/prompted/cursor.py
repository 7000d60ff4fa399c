"""Cursor in a text that a model is still writing: a read may need more text first. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Ending = Literal["open", "whole", "cut"]
SPACES = re.compile(r"\s*")
MOST_STEPS = 30_000  # a fraction of a second


class Unfinished(Exception):
    """More text is needed to decide."""


@dataclass(slots=True)
class Effort:
    """The remaining steps for an answer: values read, brackets expected, positions tried.

    Bounds the time spent on a model's text, which may open a call at every character.
    """

    left: int

    def spend(self, steps: int = 1) -> None:
        """Spend steps. Raises Unreadable if too few are left."""
        self.left -= steps
        if self.left < 0:
            raise Unreadable


class Unreadable(Exception):
    """The expected syntax is not here, whatever follows."""


@dataclass(slots=True)
class Cursor:
    """The reading position.

    Attributes:
        ending: whether more text may come, the model stopped, or the text was cut off.
        effort: shared by the whole answer.
    """

    text: str
    position: int = 0
    ending: Ending = "open"
    effort: Effort = field(default_factory=lambda: Effort(MOST_STEPS))

    @property
    def is_over(self) -> bool:
        """Whether the text is at its end. Raises Unfinished if that may change."""
        if self.position < len(self.text):
            return False
        if self.ending == "open":
            raise Unfinished
        return True

    @property
    def is_ended_by_model(self) -> bool:
        """Whether the model stopped here, so that its open brackets count as closed."""
        return self.is_over and self.ending == "whole"

    def take(self, token: str) -> bool:
        """Consume the token if present; return whether it was. Raises Unfinished for a part of it."""
        if self.text.startswith(token, self.position):
            self.position += len(token)
            return True
        left = len(self.text) - self.position
        if self.ending == "open" and left < len(token) and self.text.endswith(token[:left]):
            raise Unfinished
        return False

    def take_any(self, tokens: Iterable[str]) -> str:
        """Consume and return the first matching token, empty without a match. Raises Unfinished."""
        return next((token for token in tokens if self.take(token)), "")

    def take_match(self, pattern: re.Pattern[str]) -> str:
        """Consume and return the match. Raises Unfinished if the match may become longer."""
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
        """Consume the token. Raises Unreadable if it is missing."""
        self.effort.spend()
        if not self.take(token):
            raise Unreadable
