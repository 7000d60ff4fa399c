"""Decompress an answer's body within a size limit."""

from __future__ import annotations

import zlib

from turnstone.domain.errors import FetchFailed

GZIP = 16 + zlib.MAX_WBITS
ENCODINGS = ("gzip", "x-gzip", "deflate")
OVERHEAD_BYTES = 64 * 1024  # the overhead of a compressed body over incompressible content


class Body:
    """Decoder of an answer's body, part by part."""

    def __init__(self, encoding: str | None, max_bytes: int, shown: str) -> None:
        """Start a body.

        Args:
            encoding: the answer's `Content-Encoding`.
            max_bytes: the limit of the decoded body.
            shown: the source, as errors name it.

        Raises:
            FetchFailed: the encoding is not supported.
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
        """Check the announced length. Raises FetchFailed if it is over the limit."""
        limit = self._left_raw_bytes if self._is_compressed else self._left_bytes
        if length_bytes is not None and length_bytes > limit:
            raise self._too_long()

    def feed(self, part: bytes) -> bytes:
        """Return the decoded part. Raises FetchFailed if the body grows over the limit, or is corrupt."""
        if not self._is_compressed:
            return self._counted(part)
        self._left_raw_bytes -= len(part)
        if self._left_raw_bytes < 0:
            raise self._too_long()
        return self._counted(self._inflated(part))

    def end(self) -> None:
        """Finish the body. Raises FetchFailed if it is incomplete."""
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
            # one byte over the limit distinguishes a full body from one too long
            inflated = self._inflating.decompress(part, self._left_bytes + 1)
        except zlib.error as error:
            raise self._broken() from error
        if self._inflating.unused_data:
            raise self._broken()
        return inflated

    def _window(self, begun: bytes) -> int:
        """Return zlib's `wbits`: HTTP's deflate is sent both with zlib's header and without."""
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
