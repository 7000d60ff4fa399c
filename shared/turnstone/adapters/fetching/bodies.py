"""The bytes of an answer as they were before they were compressed, never more of them than were asked for."""

from __future__ import annotations

import zlib

from turnstone.domain.errors import FetchFailed

GZIP = 16 + zlib.MAX_WBITS
ENCODINGS = ("gzip", "x-gzip", "deflate")
OVERHEAD_BYTES = 64 * 1024  # of a compressed body over what it holds, where that can't be made smaller


class Body:
    """Takes an answer's parts as they arrive and gives what they hold."""

    def __init__(self, encoding: str | None, max_bytes: int, shown: str) -> None:
        """Begin.

        Args:
            encoding: the answer's `Content-Encoding`.
            max_bytes: how many bytes the whole may hold.
            shown: what errors tell of where it is from.

        Raises:
            FetchFailed: what the encoding is like is not known here.
        """
        self._encoding = (encoding or "").strip().lower()
        self._left_bytes = max_bytes
        self._left_raw_bytes = max_bytes + OVERHEAD_BYTES
        self._max_bytes = max_bytes
        self._shown = shown
        self._inflating: zlib._Decompress | None = None
        self._begun = bytearray()
        if self._encoding not in ("", "identity", *ENCODINGS):
            raise FetchFailed(shown, "its answer is compressed in a way that was not requested")

    def announce(self, length_bytes: int | None) -> None:
        """Take note of how long the body is said to be. Raises FetchFailed: that is too long."""
        limit = self._left_raw_bytes if self._is_compressed else self._left_bytes
        if length_bytes is not None and length_bytes > limit:
            raise self._too_long()

    def feed(self, part: bytes) -> bytes:
        """Return what the part holds. Raises FetchFailed: with it there is too much, or it can't be read."""
        if not self._is_compressed:
            return self._counted(part)
        self._left_raw_bytes -= len(part)
        if self._left_raw_bytes < 0:
            raise self._too_long()
        return self._counted(self._inflated(part))

    def end(self) -> None:
        """Take note that nothing follows. Raises FetchFailed: something should."""
        if self._begun or (self._inflating is not None and not self._inflating.eof):
            raise self._broken()

    @property
    def _is_compressed(self) -> bool:
        return self._encoding in ENCODINGS

    def _inflated(self, part: bytes) -> bytes:
        if self._inflating is None:
            self._begun += part
            if len(self._begun) < 2:
                return b""
            part, self._begun = bytes(self._begun), bytearray()
            self._inflating = zlib.decompressobj(self._window(part))
        try:
            # one byte more than there may be tells the two apart
            inflated = self._inflating.decompress(part, self._left_bytes + 1)
        except zlib.error as error:
            raise self._broken() from error
        if self._inflating.unused_data:
            raise self._broken()
        return inflated

    def _window(self, begun: bytes) -> int:
        """Return how zlib reads it: what HTTP calls deflate is sent with zlib's header and without."""
        if self._encoding != "deflate":
            return GZIP
        has_header = begun[0] & 0x0F == 8 and int.from_bytes(begun[:2], "big") % 31 == 0
        return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS

    def _counted(self, part: bytes) -> bytes:
        self._left_bytes -= len(part)
        if self._left_bytes < 0:
            raise self._too_long()
        return part

    def _too_long(self) -> FetchFailed:
        return FetchFailed(self._shown, f"its answer is longer than {self._max_bytes} bytes")

    def _broken(self) -> FetchFailed:
        return FetchFailed(self._shown, "its answer is compressed, and broken")
