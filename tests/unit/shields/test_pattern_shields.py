"""Patterns and words: they find any spelling, and no expression can block the server.

Covers: adapters/shields/pattern
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from turnstone.adapters.shields.pattern import MOST_WORK, PatternShield, plain_words
from turnstone.domain.errors import InvalidRequest, ShieldFailed
from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage, UserMessage
from turnstone.domain.shields.shields import PatternParams
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.content import Image, ImageItem, TextItem

LONG = 200_000


def found(params: dict[str, Any], *messages: Message | str, **more: Any) -> list[str]:
    judged = tuple(UserMessage(content=m) if isinstance(m, str) else m for m in messages)
    question = ShieldQuestion(judged=judged, touchpoint="user-input", **more)
    violation = PatternShield(PatternParams(**params)).judge(question).violation
    return [] if violation is None else list(violation.metadata["found"])


@pytest.mark.parametrize(
    "text",
    [
        "a BAD thing",
        "bad",
        "“bad!”",
        "so,bad,that",
        "ｂａｄ",
        "b\u200bad",
        "b\u00adad",
        "b\ufe0fad",
        "ba\u034fd",
        "ba\u3164d",
        "b\U000e0101ad",
        "b\x00a\x08d",
        "b\u180cad",
        "bad_word",
        "Bad\nword",
        "ба́ bad",
    ],
)
def test_a_word_is_found_in_any_spelling(text: str) -> None:
    assert found({"words": ["bad"]}, text) == ["words.0"]


@pytest.mark.parametrize("text", ["badly", "unbad", "b a d", "bäd", "b.a.d", "bad2", ""])
def test_a_part_of_a_word_is_not_the_word(text: str) -> None:
    assert found({"words": ["bad"]}, text) == []


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("straße", "die STRASSE dort"),
        ("Café", "cafe\u0301 au lait"),
        ("Café", "cafe\u034f\u0301 au lait"),
        ("credit card", "my Credit-Card, please"),
        ("credit card", "credit\n\tcard"),
        ("ＡＢＣ", "abc"),
        ("हिन्दी", "यह हिन्दी है"),
        ("İ", "i\u0307"),
    ],
)
def test_words_are_compared_as_people_read_them(word: str, text: str) -> None:
    assert found({"words": ["other", word]}, text) == ["words.1"]


def test_a_mark_over_a_letter_makes_another_word() -> None:
    assert found({"words": ["हि"]}, "हिन्दी") == []
    assert plain_words("naïve  co-operation") == "naïve co operation"


def test_patterns_are_searched_for_in_the_text_as_it_is() -> None:
    patterns = [r"\b\d{4}-\d{4}\b", r"(?i)secret", r"\p{Greek}"]
    assert found({"patterns": patterns}, "card 1234-5678") == ["patterns.0"]
    assert found({"patterns": patterns}, "SECRET α") == ["patterns.1", "patterns.2"]
    assert found({"patterns": patterns, "words": ["x"]}, "nothing") == []


def test_every_judged_text_is_searched_and_earlier_messages_are_not() -> None:
    params = {"words": ["bad"]}
    assert found(params, UserMessage(content="fine", context="bad")) == ["words.0"]
    assert found(params, ToolResponseMessage(call_id="c", content=[TextItem(text="x"), TextItem(text="bad")])) == [
        "words.0"
    ]
    assert found(params, CompletionMessage(content="bad", stop_reason="end_of_turn"), "bad") == ["words.0", "words.0"]
    assert found(params, "fine", before=(UserMessage(content="bad"),)) == []
    image = ImageItem(image=Image(data="YmFk"))
    assert found(params, UserMessage(content=(image,))) == []


def test_half_a_character_is_skipped() -> None:
    assert found({"patterns": ["b.d"], "words": ["bad"]}, "\ud800 bad") == ["patterns.0", "words.0"]


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*$", r"(.*)*x", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(a*)*b"])
def test_no_expression_takes_longer_than_the_text(pattern: str) -> None:
    began = time.process_time()
    found({"patterns": [pattern]}, "a" * LONG + "!")
    assert time.process_time() - began < 1


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", r"(?=a)", r"((a{500}){500}){500}", "[z-a]", r"\8"])
def test_a_pattern_without_linear_time_is_refused_by_its_location(pattern: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        PatternShield(PatternParams(patterns=("a", pattern)))
    assert refused.value.location == ("params", "patterns", 1)
    assert str(refused.value).startswith("params.patterns.1: ")


@pytest.mark.parametrize("word", ["!", " ", "\u200b", "—"])
def test_a_word_without_a_letter_or_digit_is_refused(word: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        PatternShield(PatternParams(words=("a", word)))
    assert refused.value.location == ("params", "words", 1)


def test_all_expressions_of_a_shield_together_have_their_memory() -> None:
    large = r"\pL{50}"
    assert found({"patterns": [large]}, "a" * 50) == ["patterns.0"]
    with pytest.raises(InvalidRequest, match="too large"):
        PatternShield(PatternParams(patterns=(large,) * 100))
    assert found({"patterns": [r"(?i)\bsecret\b", r"\d{4}-\d{4}", r"\pL+@\pL+"] * 33}, "SECRET") != []


def test_a_cancelled_search_ends() -> None:
    stop = StopSignal()
    stop.set()
    with pytest.raises(ShieldFailed, match="was cancelled"):
        found({"patterns": ["a"]}, "a", stop=stop)


def test_a_text_too_long_for_a_pattern_is_not_judged_unless_something_else_is_found() -> None:
    patterns, text = [r"[ab]*a[ab]{900}c", "here"], "a" * (MOST_WORK // 900 + 1)
    with pytest.raises(
        ShieldFailed, match=r"^params.patterns.0 is too complex an expression for a text of this length$"
    ):
        found({"patterns": patterns}, text)
    assert found({"patterns": patterns}, f"{text} here") == ["patterns.1"]


def test_words_are_found_in_little_more_memory_than_the_text_takes() -> None:
    text = "\ufdfa" * 10_000  # eighteen characters, as people read each
    tracemalloc.start()
    try:
        assert found({"words": ["bad"]}, text) == []
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 1_000 * len(text)


@pytest.mark.parametrize(
    "marks", ["\u0301\u0323", "\u0301\u200d\u0323\u200d", "\uff9e\u0301", "\u0301\ufe0f\u0323\u034f", "\u0344\u0323"]
)
def test_no_pile_of_marks_takes_longer_than_the_text(marks: str) -> None:
    began = time.process_time()
    assert found({"words": ["bad"]}, "a" + marks * 15_000 + " bad") == ["words.0"]
    assert time.process_time() - began < 0.3


def test_a_violation_names_its_pattern_and_quotes_no_message() -> None:
    question = ShieldQuestion(judged=(UserMessage(content="my secret"),), touchpoint="user-input")
    violation = PatternShield(PatternParams(words=("secret",))).judge(question).violation
    assert violation is not None
    assert "secret" not in violation.model_dump_json()
