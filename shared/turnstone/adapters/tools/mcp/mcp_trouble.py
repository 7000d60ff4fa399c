"""Failure of an MCP server, with a message free of headers and queries."""

from __future__ import annotations


class McpTrouble(Exception):
    """The server did not complete the request.

    Attributes:
        is_unsent: whether the request was never sent, or refused unread, so that repeating it is safe.
        is_answer: whether the server answered, with an error.
        is_forbidden: whether a rule of this server forbids its address, or one that it redirects to.
        refused: the status, 401 or 403, of a server that requires other credentials; None for any other failure.
    """

    def __init__(
        self,
        why: str,
        *,
        is_unsent: bool = False,
        is_answer: bool = False,
        is_forbidden: bool = False,
        refused: int | None = None,
    ) -> None:
        super().__init__(why)
        self.refused = refused
        self.is_unsent = is_unsent
        self.is_forbidden = is_forbidden
        self.is_answer = is_answer
