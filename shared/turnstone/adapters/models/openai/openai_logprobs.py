"""Read the log probabilities of tokens from servers with the OpenAI API.

Source: the OpenAI API reference, `choices[].logprobs`. -9999 stands for a token that is not among the most likely ones,
and here for a value that JSON cannot hold, such as the minus infinity of some servers.
"""

import sys
from typing import Any

from turnstone.adapters.models.openai.wire_texts import mended
from turnstone.domain.errors import ModelFailed
from turnstone.domain.models.requests import Likelihood, TokenLikelihood

UNLIKELY = -9_999.0
MOST_ENTRIES = 200_000  # tokens and their alternatives
MOST_BYTES = 256  # per token


class Logprobs:
    """Reader of one answer's log probabilities."""

    def __init__(self) -> None:
        self._all: list[TokenLikelihood] = []
        self._taken = 0
        self._entries_left = MOST_ENTRIES

    def read(self, logprobs: object) -> None:
        """Read a chunk; skip invalid entries. Raises ModelFailed over the size limit."""
        if not isinstance(logprobs, dict):
            return
        for name in ("content", "refusal"):
            entries = logprobs.get(name)
            for entry in entries if isinstance(entries, list) else ():
                if (likelihood := self._token(entry)) is not None:
                    self._all.append(likelihood)

    def take(self) -> tuple[TokenLikelihood, ...]:
        """Return the entries read since the last call."""
        some = tuple(self._all[self._taken :])
        self._taken = len(self._all)
        return some

    def all(self) -> tuple[TokenLikelihood, ...]:
        return tuple(self._all)

    def _token(self, entry: object) -> TokenLikelihood | None:
        fields = self._fields(entry)
        if fields is None or not isinstance(entry, dict):
            return None
        others = entry.get("top_logprobs")
        mapped = (self._fields(other) for other in (others if isinstance(others, list) else ()))
        top = tuple(Likelihood(**other) for other in mapped if other is not None)
        return TokenLikelihood(**fields, top_logprobs=top)

    def _fields(self, entry: object) -> dict[str, Any] | None:
        """Return the fields of an entry, None if invalid."""
        self._entries_left -= 1
        if self._entries_left < 0:
            raise ModelFailed("the model server sent more logprobs than this server takes; ask for fewer top_logprobs")
        if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
            return None
        logprob = entry.get("logprob")
        if isinstance(logprob, bool) or not isinstance(logprob, int | float):
            return None
        return {
            "token": mended(entry["token"]),
            "logprob": float(logprob) if abs(logprob) <= sys.float_info.max else UNLIKELY,
            "bytes": _bytes(entry.get("bytes")),
        }


def _bytes(values: object) -> tuple[int, ...] | None:
    if not isinstance(values, list) or len(values) > MOST_BYTES:
        return None
    are_bytes = all(isinstance(value, int) and 0 <= value < 256 for value in values)
    return tuple(map(int, values)) if are_bytes else None
