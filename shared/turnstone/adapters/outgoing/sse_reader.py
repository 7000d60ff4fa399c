"""Incremental decoder of server-sent events: bytes in as they arrive, the data of each event out.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html. Only `data` matters here; other fields are
ignored. As specified there, an event cut off by the end of the stream is dropped.
"""

MAX_EVENT_BYTES = 16 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
END = b"\n\n"  # of an event, as most servers send it


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
        events: list[str] = []
        if self._line or self._data:
            end = chunk.find(END) + len(END)
            self._read_lines(chunk[:end] if end >= len(END) else chunk, events)
            chunk = chunk[end:] if end >= len(END) else b""
        if not (self._line or self._data):
            end = chunk.rfind(END) + len(END)
            if end >= len(END) and (plain := self._plain_events(chunk[:end])) is not None:
                events += plain
                chunk = chunk[end:]
        self._read_lines(chunk, events)
        return events

    def _plain_events(self, chunk: bytes) -> list[str] | None:
        """Return the data of events of one line each, which servers mostly send; None if there is anything else."""
        if not chunk.startswith(b"data:") or b"\r" in chunk or len(chunk) > self._max_event_bytes:
            return None
        events = chunk[5:-2].decode("utf-8", "replace").split("\n\ndata:")
        if chunk.count(b"\n") != 2 * len(events):
            return None
        self._is_first_line = self._ended_in_cr = False
        return [event.removeprefix(" ") for event in events]

    def _read_lines(self, chunk: bytes, events: list[str]) -> None:
        if not chunk:
            return
        if self._ended_in_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._ended_in_cr = chunk[-1:] == b"\r"
        for piece in chunk.splitlines(keepends=True):
            text = piece.rstrip(b"\r\n")
            self._line += text
            if self._data_bytes + len(self._line) > self._max_event_bytes:
                raise EventTooLarge(f"an event of more than {self._max_event_bytes} bytes")
            if len(text) < len(piece):
                self._end_line(events)

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
