"""Long texts that are left in the store: any reading of a record restores them byte for byte.

Covers: store/layout/lost_records, store/sessions/long_texts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from turnstone.domain.errors import ContentLost, StoreUnavailable
from turnstone.ports.records import Key, Record
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.sessions import long_texts
from turnstone.store.sessions.long_texts import with_long_texts_left

Result = TypeVar("Result")
SHORT = 8
ENDED = {"status": "completed"}
TEXTS = st.text(st.sampled_from('ab"\\\n\u00e9\u2603\U0001f600{}[]:,'), max_size=40)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@pytest.fixture(autouse=True, scope="module")
def short_texts_count_as_long() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_texts, "LONG_BYTES", SHORT)
        yield


class Stored:
    """A stored body, read in pieces of some sizes."""

    def __init__(self, body: bytes, cuts: list[int]) -> None:
        self.body = body
        self.readings = 0
        self._cuts = sorted({cut % (len(body) + 1) for cut in cuts})

    def record(self, **attributes: str) -> Record:
        return Record(Key("p", "turn:t"), b"", attributes or ENDED, 1, self)

    def read_by(self, consume: Callable[[Iterator[bytes]], Result]) -> Result:
        return consume(self())

    def __call__(self) -> Iterator[bytes]:
        self.readings += 1
        ends = [*self._cuts, len(self.body)]
        for begin, end in zip([0, *self._cuts], ends, strict=True):
            yield self.body[begin:end]


@given(VALUES, st.lists(st.integers(0, 999), max_size=9))
def test_a_body_is_restored_however_it_comes_in_pieces(value: object, cuts: list[int]) -> None:
    body = to_json({"v": 1}) + b"\n" + to_json(value)
    record, restore = with_long_texts_left(Stored(body, cuts).record())
    if restore is None:
        assert record.body == body
    else:
        assert b"".join(restore((record.body,))) == body
    assert type(from_json(record.body.split(b"\n", 1)[1])) is type(value), "marks are not within strings"
    assert record.pieces is None


def test_quotes_and_backslashes_are_understood_wherever_pieces_end() -> None:
    body = to_json(['a"b\\', '\\"' * 10, {"k": 'x\\\\"' * 9}])
    for cut in range(len(body)):
        record, restore = with_long_texts_left(Stored(body, [cut, cut + 1]).record())
        assert restore is not None
        first, second, third = from_json(record.body)
        assert first == 'a"b\\'
        assert "\\" not in second + third["k"]
        assert b"".join(restore((record.body,))) == body


@given(st.lists(st.text(min_size=10, max_size=30), min_size=1, max_size=5), st.lists(st.integers(0, 999), max_size=9))
def test_texts_of_a_body_are_restored_in_any_order_and_more_than_once(texts: list[str], cuts: list[int]) -> None:
    record, restore = with_long_texts_left(Stored(to_json(texts), cuts).record())
    assert restore is not None
    marks = from_json(record.body)
    made = {"backwards": marks[::-1], "twice": [*marks, *marks], "joined": "\n".join(marks)}
    parts = [to_json(marks), to_json(made)]
    expected = {"backwards": texts[::-1], "twice": [*texts, *texts], "joined": "\n".join(texts)}
    assert b"".join(restore(parts)) == to_json(texts) + to_json(expected)


def test_texts_are_read_forward_where_they_come_in_their_order() -> None:
    stored = Stored(to_json(["a" * 20, "b" * 20, "c" * 20]), [10, 30, 50])
    record, restore = with_long_texts_left(stored.record())
    assert restore is not None
    assert b"".join(restore((record.body,))) == stored.body
    assert stored.readings == 2


def test_a_mark_is_short_and_no_text_can_predict_it() -> None:
    body = to_json(["a" * 100_000])
    (first, _), (second, _) = (with_long_texts_left(Stored(body, []).record()) for _ in range(2))
    assert len(first.body) < 60
    assert first.body != second.body


def test_a_turn_that_may_change_is_read_whole() -> None:
    body = to_json(["a" * 20])
    record, restore = with_long_texts_left(Stored(body, [5]).record(status="in_progress"))
    assert (record.body, restore) == (body, None)


def test_a_record_that_came_whole_stays_as_it_is() -> None:
    record = Record(Key("p", "turn:t"), b"body", ENDED, 1)
    assert with_long_texts_left(record) == (record, None)


def test_a_lost_record_is_lost_for_every_reader() -> None:
    class Lost(Stored):
        def read_by(self, _: Callable[[Iterator[bytes]], Result]) -> Result:
            raise ContentLost("turn", "t")

    record, restore = with_long_texts_left(Lost(b"", []).record())
    assert isinstance(record, LostRecord)
    assert restore is None


def test_a_body_that_became_shorter_aborts_the_answer() -> None:
    stored = Stored(to_json(["a" * 20]), [])
    record, restore = with_long_texts_left(stored.record())
    assert restore is not None
    stored.body = b'["a'
    with pytest.raises(StoreUnavailable):
        list(restore((record.body,)))
