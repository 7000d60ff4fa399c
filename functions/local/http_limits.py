"""Limits of size and time for requests."""

from typing import NamedTuple

BODY_BYTES_PER_S = 500
CHUNK_LINE_BYTES = 16  # the size line of a chunk and the line end after its data, without an extension


class HttpLimits(NamedTuple):
    """Limits of one connection, and of all connections of a process.

    Attributes:
        head_bytes: size of a request's line and fields, and of the trailer and the extensions of a body.
        head_fields: number of fields of a head, and of a trailer.
        head_s: time for a head, from its first byte, or from the start of the connection.
        body_s: period in which at least `BODY_BYTES_PER_S` of a body must arrive for each second.
        keep_alive_s: time between a response and the next request.
        unread_s: time for which a client may read nothing of a pending response.
        connections: number open at the same time in one process.
    """

    head_bytes: int = 65_536
    head_fields: int = 200
    head_s: float = 20
    body_s: float = 20
    keep_alive_s: float = 75  # longer than clients keep idle connections, so that the client closes them
    unread_s: float = 60
    connections: int = 4_096

    @property
    def body_bytes_per_period(self) -> float:
        """Bytes of a body that must arrive in a period."""
        return BODY_BYTES_PER_S * self.body_s


class MessageMeter:
    """Count of the bytes of a message without the data of its body.

    The parser reports no positions. After a piece of input in which a head or a message ends, the count starts at zero,
    not at the number of bytes after that end. A pipelined head may exceed the limit by one piece.

    Attributes:
        spent_bytes: the count.
        has_ended: whether a head or a message ended in the current piece.
        free_bytes: bytes of the current piece that are data or lines around them.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.spent_bytes = 0
        self.has_ended = False
        self.free_bytes = 0

    @property
    def room_bytes(self) -> int:
        """Bytes left; 0 only for a message that is too large, because others have ended by then."""
        return self._limit_bytes - self.spent_bytes

    def count(self, size_bytes: int) -> int:
        """Count a parsed piece; return the count."""
        if self.has_ended:
            self.spent_bytes = 0
            self.has_ended = False
        else:
            self.spent_bytes = max(0, self.spent_bytes + size_bytes - self.free_bytes)
        self.free_bytes = 0
        return self.spent_bytes
