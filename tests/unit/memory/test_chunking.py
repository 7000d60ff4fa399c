"""Chunks of texts, and terms for keyword search.

Covers: domain/memory/texts/chunking, domain/memory/terms
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.terms import terms_of
from turnstone.domain.memory.texts.chunking import chunks_of, count_tokens, first_tokens

WORDS = st.sampled_from(["alpha", "Konstantinopel", "x.", "漢字", "42", "\n\n", "end. ", "a_b", "(", "ö", "# T\n"])
TEXTS = st.lists(WORDS, max_size=300).map(" ".join)
SIZES = st.builds(Chunking, tokens=st.integers(1, 60), overlap=st.integers(0, 40))


@settings(max_examples=150, deadline=None)
@given(TEXTS, SIZES, st.booleans())
def test_chunks_keep_to_the_limit_and_leave_nothing_out(text: str, chunking: Chunking, has_headings: bool) -> None:
    cuts = list(chunks_of(text, chunking, has_headings=has_headings))
    for cut in cuts:
        assert cut.tokens == count_tokens(cut.text)
        assert cut.tokens <= chunking.tokens
    if chunking.tokens >= 8:  # room for the longest of these words, even below headings
        assert set(terms_of(text)) <= set(terms_of(" ".join(cut.text for cut in cuts)))
    if not has_headings:
        assert sum(cut.tokens for cut in cuts) >= count_tokens(text)


def test_neighbours_overlap_and_a_chunk_prefers_to_end_with_a_sentence() -> None:
    text = "one two three four five six seven eight. nine ten eleven twelve"
    first, second = chunks_of(text, Chunking(tokens=10, overlap=3))
    assert first.text == "one two three four five six seven eight."
    assert second.text.startswith("seven eight.")
    assert second.text.endswith("twelve")


def test_a_chunk_does_not_end_within_a_word() -> None:
    first, second = chunks_of("alpha Konstantinopel", Chunking(tokens=3, overlap=0))
    assert (first.text, second.text) == ("alpha", "Konstantinopel")


def test_a_chunk_of_markdown_begins_with_the_headings_above_it() -> None:
    text = "# Guide\n\nintro\n\n## Cold\nbody\n\n# End\nlast"
    texts = [cut.text for cut in chunks_of(text, Chunking(), has_headings=True)]
    assert texts == ["# Guide\n\nintro", "Guide\n## Cold\nbody", "# End\nlast"]


def test_each_chunk_of_a_long_section_begins_with_its_headings() -> None:
    text = "# Guide\n## Cold\n" + "one two three four five six seven eight nine ten"
    texts = [cut.text for cut in chunks_of(text, Chunking(tokens=10, overlap=0), has_headings=True)]
    assert texts[1:] == [
        "Guide\n## Cold\none two three four",
        "Guide > Cold\nfive six seven eight nine ten",
    ]


def test_a_heading_in_a_block_of_code_is_none() -> None:
    text = "# Guide\n```sh\n# install\n~~~\n``` no end\n```\n\n~~~~\n# b\n~~~~~\n# End\nlast"
    texts = [cut.text for cut in chunks_of(text, Chunking(), has_headings=True)]
    assert texts == [text.partition("\n# End")[0], "# End\nlast"]


def test_the_first_tokens_are_counted() -> None:
    assert first_tokens("one two, three", 3) == "one two,"
    assert first_tokens("one two", 2) == "one two"
    assert first_tokens("one", 0) == ""


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Blåbär", ["^bla", "blab", "laba", "abar", "bar$"]),
        ("a", ["^a$"]),
        ("漢字仮", ["漢字", "字仮"]),
        ("漢", ["漢"]),
        ("… -- !", []),
        ("STRASSE ﬁn", ["^str", "stra", "tras", "rass", "asse", "sse$", "^fin", "fin$"]),
    ],
)
def test_terms_are_pieces_of_folded_words(text: str, terms: list[str]) -> None:
    assert terms_of(text) == terms
