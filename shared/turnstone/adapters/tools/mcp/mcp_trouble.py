"""What goes wrong with an MCP server, in words that tell neither headers nor queries."""

from __future__ import annotations


class McpTrouble(Exception):
    """The server did not do what was asked.

    Attributes:
        is_unsent: what was asked never left this machine, or was refused unread, so asking again does nothing twice.
        is_answer: the server answered, with an error.
        refused: the status, 401 or 403, by which the server wants other credentials; None for all other trouble.
    """

    def __init__(
        self, why: str, *, is_unsent: bool = False, is_answer: bool = False, refused: int | None = None
    ) -> None:
        super().__init__(why)
        self.refused = refused
        self.is_unsent = is_unsent
        self.is_answer = is_answer
