"""What goes wrong with an MCP server, in words that tell neither headers nor queries."""

from __future__ import annotations


class McpTrouble(Exception):
    """The server did not do what was asked.

    Attributes:
        is_unsent: what was asked never left this machine, or was refused unread, so asking again does nothing twice.
        is_answer: the server answered, with an error.
    """

    def __init__(self, why: str, *, is_unsent: bool = False, is_answer: bool = False) -> None:
        super().__init__(why)
        self.is_unsent = is_unsent
        self.is_answer = is_answer
