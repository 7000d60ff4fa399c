"""Indexes of memory banks: scores as defined, the same in one segment and in several.

Covers: adapters/retrieval/segments
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstone.adapters.retrieval.segments import K1, B, NumpySegments
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.terms import shares_of, terms_of
from turnstone.ports.memory import Corpus, OpenSegment, SegmentQuestion

SEGMENTS = NumpySegments()
WORDS = ["tern", "turnstone", "knot", "plover", "roskarl", "strandpipare", "渡り鳥", "42"]
CHUNKS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.lists(st.sampled_from(WORDS), max_size=9), st.booleans()), max_size=24
)


def _chunks(rows: Sequence[tuple[str, list[str], bool]]) -> list[DocumentChunk]:
    made = []
    for position, (document_id, words, has_vector) in enumerate(rows):
        text = " ".join(words)
        vector = [random.Random(f"{text}{at}").uniform(-1, 1) for at in range(4)] if has_vector else None
        made.append(DocumentChunk(document_id, position, text, len(words), {"n": position}, vector))
    return made


def _corpus(parts: Sequence[tuple[OpenSegment, Collection[str]]], terms: Sequence[str]) -> Corpus:
    frequencies: Counter[str] = Counter()
    for segment, dropped in parts:
        frequencies.update(segment.frequencies(set(terms), dropped))
    counts = [segment.counted(dropped) for segment, dropped in parts]
    return Corpus(sum(chunks for chunks, _ in counts), sum(terms for _, terms in counts), frequencies)


def _check_equal(found: dict[str, tuple[float, float]], expected: dict[str, tuple[float, float]]) -> None:
    """Compare keyword scores exactly; sums of products of floats depend on the number of rows in their last digits."""
    assert found.keys() == expected.keys()
    for chunk_id, (keyword, vector) in expected.items():
        assert found[chunk_id] == (keyword, pytest.approx(vector, abs=1e-6))


def _scores(parts: Sequence[tuple[OpenSegment, Collection[str]]], text: str) -> dict[str, tuple[float, float]]:
    terms = terms_of(text)
    corpus = _corpus(parts, terms)
    found = {}
    for segment, dropped in parts:
        question = SegmentQuestion(terms, [1, 0.5, -1, 0], corpus, 100, lambda name, _, no=dropped: name not in no)
        for hit in segment.hits(question):
            found[hit.chunk_id] = (hit.keyword_score, hit.vector_score)
    return found


@settings(max_examples=150, deadline=None)
@given(
    CHUNKS,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
    st.integers(0, 24),
    st.sets(st.sampled_from("abcde")),
)
def test_several_segments_score_as_one(
    rows: list[tuple[str, list[str], bool]], words: list[str], cut: int, dropped: set[str]
) -> None:
    chunks, text = _chunks(rows), " ".join(words)
    parts = [(SEGMENTS.open(SEGMENTS.build(some)), dropped) for some in (chunks[:cut], chunks[cut:])]
    whole = SEGMENTS.open(SEGMENTS.build([chunk for chunk in chunks if chunk.document_id not in dropped]))
    expected = _scores([(whole, ())], text)
    _check_equal(_scores(parts, text), expected)
    merged = SEGMENTS.open(SEGMENTS.merge(parts))
    _check_equal(_scores([(merged, ())], text), expected)
    assert merged.document_ids() == whole.document_ids()
    assert (merged.chunks, merged.terms) == (whole.chunks, whole.terms)


def test_the_same_chunks_make_the_same_bytes() -> None:
    chunks = _chunks([("a", ["tern", "knot"], True), ("b", ["knot"], False)])
    body = SEGMENTS.build(chunks)
    assert body == SEGMENTS.build(chunks)
    assert SEGMENTS.merge([(SEGMENTS.open(SEGMENTS.build([chunk])), ()) for chunk in chunks]) == body


def test_attributes_stay_with_their_documents_in_merges_and_win_over_metadata() -> None:
    one, other = _chunks([("a", ["tern"], True), ("b", ["tern"], False)]), _chunks([("a", ["knot"], False)])
    older = SEGMENTS.open(SEGMENTS.build(one, {"a": {"n": "old"}, "b": {"n": "b"}, "unused": {"n": 1}}))
    newer = SEGMENTS.open(SEGMENTS.build(other, {"a": {"of": "a"}}))
    merged = SEGMENTS.open(SEGMENTS.merge([(older, {"a"}), (newer, ())]))
    rows = [merged.row(position) for position in range(merged.chunks)]
    assert [(row.document_id, row.attributes) for row in rows] == [("b", {"n": "b"}), ("a", {"of": "a"})]
    assert [row.values for row in rows] == [{"n": "b"}, {"n": 0, "of": "a"}]


def test_keywords_are_scored_by_bm25() -> None:
    texts = ["tern tern knot", "knot plover", "plover"]
    segment = SEGMENTS.open(SEGMENTS.build([DocumentChunk("d", at, text, 1, {}) for at, text in enumerate(texts)]))
    terms = terms_of("tern")
    found = segment.hits(SegmentQuestion(terms, None, _corpus([(segment, ())], terms), 10))
    lengths = [len(terms_of(text)) for text in texts]
    norm = K1 * (1 - B + B * lengths[0] / (sum(lengths) / 3))
    assert [(hit.position, hit.keyword_score) for hit in found] == [(0, pytest.approx(2 / (2 + norm)))]


def test_a_score_by_keywords_is_the_weighted_part_of_the_question_that_the_chunk_covers() -> None:
    texts = ["tern " * 10_000, "knot", "knot"]
    segment = SEGMENTS.open(SEGMENTS.build([DocumentChunk("d", at, text, 1, {}) for at, text in enumerate(texts)]))

    def score(text: str) -> float:
        terms = terms_of(text)
        hits = segment.hits(SegmentQuestion(terms, None, _corpus([(segment, ())], terms), 10))
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


def test_vectors_are_scored_by_cosine_whatever_their_length() -> None:
    vectors = [[3.0, 4.0], [-3.0, -4.0], [0.0, 0.0], [400.0, 300.0]]
    chunks = [DocumentChunk("d", at, "", 0, {}, vector) for at, vector in enumerate(vectors)]
    segment = SEGMENTS.open(SEGMENTS.build(chunks))
    found = segment.hits(SegmentQuestion((), [30.0, 40.0], Corpus(4, 0, {}), 10))
    assert [hit.position for hit in found] == [0, 3]
    assert [hit.vector_score for hit in found] == pytest.approx([1.0, 0.96], abs=0.01)


def test_the_limit_keeps_the_best_and_of_equal_ones_the_first_ids() -> None:
    chunks = [DocumentChunk("d", at, "tern", 1, {}) for at in range(9)] + [DocumentChunk("d", 9, "tern tern", 2, {})]
    segment = SEGMENTS.open(SEGMENTS.build(chunks))
    terms = terms_of("tern")
    found = segment.hits(SegmentQuestion(terms, None, Corpus(40, 400, segment.frequencies(terms)), 3))
    first = sorted(chunk.chunk_id for chunk in chunks[:9])[:2]
    assert {hit.chunk_id for hit in found} == {*first, chunks[9].chunk_id}


@pytest.mark.parametrize("body", [b"", b"{}\n", b"[1]\n", b"no json\n", b'{"version":1,"rows":[],"shapes":[]}\n'])
def test_another_body_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="segment"):
        SEGMENTS.open(body)


def test_terms_that_most_chunks_contain_are_scored_where_a_question_has_no_others() -> None:
    chunks = [DocumentChunk(str(at), 0, "knot " * (at + 1) + "tern" * (at == 3), 1, {}, None) for at in range(30)]
    parts: list[tuple[OpenSegment, Collection[str]]] = [(SEGMENTS.open(SEGMENTS.build(chunks)), ())]
    assert len(_keyword_hits(parts, "knot")) == 30
    assert len(_keyword_hits(parts, "knot tern")) == 1
    assert _keyword_hits(parts, "plover") == []


def _keyword_hits(parts: Sequence[tuple[OpenSegment, Collection[str]]], text: str) -> list[str]:
    terms = terms_of(text)
    question = SegmentQuestion(terms, None, _corpus(parts, terms), 100)
    return [hit.chunk_id for segment, _ in parts for hit in segment.hits(question)]
