"""The encoding of a model's answer by a dialect, as the replies of its routes take it; imported for types only."""

from __future__ import annotations

from typing import Any, Protocol

from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.models.requests import TokenLikelihood


class AnswerEncoder(Protocol):
    """A dialect's encoding of a model's answer: whole, or as the data of server-sent events.

    A chat's answer is an Inferred, streamed after its texts. Continuations of texts are Continuations, streamed after
    their texts and the Continued of each.
    """

    def whole(self, answer: Any, /) -> bytes: ...

    def begun(self) -> bytes: ...

    def encoded(self, part: Any, logprobs: tuple[TokenLikelihood, ...] = (), /) -> bytes: ...

    def ended(self, answer: Any, /) -> bytes: ...

    def failed(self, message: str, code: ErrorCode) -> bytes: ...
