"""Incremental decoder of server-sent events: bytes in as they arrive, the data of each event out.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html. Only `data` matters here; other fields are
ignored. As specified there, an event cut off by the end of the stream is dropped.
"""

MAX_EVENT_BYTES = 16 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """An event over the decoder's size limit."""


class SseReader:
    """Decodes one stream, independent of its division into chunks."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_first_line = True
        self._ended_in_cr = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of the events that these bytes complete. Raises EventTooLarge."""
        if not chunk:
            return []
        if self._is_whole_event(chunk):
            self._is_first_line = self._ended_in_cr = False
            return [chunk[5:-2].removeprefix(b" ").decode("utf-8", "replace")]
        if self._ended_in_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._ended_in_cr = chunk[-1:] == b"\r"
        events: list[str] = []
        for piece in chunk.splitlines(keepends=True):
            text = piece.rstrip(b"\r\n")
            self._line += text
            if self._data_bytes + len(self._line) > self._max_event_bytes:
                raise EventTooLarge(f"an event of more than {self._max_event_bytes} bytes")
            if len(text) < len(piece):
                self._end_line(events)
        return events

    def _is_whole_event(self, chunk: bytes) -> bool:
        """Return whether the chunk is one event with one line of data, which servers mostly send, and nothing else."""
        return (
            chunk.startswith(b"data:")
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk.endswith(b"\n")
            and b"\r" not in chunk
            and not (self._line or self._data)
            and len(chunk) <= self._max_event_bytes
        )

    def _end_line(self, events: list[str]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._is_first_line:
            line = line.removeprefix(BYTE_ORDER_MARK)
            self._is_first_line = False
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._data_bytes += len(value) + 1
        elif self._data:
            events.append(b"\n".join(self._data).decode("utf-8", "replace"))
            self._data.clear()
            self._data_bytes = 0
