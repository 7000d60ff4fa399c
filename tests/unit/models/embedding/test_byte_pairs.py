"""Byte-pair tokens: the same ids as those of the library whose file the vocabulary comes from.

Covers: adapters/embedding/byte_pairs
"""

from __future__ import annotations

import json
import time
from hashlib import sha256

import pytest
import zaragoza_construction_faq as faq

from tests.support.needs import need_embeddings
from turnstone.adapters.embedding.byte_pairs import LONGEST_CACHED, BytePairs
from turnstone.adapters.embedding.files import VOCABULARY

# The ids of the library `tokenizers` 0.23.3 with the tokenizer's file of wordllama 0.4.0.post1, which is no dependency.
ODD = {
    "": [],
    " ": [259],
    "   a": [1678, 263],
    "a\nb\tc": [263, 13, 29890, 12, 29883],
    "aaaaaaa": [263, 27137, 7340],
    "bygglovshandläggare": [491, 1505, 5590, 845, 392, 9231, 1505, 598],
    "日本語": [29871, 30325, 30346, 30968],
    "👩‍🚀é": [29871, 243, 162, 148, 172, 30722, 243, 162, 157, 131, 29948],
    "<0x0A>": [529, 29900, 29916, 29900, 29909, 29958],
    "▁x▁▁y": [29871, 921, 29871, 343],
}
ALL_IDS = "dbf983132dfd94e1ed213c6a7379e27418f61e5272de4926ca09e78d65823bf4"


@pytest.fixture(scope="module")
def pairs() -> BytePairs:
    return BytePairs(json.loads((need_embeddings("static") / VOCABULARY).read_bytes()))


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_have_the_ids_of_the_library(pairs: BytePairs, text: str) -> None:
    assert ODD[text] == pairs.ids(text)


def test_all_questions_and_answers_in_two_languages_have_the_ids_of_the_library(pairs: BytePairs) -> None:
    digest = sha256()
    for lang in ("en", "sv"):
        for entry in faq.load(lang=lang):
            for text in (entry["q"], entry["a"]):
                digest.update(json.dumps(pairs.ids(text)).encode())
    assert digest.hexdigest() == ALL_IDS


def test_a_word_has_the_same_tokens_within_the_cache_and_beyond_it(pairs: BytePairs) -> None:
    long = "abcdefgh" * LONGEST_CACHED
    assert pairs.ids(long) == pairs.ids(long)
    assert pairs.ids(f"{long} word")[-1:] == pairs.ids("word")


def test_a_long_text_without_spaces_takes_time_in_proportion(pairs: BytePairs) -> None:
    def seconds(text: str) -> float:
        began = time.process_time()
        pairs.ids(text)
        return time.process_time() - began

    assert seconds("日本" * 20_000) < 50 * max(seconds("日本" * 2_000), 0.002)


def test_half_a_pair_of_surrogates_is_one_byte(pairs: BytePairs) -> None:
    assert len(pairs.ids("a\ud83d")) == len(pairs.ids("a")) + 1
