"""Methods of the clients that the server does not have."""

from typing import NamedTuple

from turnstone.domain.errors import NotServed


class Unserved(NamedTuple):
    """A method of a client library, with the request that it sends.

    Attributes:
        path: with names in braces for its variable parts.
        called: its name in the client library.
        instead: the alternative on this server; empty without one.
    """

    method: str
    path: str
    called: str
    instead: str

    def refusal(self) -> NotServed:
        """Return the error for a request that the method sends."""
        message = f"this server does not have {self.called} ({self.method} {self.path})"
        return NotServed(f"{message}; {self.instead}" if self.instead else message)
