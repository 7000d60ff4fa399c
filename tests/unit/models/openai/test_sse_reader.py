"""The decoder of server-sent events.

Covers: adapters/outgoing/sse_reader
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.outgoing.sse_reader import EventTooLarge, SseReader

STREAM = (
    "\ufeffdata: first\n\n"
    ": a comment\r\n\r\n"
    "event: note\r\nid: 7\r\ndata: sécond 😀\r\ndata:  line\r\n\r\n"
    "data\rdata:third\r\r"
    "retry: 5\n\n"
    "data: [DONE]\n\n"
    "data: cut off"
).encode()
EVENTS = ["first", "sécond 😀\n line", "\nthird", "[DONE]"]


def decoded(chunks: list[bytes]) -> list[str]:
    reader = SseReader()
    return [event for piece in chunks for event in reader.feed(piece)]


def cut_at(cuts: list[int], stream: bytes = STREAM) -> list[bytes]:
    return [stream[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]


def test_fields_comments_line_ends_and_the_byte_order_mark_follow_the_standard():
    assert decoded([STREAM]) == EVENTS


def test_one_byte_at_a_time_decodes_the_same():
    assert decoded([bytes([byte]) for byte in STREAM]) == EVENTS


@given(st.sets(st.integers(0, len(STREAM))).map(sorted))
def test_any_chunking_decodes_the_same(cuts: list[int]):
    assert decoded(cut_at(cuts)) == EVENTS


@given(st.binary(max_size=40).map(lambda noise: noise + b"\n\ndata: x\n\n"), st.data())
def test_any_chunking_of_any_bytes_decodes_the_same(stream: bytes, data: st.DataObject):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    assert decoded(cut_at(cuts, stream)) == decoded([stream])
    assert decoded([stream])[-1] == "x"


@given(
    st.lists(st.sampled_from(["data: a", "data:b", "data:\u00e9", "data", "datum: c", ": d", "", ""]), max_size=12),
    st.sampled_from(["\n", "\n", "\r\n", "\r"]),
    st.data(),
)
def test_blocks_of_events_decode_as_their_single_bytes(lines: list[str], line_end: str, data: st.DataObject):
    stream = "".join(line + line_end for line in lines).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    assert decoded(cut_at(cuts, stream)) == decoded([bytes([byte]) for byte in stream])


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",))), min_size=1))
def test_encoded_lines_are_decoded_unchanged(lines: list[str]):
    encoded = "".join(f"data: {line}\n" for line in lines) + "\n"
    assert decoded([encoded.encode()]) == ["\n".join(lines)]


def test_an_event_is_out_with_the_first_byte_that_ends_it():
    reader = SseReader()
    assert reader.feed(b"data: a\r\n\r") == ["a"]
    assert reader.feed(b"\ndata: b\r\n\r\n") == ["b"]


def test_invalid_utf_8_is_replaced():
    assert decoded([b"data: a\xffb\n\n"]) == ["a\ufffdb"]


def test_an_event_over_the_limit_is_refused_as_one_line_and_as_many():
    with pytest.raises(EventTooLarge, match="more than 10 bytes"):
        SseReader(10).feed(b"data: 12345")
    with pytest.raises(EventTooLarge):
        SseReader(10).feed(b"data: 1\n" * 10)


def test_the_limit_is_for_one_event_not_for_the_stream():
    reader = SseReader(10)
    assert [reader.feed(b"data: 123\n\n: ping\n") for _ in range(10)] == [["123"]] * 10
