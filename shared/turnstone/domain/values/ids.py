"""Ids and order keys: UUIDs of version 7, whose text sorts by the millisecond of their creation.

Source: RFC 9562, section 5.7.
"""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(at: datetime) -> int:
    """Return the whole milliseconds since 1970."""
    passed = at - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000 + passed.microseconds // 1_000


def uuid7(unix_ms: int, randomness: bytes) -> str:
    """Return the UUIDv7 of that millisecond; 10 random bytes make it unique."""
    value = unix_ms << 80 | int.from_bytes(randomness[:10])
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid_text(f"{value:032x}")


def uuid_text(digits: str) -> str:
    """Return the UUID of these 32 hexadecimal digits."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def uuid7_milliseconds(text: str) -> int:
    """Return the millisecond in which a UUIDv7 was created."""
    # the form in which ids are made; UUID also reads others, and takes several times as long
    return int(text[:8] + text[9:13], 16) if UUID_TEXT.fullmatch(text) else UUID(text).int >> 80


def moment_of(text: str) -> datetime:
    """Return the time at which a UUIDv7 was created, the beginning of 1970 for any other text."""
    return _EPOCH + timedelta(milliseconds=uuid7_milliseconds(text) if _is_version_7(text) else 0)


def _is_version_7(text: str) -> bool:
    if UUID_TEXT.fullmatch(text):
        return text[14] == "7" and text[19] in "89ab"
    try:
        return UUID(text).version == 7
    except ValueError:
        return False


def order_key(at: datetime, previous: str | None, randomness: bytes) -> str:
    """Return a UUIDv7 of that time, or of the millisecond after `previous` if the clock stands still or went back."""
    unix_ms = milliseconds(at)
    if previous is not None:
        unix_ms = max(unix_ms, uuid7_milliseconds(previous) + 1)
    return uuid7(unix_ms, randomness)
