"""MiniLM: its tokenizer has the ids of the library, its vectors are those of its model; only where it is installed.

Covers: adapters/embedding/minilm, adapters/embedding/word_pieces
"""

from __future__ import annotations

import json
import math
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zaragoza_construction_faq as faq

from tests.support.needs import need_embeddings
from turnstone.adapters.embedding.files import NETWORK, WORDS
from turnstone.adapters.embedding.word_pieces import WordPieces
from turnstone.domain.models.requests import EmbeddingRequest

if TYPE_CHECKING:
    from turnstone.adapters.embedding.minilm import MiniLmEmbeddings

pytestmark = pytest.mark.nightly
# The ids of the library `tokenizers` 0.23.3 with the tokenizer's file of all-MiniLM-L6-v2, which is no dependency.
ODD = {
    "": [],
    "Hello, World!": [7592, 1010, 2088, 999],
    "naïve ΣΑΣ": [15743, 1173, 14608, 29733],
    "漢字かな": [1904, 100, 1651, 30193],
    "a\u200bb\x00c": [5925],
    "x" * 101: [100],
    "don't $5.00": [2123, 1005, 1056, 1002, 1019, 1012, 4002],
    "한국어": [1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008],
    "İstanbul": [9960],
}
ALL_IDS = "c2f4350baf921d2f682928ad94d6186b1157cfa28ff68f014770ea90ed3a47ae"


@pytest.fixture(scope="module")
def folder() -> Path:
    return need_embeddings("minilm")


@pytest.fixture(scope="module")
def pieces(folder: Path) -> WordPieces:
    return WordPieces(json.loads((folder / WORDS).read_bytes()))


@pytest.fixture(scope="module")
def minilm(folder: Path) -> MiniLmEmbeddings:
    from turnstone.adapters.embedding.minilm import MiniLmEmbeddings

    return MiniLmEmbeddings(folder)


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_have_the_ids_of_the_library(pieces: WordPieces, text: str) -> None:
    assert ODD[text] == pieces.ids(text)


def test_all_questions_and_answers_in_two_languages_have_the_ids_of_the_library(pieces: WordPieces) -> None:
    digest = sha256()
    for lang in ("en", "sv"):
        for entry in faq.load(lang=lang):
            for text in (entry["q"], entry["a"]):
                digest.update(json.dumps(pieces.ids(text)).encode())
    assert digest.hexdigest() == ALL_IDS


def test_vectors_have_unit_length_also_of_texts_longer_than_the_network_takes(minilm: MiniLmEmbeddings) -> None:
    embedded = minilm.embed(EmbeddingRequest("minilm", ("a cat", "", "word " * 2_000)))
    assert embedded.tokens == 2_002
    for vector in embedded.vectors:
        assert len(vector) == 384
        assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)


def test_the_end_of_a_long_text_counts(minilm: MiniLmEmbeddings) -> None:
    begin = "word " * 300
    cats, loans = minilm.embed(EmbeddingRequest("minilm", (f"{begin} cats", f"{begin} loans"))).vectors
    assert cats != loans


def test_a_related_text_is_closer_than_one_about_something_else(minilm: MiniLmEmbeddings) -> None:
    texts = ("How is a dog fed?", "Food for puppies", "The interest rate of a loan")
    question, close, far = minilm.embed(EmbeddingRequest("minilm", texts)).vectors
    assert math.fsum(a * b for a, b in zip(question, close, strict=True)) > 0.4
    assert math.fsum(a * b for a, b in zip(question, far, strict=True)) < 0.2


def test_a_file_that_is_no_network_is_refused(folder: Path, tmp_path: Path) -> None:
    from turnstone.adapters.embedding.minilm import MiniLmEmbeddings

    (tmp_path / WORDS).write_bytes((folder / WORDS).read_bytes())
    (tmp_path / NETWORK).write_bytes(b"no network")
    with pytest.raises(ValueError, match="is not the network"):
        MiniLmEmbeddings(tmp_path)
