"""Decompressed bodies are kept for the next read, up to a number of bytes.

Covers: store/layout/recent_bodies
"""

from __future__ import annotations

import random
import sys
import threading
import zlib
from types import SimpleNamespace

import pytest

from turnstone.store.layout import recent_bodies
from turnstone.store.layout.recent_bodies import LARGEST_BYTES, RecentBodies


@pytest.fixture
def decompressed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The compressed bodies that were decompressed."""
    seen: list[bytes] = []

    def decompress(compressed: bytes) -> bytes:
        seen.append(compressed)
        return zlib.decompress(compressed)

    monkeypatch.setattr(recent_bodies, "zlib", SimpleNamespace(decompress=decompress))
    return seen


def compressed(number: int, size: int = 1_000) -> bytes:
    return zlib.compress(random.Random(number).randbytes(size))


def test_a_body_is_decompressed_once(decompressed: list[bytes]) -> None:
    bodies = RecentBodies()
    first, again = bodies.inflated(compressed(1)), bodies.inflated(compressed(1))
    assert first is again
    assert first == zlib.decompress(compressed(1))
    assert decompressed == [compressed(1)]


def test_the_last_used_bodies_are_kept_within_their_bytes(decompressed: list[bytes]) -> None:
    bodies = RecentBodies(most_bytes=3 * (len(compressed(1)) + 1_000))
    for number in (1, 2, 3, 1, 4):
        bodies.inflated(compressed(number))
    decompressed.clear()
    for number in (1, 3, 4, 2):
        bodies.inflated(compressed(number))
    assert decompressed == [compressed(2)]
    assert bodies._bytes == sum(len(key) + len(value) for key, value in bodies._bodies.items())


def test_a_large_body_is_not_kept(decompressed: list[bytes]) -> None:
    bodies, large = RecentBodies(), zlib.compress(bytes(LARGEST_BYTES + 1))
    assert bodies.inflated(large) == bodies.inflated(large)
    assert decompressed == [large, large]


@pytest.mark.parametrize("size", [LARGEST_BYTES + 1, 3 * 1024 * 1024])
def test_a_small_form_of_a_large_body_displaces_no_other(decompressed: list[bytes], size: int) -> None:
    bodies, small, large = RecentBodies(), compressed(1), zlib.compress(bytes(size))
    assert len(large) < LARGEST_BYTES
    bodies.inflated(small)
    assert bodies.inflated(large) == bodies.inflated(large) == bytes(size)
    bodies.inflated(small)
    assert decompressed == [small, large, large]


def test_an_empty_body_is_kept(decompressed: list[bytes]) -> None:
    bodies, empty = RecentBodies(), zlib.compress(b"")
    assert bodies.inflated(empty) == bodies.inflated(empty) == b""
    assert decompressed == [empty]


def test_threads_get_their_own_bodies_and_the_bound_holds() -> None:
    forms = [compressed(number, 500) for number in range(60)]
    whole = {form: zlib.decompress(form) for form in forms}
    bodies = RecentBodies(most_bytes=10_000)
    wrong: list[bytes] = []

    def read(seed: int) -> None:
        chosen = random.Random(seed).choices(forms, k=500)
        wrong.extend(form for form in chosen if bodies.inflated(form) != whole[form])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert bodies._bytes == sum(len(key) + len(value) for key, value in bodies._bodies.items()) <= 10_000


def test_a_damaged_body_is_an_error_each_time() -> None:
    bodies = RecentBodies()
    for _ in range(2):
        with pytest.raises(zlib.error):
            bodies.inflated(b"x damaged")
