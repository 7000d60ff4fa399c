"""The table of vectors: deterministic vectors of unit length, close for related texts, quick, and loaded at need.

Covers: adapters/embedding/static, adapters/embedding/files
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
import zaragoza_construction_faq as faq

from tests.support.needs import need_embeddings
from turnstone.adapters.embedding.byte_pairs import BytePairs
from turnstone.adapters.embedding.files import TABLE, VOCABULARY
from turnstone.adapters.embedding.static import StaticEmbeddings
from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.texts.chunking import chunks_of
from turnstone.domain.models.requests import EmbeddingRequest

MOST_MS_PER_CHUNK = 0.6


@pytest.fixture(scope="module")
def static() -> StaticEmbeddings:
    return StaticEmbeddings(need_embeddings("static"))


def vectors(static: StaticEmbeddings, *texts: str, dimensions: int | None = None) -> tuple[tuple[float, ...], ...]:
    return static.embed(EmbeddingRequest("static", texts, dimensions)).vectors


def cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def test_every_text_has_a_vector_of_unit_length_and_256_dimensions(static: StaticEmbeddings) -> None:
    for vector in vectors(static, "a cat", "", " ", "\x00", "日本語", "\ud83d", "word " * 10_000):
        assert len(vector) == 256
        assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)


def test_a_vector_is_independent_of_the_texts_beside_it(static: StaticEmbeddings) -> None:
    assert vectors(static, "one", "two", "three")[1] == vectors(static, "two")[0]


def test_a_related_text_is_closer_than_one_about_something_else(static: StaticEmbeddings) -> None:
    question, close, far = vectors(static, "How is a dog fed?", "Food for puppies", "The interest rate of a loan")
    assert cosine(question, close) > cosine(question, far) + 0.2


def test_a_repeated_token_counts_by_its_logarithm(static: StaticEmbeddings) -> None:
    folder = need_embeddings("static")
    table = np.fromfile(folder / TABLE, np.float16).reshape(-1, 256).astype(float)
    cat, dog = BytePairs(json.loads((folder / VOCABULARY).read_bytes())).ids("cat dog")
    expected = (1 + math.log(4)) * table[cat] + table[dog]
    (vector,) = vectors(static, "cat cat cat dog cat")
    assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-4)


def test_fewer_dimensions_are_the_first_ones_and_more_are_not_made(static: StaticEmbeddings) -> None:
    (whole,) = vectors(static, "a cat")
    (short,) = vectors(static, "a cat", dimensions=64)
    length = math.hypot(*whole[:64])
    assert short == pytest.approx([value / length for value in whole[:64]], abs=1e-6)
    assert vectors(static, "a cat", dimensions=1_000) == (whole,)


def test_the_tokens_are_counted(static: StaticEmbeddings) -> None:
    assert static.embed(EmbeddingRequest("static", ("a cat", "a"))).tokens == 3


@pytest.mark.alone
def test_a_chunk_of_512_tokens_takes_little_processor_time(static: StaticEmbeddings) -> None:
    text = " ".join(entry["a"] for entry in faq.load(lang="en"))
    chunks = tuple(cut.text for cut in chunks_of(text, Chunking()))[:60]
    times = []
    for _ in range(4):
        began = time.process_time()
        static.embed(EmbeddingRequest("static", chunks))
        times.append(time.process_time() - began)
    assert min(times) * 1_000 / len(chunks) <= MOST_MS_PER_CHUNK


@pytest.mark.parametrize("damage", ["no table", "short table", "short vocabulary", "no vocabulary"])
def test_files_of_another_size_are_refused(tmp_path: Path, damage: str) -> None:
    (tmp_path / TABLE).write_bytes(b"\0" * (32_000 * 512 - (damage == "short table")))
    (tmp_path / VOCABULARY).write_text("[]" if damage == "short vocabulary" else f"[{','.join(['0'] * 32_000)}]")
    if damage.startswith("no"):
        (tmp_path / {"no table": TABLE, "no vocabulary": VOCABULARY}[damage]).unlink()
    with pytest.raises((ValueError, OSError)):
        StaticEmbeddings(tmp_path)
