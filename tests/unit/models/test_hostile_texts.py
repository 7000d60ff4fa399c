"""Texts of models, clients and tools that make a careless reader slow: their time is bounded, however long they are.

Times are those of this thread's processor, with bounds far above the usual cost.

Covers: adapters/models/offline/call_text, adapters/models/openai/openai_answer, adapters/models/prompted/answers,
  adapters/shields/pattern, adapters/shields/word_search
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.models.offline.call_text import calls_in
from turnstone.adapters.models.openai.openai_answer import AnswerReader
from turnstone.adapters.models.prompted.answers import AnswerText
from turnstone.adapters.shields.pattern import PIECE_CHARACTERS, PatternShield
from turnstone.adapters.shields.word_search import WordSearch
from turnstone.domain.agents.agents import ToolPromptFormat
from turnstone.domain.errors import ShieldFailed
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.shields.shields import PatternParams
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.values.cancellation import StopSignal

CHARACTERS = 200_000
NESTED = '{"type":' * 50 + "["
HOSTILE = {
    "<": "<" * CHARACTERS,
    "{": "{" * CHARACTERS,
    "[": "[" * CHARACTERS,
    "`": "`" * CHARACTERS,
    "backslashes": "{" + "\\" * CHARACTERS,
    "lines": "\n<" * (CHARACTERS // 2),
    "tags": "<function" * (CHARACTERS // 9),
    "introductions": "<tool_call>" * (CHARACTERS // 11),
    "open objects": '{"type":' * (CHARACTERS // 8),
    "nested lists": NESTED + "1," * (CHARACTERS // 2),
    "digits": '{"name":"f","parameters":{"a":' + "1" * CHARACTERS + "x}}",
    "an open string": '{"name":"f","parameters":{"a":"""' + 'a""b' * (CHARACTERS // 4),
}


@contextmanager
def within(most_s: float) -> Iterator[None]:
    began = time.thread_time()
    yield
    assert time.thread_time() - began < most_s


@pytest.mark.parametrize("piece", [1, 4_000])
@pytest.mark.parametrize("name", HOSTILE)
def test_an_answer_that_opens_calls_everywhere_is_read_in_bounded_time(name: str, piece: int) -> None:
    text = HOSTILE[name] if piece > 1 else HOSTILE[name][:20_000]
    answer = AnswerText("json", ("f", "search"))
    with within(8):
        emitted = [answer.feed(text[start : start + piece]) for start in range(0, len(text), piece)]
        emitted.append(answer.end(is_cut_off=False))
    unread = "".join(str(call.arguments) for call in answer.calls)
    assert len("".join(emitted)) + len(unread) >= len(text) - 40


@pytest.mark.parametrize("form", ["json", "python_list", "function_tag"])
@pytest.mark.parametrize("before", ["<", "{", "[", "`", "< ", "<b>", "{ }"])
def test_a_call_is_found_behind_a_thousand_openings_of_none(form: ToolPromptFormat, before: str) -> None:
    answer = AnswerText(form, ("f",))
    text = before * 1_000 + '\n\nSo:\n{"name": "f", "parameters": {"a": [1, 2]}}'
    answer.feed(text)
    answer.end(is_cut_off=False)
    assert [call.arguments for call in answer.calls] == [{"a": [1, 2]}]


@pytest.mark.parametrize("pair", ["a=x,", 'a="\\x",', "a='y',", "a=1,", "a=[1],"])
def test_a_call_in_a_users_text_is_read_in_time_that_grows_with_it(pair: str) -> None:
    text = "f(" + pair * (500_000 // len(pair)) + ")"
    with within(6):
        (call,) = calls_in(text, ("f",))
    assert list(call.arguments) == ["a"]


def fragment(**call: Any) -> str:
    return json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]})


def test_fragments_that_each_repeat_the_name_of_their_call_are_joined_once() -> None:
    reader = AnswerReader()
    with within(8):
        reader.read(fragment(index=0, id="c", function={"name": "f", "arguments": '{"a0":{}'}))
        for number in range(1, 8_000):
            arguments = f',"a{number}":{{"b":"{"x" * 50}"}}'
            reader.read(fragment(index=0, id="c", function={"name": "f", "arguments": arguments}))
        reader.read(fragment(index=0, id="c", function={"arguments": "}"}))
    reader.read("[DONE]")
    (call,) = reader.inferred().message.tool_calls
    assert len(call.arguments) == 8_000


def test_many_calls_in_one_answer_are_each_found_at_once() -> None:
    reader = AnswerReader()
    with within(8):
        for number in range(8_000):
            reader.read(fragment(index=number, id=f"c{number}", function={"name": "f", "arguments": "{}"}))
        for number in range(8_000):
            reader.read(fragment(index=number, function={"name": f"{'g' * 100}"}))
    reader.read("[DONE]")
    assert len(reader.inferred().message.tool_calls) == 8_000


def test_a_name_in_many_fragments_does_not_grow_without_end() -> None:
    reader = AnswerReader()
    with within(8):
        for number in range(8_000):
            reader.read(fragment(index=0, function={"name": f"name{number}"}))
    reader.read("[DONE]")
    assert len(reader.inferred().message.tool_calls[0].tool_name) < 5_000


def naively_found(phrases: list[list[str]], text: list[str]) -> list[int]:
    joined = f" {' '.join(text)} "
    return [index for index, phrase in enumerate(phrases) if f" {' '.join(phrase)} " in joined]


SOME_WORDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5)


@given(st.lists(SOME_WORDS, min_size=1, max_size=8), st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=30))
def test_all_words_at_once_are_found_as_one_by_one(phrases: list[list[str]], text: list[str]) -> None:
    search = WordSearch(phrases)
    assert search.found_in([text]) == search.found_in([[word] for word in text]) == naively_found(phrases, text)


@pytest.mark.parametrize("text", ["the quick brown fox " * 50_000, "a" * 1_000_000, "a " * 500_000])
def test_two_thousand_words_are_found_as_fast_as_one(text: str) -> None:
    words = tuple(f"{'a' * (number % 190)}{number}" for number in range(2_000))
    shield = PatternShield(PatternParams(words=words))
    with within(4):
        assert shield.judge(ShieldQuestion((UserMessage(content=text),), "user-input")).violation is None


class GivenLater(StopSignal):
    """A signal that is set after a number of checks."""

    def __init__(self, checks: int) -> None:
        self.checks = checks
        super().__init__()

    @property
    def is_set(self) -> bool:
        self.checks -= 1
        return self.checks <= 0

    @is_set.setter
    def is_set(self, value: bool) -> None:
        assert not value


@pytest.mark.parametrize("text", ["\ufdfa" * 400_000, "so " * 400_000])
def test_a_shield_stops_between_two_pieces_once_its_time_is_over(text: str) -> None:
    shield, signal = PatternShield(PatternParams(words=("bad",))), GivenLater(3 + len(text) // PIECE_CHARACTERS)
    with within(4), pytest.raises(ShieldFailed, match="was cancelled"):
        shield.judge(ShieldQuestion((UserMessage(content=text),), "user-input", stop=signal))
    assert signal.checks == 0


@pytest.mark.parametrize("cut", ["", " ", ".", "\n", "x"])
def test_a_word_is_found_wherever_a_text_is_cut_into_pieces(cut: str) -> None:
    shield = PatternShield(PatternParams(words=("very bad",)))
    for length in range(PIECE_CHARACTERS - 12, PIECE_CHARACTERS + 2):
        text = "\u0e01" * length + f"{cut} very\u0301".replace("\u0301", "") + " bad " + "\u0e01" * 40_000
        assert shield.judge(ShieldQuestion((UserMessage(content=text),), "user-input")).violation is not None
