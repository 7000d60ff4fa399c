"""Indexes of memory banks: scores as defined, the same in one segment and in several, whole or in layers.

Covers: adapters/retrieval/segments, adapters/retrieval/segment_format, adapters/retrieval/loaded_segment,
adapters/retrieval/merged_columns, adapters/retrieval/postings, adapters/retrieval/scoring, domain/memory/terms
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstone.adapters.retrieval import loaded_segment, postings, scoring, segment_format, segments
from turnstone.adapters.retrieval.scoring import K1, B
from turnstone.adapters.retrieval.segments import NumpySegments
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import Comparison
from turnstone.domain.memory.terms import shares_of, terms_of
from turnstone.ports.memory import OpenSegment, SegmentQuestion

SEGMENTS = NumpySegments()
WORDS = ["tern", "turnstone", "knot", "plover", "roskarl", "strandpipare", "渡り鳥", "42", "a", "hahahaha"]
CHUNKS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.lists(st.sampled_from(WORDS), max_size=9), st.booleans()), max_size=24
)
DROPPED = st.sets(st.sampled_from("abcde"))
VECTOR = [1, 0.5, -1, 0]


@pytest.fixture(autouse=True, params=["small", "large"])
def sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Also build, join and address the few chunks of a test as those of a large segment are."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "large":
            patch.setattr(segments, "BLOCK_CHUNKS", 5)
            patch.setattr(segment_format, "MOST_SHORT", 3)
            patch.setattr(postings, "PIECE_POSTINGS", 7)
            patch.setattr(scoring, "FEW_CHUNKS", 4)
        yield


def _chunks(rows: Sequence[tuple[str, list[str], bool]]) -> list[DocumentChunk]:
    made = []
    for position, (document_id, words, has_vector) in enumerate(rows):
        text = " ".join(words)
        vector = [random.Random(f"{text}{at}").uniform(-1, 1) for at in range(4)] if has_vector else None
        made.append(DocumentChunk(document_id, position, text, len(words), {"n": position}, vector))
    return made


def _opened(chunks: Sequence[DocumentChunk]) -> OpenSegment:
    return SEGMENTS.open(SEGMENTS.build(chunks))


def _check_equal(found: dict[str, tuple[float, float]], expected: dict[str, tuple[float, float]]) -> None:
    """Compare keyword scores exactly; sums of products of floats depend on the number of rows in their last digits."""
    assert found.keys() == expected.keys()
    for chunk_id, (keyword, vector) in expected.items():
        assert found[chunk_id] == (keyword, pytest.approx(vector, abs=1e-6))


def _scores(parts: Sequence[OpenSegment], text: str) -> dict[str, tuple[float, float]]:
    hits = SEGMENTS.hits(parts, SegmentQuestion(terms_of(text), [VECTOR] * len(parts), 100))
    return {hit.chunk_id: (hit.keyword_score, hit.vector_score) for hit in hits}


def _document_ids(segment: OpenSegment) -> list[str]:
    return [segment.row(position).document_id for position in segment.positions()]


@settings(max_examples=100, deadline=None)
@given(CHUNKS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), st.integers(0, 24), DROPPED)
def test_several_segments_score_as_one(
    rows: list[tuple[str, list[str], bool]], words: list[str], cut: int, dropped: set[str]
) -> None:
    chunks, text = _chunks(rows), " ".join(words)
    parts = [_opened(some).without(dropped) for some in (chunks[:cut], chunks[cut:])]
    body = SEGMENTS.build([chunk for chunk in chunks if chunk.document_id not in dropped])
    whole = SEGMENTS.open(body)
    expected = _scores([whole], text)
    _check_equal(_scores(parts, text), expected)
    assert SEGMENTS.merge(parts) == body
    assert _document_ids(whole) == [id for part in parts for id in _document_ids(part)]
    assert (sum(part.chunks for part in parts), sum(part.terms for part in parts)) == (whole.chunks, whole.terms)


@settings(max_examples=100, deadline=None)
@given(CHUNKS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), DROPPED)
def test_keywords_are_scored_by_bm25_as_a_part_of_the_question(
    rows: list[tuple[str, list[str], bool]], words: list[str], dropped: set[str]
) -> None:
    chunks = _chunks(rows)
    counted = [(chunk.chunk_id, Counter(terms_of(chunk.text))) for chunk in chunks if chunk.document_id not in dropped]
    mean = sum(counts.total() for _, counts in counted) / max(1, len(counted))
    frequencies = Counter(term for _, counts in counted for term in counts)
    shares = shares_of(terms_of(" ".join(words)))
    most = len(counted) / 2 if len(counted) >= scoring.FEW_CHUNKS else len(counted)
    rare = {term for term in shares if frequencies[term] <= most}
    terms = rare if any(frequencies[term] for term in rare) else shares.keys()
    weights = {
        term: shares[term] * math.log1p((len(counted) - frequencies[term] + 0.5) / (frequencies[term] + 0.5))
        for term in terms
    }
    expected: dict[str, float] = {}
    for chunk_id, counts in counted:
        norm = K1 * (1 - B + B * counts.total() / mean) if mean else 0.0
        covered = sum(weights[term] * counts[term] / (counts[term] + norm) for term in terms & counts.keys())
        if covered:
            expected[chunk_id] = covered / sum(weights.values())
    question = SegmentQuestion(terms_of(" ".join(words)), [None], 100)
    found = {hit.chunk_id: hit.keyword_score for hit in SEGMENTS.hits([_opened(chunks).without(dropped)], question)}
    assert found == pytest.approx(expected)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(CHUNKS, DROPPED), max_size=4))
def test_a_document_counts_in_the_newest_layer_that_contains_or_drops_it(
    layers: list[tuple[list[tuple[str, list[str], bool]], set[str]]],
) -> None:
    opened = [(_opened(_chunks(rows)), dropped) for rows, dropped in layers]
    found = SEGMENTS.layered(opened)
    newer: set[str] = set()
    for segment, (rows, dropped) in zip(reversed(found), reversed(layers), strict=True):
        assert _document_ids(segment) == [name for name, _, _ in rows if name not in newer]
        newer |= {name for name, _, _ in rows} | dropped


def test_documents_are_distinguished_by_both_halves_of_their_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    def digests_of(document_ids: Collection[str]) -> loaded_segment.Digests:
        return np.array([(1, ord(each)) for each in document_ids], np.uint64).reshape(-1, 2)

    monkeypatch.setattr(loaded_segment, "digests_of", digests_of)
    monkeypatch.setattr(segments, "digests_of", digests_of)
    one, other = _opened(_chunks([(name, ["tern"], False) for name in "abcd"])), _opened(_chunks([("b", [], False)]))
    older, _ = SEGMENTS.layered([(one, ()), (other, {"d"})])
    assert _document_ids(older) == ["a", "c"]
    assert _document_ids(older.without({"c", "x"})) == ["a"]


def test_the_same_chunks_make_the_same_bytes() -> None:
    chunks = _chunks([("a", ["tern", "knot"], True), ("b", ["knot"], False), ("a", ["ruff"], True)] * 5)
    body = SEGMENTS.build(chunks)
    assert body == SEGMENTS.build(chunks)
    assert SEGMENTS.merge([_opened([chunk]) for chunk in chunks]) == body


def test_attributes_stay_with_their_documents_in_merges() -> None:
    one, other = _chunks([("a", ["tern"], True), ("b", ["tern"], False)]), _chunks([("a", ["knot"], False)])
    older = SEGMENTS.open(SEGMENTS.build(one, {"a": {"n": "old"}, "b": {"n": "ü\ud800"}, "unused": {"n": 1}}))
    newer = SEGMENTS.open(SEGMENTS.build(other, {"a": {"of": "a"}}))
    merged = SEGMENTS.open(SEGMENTS.merge([older.without({"a"}), newer]))
    rows = [merged.row(position) for position in range(merged.chunks)]
    assert [tuple(row) for row in rows] == [("b", {"n": 1}, {"n": "ü\ud800"}), ("a", {"n": 0}, {"of": "a"})]


def test_an_occurrence_above_the_limit_of_counts_is_part_of_the_length_only() -> None:
    chunks = [DocumentChunk("d", 0, "42 " * 300 + "tern " * 70_000, 1, {}), DocumentChunk("e", 0, "42", 1, {})]
    segment = _opened(chunks)
    assert segment.terms == 300 + 70_000 * 3 + 1
    (score,) = (hit.keyword_score for hit in SEGMENTS.hits([segment], SegmentQuestion(terms_of("tern"), [None], 9)))
    norm = K1 * (1 - B + B * (segment.terms - 1) / (segment.terms / 2))
    assert score == pytest.approx(255 / (255 + norm))


def test_a_score_by_keywords_is_the_weighted_part_of_the_question_that_the_chunk_covers() -> None:
    texts = ["tern " * 10_000, "knot", "knot"]
    segment = _opened([DocumentChunk("d", at, text, 1, {}) for at, text in enumerate(texts)])

    def score(text: str) -> float:
        terms = terms_of(text)
        hits = SEGMENTS.hits([segment], SegmentQuestion(terms, [None], 10))
        return max(hit.keyword_score for hit in hits)

    assert score("tern") == pytest.approx(1, abs=0.03)
    assert 0.2 < score("tern gull") < 0.5  # a word that no chunk has weighs most
    assert score("tern gull plover") < score("tern gull")


def test_the_pieces_of_a_word_share_a_weight_that_grows_with_the_root_of_their_number() -> None:
    terms = terms_of("tern plover tern")
    assert shares_of(terms) == pytest.approx(
        {**dict.fromkeys(terms_of("tern"), 3**-0.5), **dict.fromkeys(terms_of("plover"), 5**-0.5)}
    )
    assert shares_of(terms_of("tern terns"))["^ter"] == pytest.approx(3**-0.5 + 4**-0.5)
    assert shares_of(terms_of("a 日本語 b")) == {"^a$": 1.0, "日本": 1.0, "本語": 1.0, "^b$": 1.0}


def test_a_letter_that_can_be_a_word_is_found_within_words_and_lengthens_no_text() -> None:
    segment = _opened([DocumentChunk("d", at, text, 1, {}) for at, text in enumerate(["渡り鳥", "魚", "bird"])])
    assert segment.terms == len(terms_of("渡り鳥 魚 bird"))
    for question, position in (("鳥", 0), ("渡", 0), ("魚", 1), ("鳥 tern", 0)):
        found = SEGMENTS.hits([segment], SegmentQuestion(terms_of(question), [None], 10))
        assert [hit.position for hit in found] == [position], question
    assert SEGMENTS.hits([segment], SegmentQuestion(terms_of("b"), [None], 10)) == []


def test_vectors_are_scored_by_cosine_whatever_their_length() -> None:
    vectors = [[3.0, 4.0], [-3.0, -4.0], [0.0, 0.0], [400.0, 300.0]]
    segment = _opened([DocumentChunk("d", at, "", 0, {}, vector) for at, vector in enumerate(vectors)])
    found = SEGMENTS.hits([segment], SegmentQuestion((), [[30.0, 40.0]], 10))
    assert [hit.position for hit in found] == [0, 3]
    assert [hit.vector_score for hit in found] == pytest.approx([1.0, 0.96], abs=0.01)


def test_the_limit_keeps_the_best_and_of_equal_ones_the_first_ids_whatever_segment_they_are_in() -> None:
    chunks = [DocumentChunk("d", at, "tern", 1, {}) for at in range(9)] + [DocumentChunk("d", 9, "tern tern", 2, {})]
    others = [DocumentChunk("e", at, "knot", 1, {}) for at in range(30)]
    first = sorted(chunk.chunk_id for chunk in chunks[:9])[:2]
    for cut in range(11):
        parts = [_opened(some) for some in (chunks[:cut], others, chunks[cut:])]
        found = SEGMENTS.hits(parts, SegmentQuestion(terms_of("tern"), [None] * len(parts), 3))
        assert {hit.chunk_id for hit in found} == {*first, chunks[9].chunk_id}
        assert all(parts[hit.segment].row(hit.position).document_id == "d" for hit in found)


@settings(max_examples=50, deadline=None)
@given(CHUNKS, st.integers(1, 9), st.integers(0, 24))
def test_a_filter_keeps_the_best_of_those_that_match(
    rows: list[tuple[str, list[str], bool]], limit: int, least: int
) -> None:
    chunks = _chunks(rows)
    attributes = {"a": {"n": 30}}
    matching = [chunk for chunk in chunks if chunk.document_id == "a" or chunk.metadata["n"] >= least]
    segment = SEGMENTS.open(SEGMENTS.build(chunks, attributes))
    every = _scores([segment], "tern knot")
    by_keyword, by_vector = (
        sorted(
            (chunk.chunk_id for chunk in matching if every.get(chunk.chunk_id, (0, 0))[half] > 0),
            key=lambda chunk_id, half=half: (-every[chunk_id][half], chunk_id),  # type: ignore[misc]
        )[:limit]
        for half in (0, 1)
    )
    question = SegmentQuestion(terms_of("tern knot"), [VECTOR], limit, Comparison("gte", "n", least).matches)
    assert {hit.chunk_id for hit in SEGMENTS.hits([segment], question)} == {*by_keyword, *by_vector}


def test_a_filter_is_compared_with_few_more_chunks_than_are_found() -> None:
    chunks = [DocumentChunk(str(at), 0, "tern " * (at + 1), 1, {"n": at}) for at in range(100)]
    compared: list[int] = []

    def matches(values: object) -> bool:
        compared.append(0)
        return True

    SEGMENTS.hits([_opened(chunks)], SegmentQuestion(terms_of("tern"), [None], 4, matches))
    assert len(compared) == 4


@pytest.mark.parametrize("body", [b"", b"{}\n", b"[1]\n", b"no json\n", b'{"version":2,"arrays":{}}\n'])
def test_another_body_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="segment"):
        SEGMENTS.open(body)


def test_terms_that_most_chunks_contain_are_scored_where_a_question_has_no_others() -> None:
    chunks = [DocumentChunk(str(at), 0, "knot " * (at + 1) + "tern" * (at == 3), 1, {}, None) for at in range(30)]
    parts = [_opened(chunks)]
    assert len(_keyword_hits(parts, "knot")) == 30
    assert len(_keyword_hits(parts, "knot tern")) == 1
    assert _keyword_hits(parts, "plover") == []


def _keyword_hits(parts: Sequence[OpenSegment], text: str) -> list[str]:
    return [hit.chunk_id for hit in SEGMENTS.hits(parts, SegmentQuestion(terms_of(text), [None] * len(parts), 100))]
