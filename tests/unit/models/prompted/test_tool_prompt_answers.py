"""Answers of models without native tools, well-formed and broken, and the text and calls in them.

Covers: adapters/models/prompted/answers, adapters/models/prompted/arguments, adapters/models/prompted/formats,
  adapters/models/prompted/cursor, adapters/models/prompted/function_tags, adapters/models/prompted/json_objects,
  adapters/models/prompted/literals, adapters/models/prompted/python_lists
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.models.prompted import answers
from turnstone.adapters.models.prompted.answers import AnswerText
from turnstone.adapters.models.prompted.arguments import call_of
from turnstone.adapters.models.prompted.formats import FORMATS
from turnstone.domain.agents.agents import ToolPromptFormat
from turnstone.domain.tools.tools import ToolDef

PARAMETERS = {"city": "string", "days": "integer", "exact": "boolean", "near": "array"}
WEATHER = ToolDef(
    name="get_weather",
    input_schema={"type": "object", "properties": {name: {"type": kind} for name, kind in PARAMETERS.items()}},
)
TOOLS = {tool.name: tool for tool in (WEATHER, ToolDef(name="get_time"), ToolDef(name="web-search"))}
PARIS = {"city": "Paris"}
WEATHER_OF_PARIS = ("get_weather", PARIS)
TIME: tuple[str, Any] = ("get_time", {})

Calls = Sequence[tuple[str, Mapping[str, Any] | str]]
Case = tuple[str, str, Calls]  # the answer, its text without calls, the calls

OBJECT = '{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}'
SHORT = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
TAG = '<function=get_weather>{"city": "Paris"}</function>'
LISTED = '[get_weather(city="Paris")]'

JSON: list[Case] = [
    (OBJECT, "", [WEATHER_OF_PARIS]),
    (SHORT, "", [WEATHER_OF_PARIS]),
    (OBJECT.replace("parameters", "arguments"), "", [WEATHER_OF_PARIS]),
    (f"<|python_tag|>{OBJECT}", "", [WEATHER_OF_PARIS]),
    (f"<|python_tag|>{OBJECT}<|eom_id|>", "", [WEATHER_OF_PARIS]),
    (f"<|python_start|>{SHORT}<|python_end|>", "", [WEATHER_OF_PARIS]),
    (f"```json\n{OBJECT}\n```", "", [WEATHER_OF_PARIS]),
    (f"```\n{OBJECT}\n```", "", [WEATHER_OF_PARIS]),
    (f"```json\n{SHORT}\n```\n```json\n{SHORT}\n```", "", [WEATHER_OF_PARIS] * 2),
    (f"```json\n{SHORT}\n{SHORT}\n```", "", [WEATHER_OF_PARIS] * 2),
    (f"\n\n{OBJECT}\n", "", [WEATHER_OF_PARIS]),
    (f"<tool_call>\n{SHORT}\n</tool_call>", "", [WEATHER_OF_PARIS]),
    (f"[TOOL_CALLS] [{SHORT}]", "", [WEATHER_OF_PARIS]),
    (f"{OBJECT}; {OBJECT}", "", [WEATHER_OF_PARIS] * 2),
    (f"{OBJECT}\n{SHORT}", "", [WEATHER_OF_PARIS] * 2),
    (f"[{OBJECT}, {SHORT}]", "", [WEATHER_OF_PARIS] * 2),
    (f"I'll look that up.\n\n{OBJECT}", "I'll look that up.", [WEATHER_OF_PARIS]),
    (f"{OBJECT}\n\nI will wait for it.", "I will wait for it.", [WEATHER_OF_PARIS]),
    (f"First this: {SHORT} Then more.", "First this:\nThen more.", [WEATHER_OF_PARIS]),
    (f"{OBJECT}}}", "", [WEATHER_OF_PARIS]),
    (OBJECT[:-1], "", [WEATHER_OF_PARIS]),
    (OBJECT[:-2], "", [WEATHER_OF_PARIS]),
    (f"```json\n{OBJECT[:-1]}\n```", "", [WEATHER_OF_PARIS]),
    (OBJECT.replace('"Paris"}', '"Paris",}'), "", [WEATHER_OF_PARIS]),
    (OBJECT.replace('"', "'"), "", [WEATHER_OF_PARIS]),
    ('{name: "get_weather", parameters: {city: "Paris"}}', "", [WEATHER_OF_PARIS]),
    (f'{{"type": "function", "function": {SHORT}}}', "", [WEATHER_OF_PARIS]),
    ('{"function": "get_weather", "parameters": {"city": "Paris"}}', "", [WEATHER_OF_PARIS]),
    ('{"parameters": {"city": "Paris"}, "name": "get_weather"}', "", [WEATHER_OF_PARIS]),
    ('{"name": "get_weather", "parameters": "{\\"city\\": \\"Paris\\"}"}', "", [WEATHER_OF_PARIS]),
    ('{"name": "get_weather", "parameters": "Paris"}', "", [("get_weather", "Paris")]),
    ('{"name": "get_weather", "parameters": ["Paris"]}', "", [("get_weather", '["Paris"]')]),
    ('{"name": "get_weather", "parameters": {"days": "3"}}', "", [("get_weather", {"days": 3})]),
    ('{"name": "get_weather", "parameters": {"exact": "true"}}', "", [("get_weather", {"exact": True})]),
    (
        '{"name": "get_weather", "parameters": {"exact": True, "city": None}}',
        "",
        [("get_weather", {"exact": True, "city": None})],
    ),
    ('{"name": "get_weather", "parameters": {"near": "[\\"Lyon\\"]"}}', "", [("get_weather", {"near": ["Lyon"]})]),
    ('{"name": "get_weather", "parameters": {"days": "three"}}', "", [("get_weather", {"days": "three"})]),
    ('{"name": "get_weather", "parameters": {"city": "12"}}', "", [("get_weather", {"city": "12"})]),
    ('{"name": "get_time", "parameters": {}}', "", [TIME]),
    ('{"name": "get_time", "parameters": null}', "", [TIME]),
    ('{"name": "get_time"}', "", [TIME]),
    ('{"type": "function", "name": "get_time", "arguments": []}', "", [TIME]),
    (
        '{"name": "get_weather", "parameters": {"city": "a \\"b\\" {c} \\u00e9\\ud83d\\ude00"}}',
        "",
        [("get_weather", {"city": 'a "b" {c} é😀'})],
    ),
    ('{"name": "get_weather", "parameters": {"city": "line\none"}}', "", [("get_weather", {"city": "line\none"})]),
    ('{"name": "get_weather", "parameters": {"city": Paris}}', "", [("get_weather", '{"city": Paris}}')]),
    ('{"name": "get_weather", "parameters": {"city": "a "b" c"}}', "", [("get_weather", '{"city": "a "b" c"}}')]),
    ('{"name": "get_weather", "parameters": {"city": "Par', "", [("get_weather", '{"city": "Par')]),
    ('{"name": "find_flights", "parameters": {"to": "Oslo"}}', "", [("find_flights", {"to": "Oslo"})]),
    ('Try {"name": "find_flights", "parameters": {}}', 'Try {"name": "find_flights", "parameters": {}}', []),
    ('{"name": "Alice", "age": 3}', '{"name": "Alice", "age": 3}', []),
    ('{"name": "Alice"}', '{"name": "Alice"}', []),
    ('{"answer": 42}', '{"answer": 42}', []),
    ("{}", "{}", []),
    ("{", "{", []),
    ("if (x) { return [1]; }", "if (x) { return [1]; }", []),
    (f"Write `{SHORT}` to call it.", f"Write `{SHORT}` to call it.", []),
    ("```python\nprint({1: 2})\n```", "```python\nprint({1: 2})\n```", []),
    ("Paris is sunny.", "Paris is sunny.", []),
    (" \n", " \n", []),
    ("", "", []),
    (TAG, "", [WEATHER_OF_PARIS]),
    (LISTED, "", [WEATHER_OF_PARIS]),
    ('<|python_tag|>get_weather.call(city="Paris")', "", [WEATHER_OF_PARIS]),
    ('get_weather(city="Paris")', 'get_weather(city="Paris")', []),
]
TAGS: list[Case] = [
    (TAG, "", [WEATHER_OF_PARIS]),
    (f"<|python_tag|>{TAG}<|eom_id|>", "", [WEATHER_OF_PARIS]),
    (f"{TAG}\n{TAG}", "", [WEATHER_OF_PARIS] * 2),
    (f"{TAG}{TAG}", "", [WEATHER_OF_PARIS] * 2),
    (f"Let me see. {TAG}", "Let me see.", [WEATHER_OF_PARIS]),
    (f"{TAG} One moment.", "One moment.", [WEATHER_OF_PARIS]),
    ('<function=get_weather>{"city": "Paris"}', "", [WEATHER_OF_PARIS]),
    ('<function=get_weather>{"city": "Paris"', "", [WEATHER_OF_PARIS]),
    ('<function=get_weather{"city": "Paris"}</function>', "", [WEATHER_OF_PARIS]),
    ('<function=get_weather {"city": "Paris"} </function>', "", [WEATHER_OF_PARIS]),
    ('<function=get_weather>{"city": "Paris"}"</function>', "", [WEATHER_OF_PARIS]),
    ('<function=get_weather>{"city": "Paris"}></function>', "", [WEATHER_OF_PARIS]),
    ('<function=get_weather>({"city": "Paris"})</function>', "", [WEATHER_OF_PARIS]),
    ('<function=get_weather,{"city": "Paris"}</function>', "", [WEATHER_OF_PARIS]),
    ('<function(get_weather)>{"city": "Paris"}</function>', "", [WEATHER_OF_PARIS]),
    ('<function/get_weather>{"city": "Paris"}</function>', "", [WEATHER_OF_PARIS]),
    ('<function name="get_weather">{"city": "Paris"}</function>', "", [WEATHER_OF_PARIS]),
    ('<function="get_weather">\n{"city": "Paris"}\n</function>', "", [WEATHER_OF_PARIS]),
    ("<function=get_time></function>", "", [TIME]),
    ("<function=get_time>()</function>", "", [TIME]),
    ("<function=get_time>{}</function>", "", [TIME]),
    ("<function=get_time>", "", [TIME]),
    ('<function=web-search>{"query": "</function>"}</function>', "", [("web-search", {"query": "</function>"})]),
    ("<function=get_weather>Paris</function>", "", [("get_weather", "Paris</function>")]),
    ('<function=get_weather>{"city": "Par', "", [("get_weather", '{"city": "Par')]),
    ('<function=find_flights>{"to": "Oslo"}</function>', "", [("find_flights", {"to": "Oslo"})]),
    ("<function=find_flights>Oslo", "<function=find_flights>Oslo", []),
    ("Use <function=foo>{}</function>.", "Use <function=foo>{}</function>.", []),
    ("a < b and <function> or <functions>", "a < b and <function> or <functions>", []),
    (OBJECT, "", [WEATHER_OF_PARIS]),
    (LISTED, "", [WEATHER_OF_PARIS]),
]
PYTHON: list[Case] = [
    (LISTED, "", [WEATHER_OF_PARIS]),
    ("[get_weather(city='Paris')]", "", [WEATHER_OF_PARIS]),
    ('[get_weather(city="Paris"), get_time()]', "", [WEATHER_OF_PARIS, TIME]),
    ('[\n  get_weather(\n    city = "Paris",\n  ),\n]', "", [WEATHER_OF_PARIS]),
    (f"<|python_start|>{LISTED}<|python_end|>", "", [WEATHER_OF_PARIS]),
    (f"```python\n{LISTED}\n```", "", [WEATHER_OF_PARIS]),
    (f"{LISTED}\n{LISTED}", "", [WEATHER_OF_PARIS] * 2),
    (f"To answer, I call:\n\n{LISTED}", "To answer, I call:", [WEATHER_OF_PARIS]),
    (f"{LISTED}\nThen I'll tell you.", "Then I'll tell you.", [WEATHER_OF_PARIS]),
    ('get_weather(city="Paris")', "", [WEATHER_OF_PARIS]),
    ('get_weather(city="Paris")\nget_time()', "", [WEATHER_OF_PARIS, TIME]),
    ('I call:\nget_weather(city="Paris")', "I call:", [WEATHER_OF_PARIS]),
    ('get_weather(city="Paris"); get_time()', "", [WEATHER_OF_PARIS, TIME]),
    ('get_weather.call(city="Paris")', "", [WEATHER_OF_PARIS]),
    ('[get_weather(city="Paris")', "", [WEATHER_OF_PARIS]),
    ('[get_weather(city="Paris"', "", [WEATHER_OF_PARIS]),
    ('[get_weather("Paris", 3)]', "", [("get_weather", {"city": "Paris", "days": 3})]),
    ('[get_weather("Paris", days=3)]', "", [("get_weather", {"city": "Paris", "days": 3})]),
    ('[get_weather({"city": "Paris"})]', "", [WEATHER_OF_PARIS]),
    ('[get_weather(**{"city": "Paris"})]', "", [WEATHER_OF_PARIS]),
    ('[get_time("UTC")]', "", [("get_time", '["UTC", {}]')]),
    ("[get_weather(days=3, exact=True, near=None)]", "", [("get_weather", {"days": 3, "exact": True, "near": None})]),
    (
        "[get_weather(days=-1.5e3, exact=false, near=null)]",
        "",
        [("get_weather", {"days": -1500.0, "exact": False, "near": None})],
    ),
    ('[get_weather(days="3")]', "", [("get_weather", {"days": 3})]),
    ("[get_weather(near=['Lyon', 'Nice'], city='a')]", "", [("get_weather", {"near": ["Lyon", "Nice"], "city": "a"})]),
    ("[get_weather(near=(1, 2))]", "", [("get_weather", {"near": [1, 2]})]),
    ("[get_weather(near={'a': [1, {'b': None}]})]", "", [("get_weather", {"near": {"a": [1, {"b": None}]}})]),
    ('[get_weather(city="O\'Hare (ORD), [x] = \\"y\\"")]', "", [("get_weather", {"city": 'O\'Hare (ORD), [x] = "y"'})]),
    ("[get_weather(city='it\\'s')]", "", [("get_weather", {"city": "it's"})]),
    ('[get_weather(city="""two\n"lines" """)]', "", [("get_weather", {"city": 'two\n"lines" '})]),
    ('[get_weather(city="C:\\\\dir\\d")]', "", [("get_weather", {"city": "C:\\dir\\d"})]),
    ("[web-search(query='x')]", "", [("web-search", {"query": "x"})]),
    ("[get_weather(city=Paris)]", "", [("get_weather", "city=Paris)]")]),
    ("[get_weather(city=open('/etc/passwd'))]", "", [("get_weather", "city=open('/etc/passwd'))]")]),
    ("[get_weather(city=__import__('os').getcwd())]", "", [("get_weather", "city=__import__('os').getcwd())]")]),
    ("[get_weather(days=2**9)]", "", [("get_weather", "days=2**9)]")]),
    ("[get_weather(days=1e999)]", "", [("get_weather", "days=1e999)]")]),
    ('[get_weather(city="Par', "", [("get_weather", 'city="Par')]),
    ("[find_flights(to='Oslo')]", "", [("find_flights", {"to": "Oslo"})]),
    ("[find_flights(to=Oslo)]", "[find_flights(to=Oslo)]", []),
    ("See [1], [the docs](https://example.org) and [x].", "See [1], [the docs](https://example.org) and [x].", []),
    ("Call get_weather(city) for it.", "Call get_weather(city) for it.", []),
    ("get_weather is a tool.\nget_time too.", "get_weather is a tool.\nget_time too.", []),
    ("[1, 2, 3]", "[1, 2, 3]", []),
    ("[", "[", []),
    (OBJECT, "", [WEATHER_OF_PARIS]),
    (TAG, "", [WEATHER_OF_PARIS]),
]
CASES: list[tuple[ToolPromptFormat, Case]] = [
    *(("json", case) for case in JSON),
    *(("function_tag", case) for case in TAGS),
    *(("python_list", case) for case in PYTHON),
]


def parsed(form: ToolPromptFormat, pieces: Sequence[str], *, is_cut_off: bool = False) -> tuple[str, list[Any]]:
    """Return the text of the answer, and the calls by name and arguments."""
    answer = AnswerText(form, TOOLS)
    emitted = [answer.feed(piece) for piece in pieces]
    emitted.append(answer.end(is_cut_off=is_cut_off))
    calls = [call_of("c", written, TOOLS.get(written.name)) for written in answer.calls]
    return "".join(emitted), [(call.tool_name, call.arguments) for call in calls]


def cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize(("form", "case"), CASES, ids=[f"{form}: {case[0][:60]!r}" for form, case in CASES])
def test_an_answer_has_its_text_and_its_calls(form: ToolPromptFormat, case: Case) -> None:
    answer_text, text, calls = case
    assert parsed(form, [answer_text]) == (text, list(calls))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_an_answer_is_read_the_same_however_it_arrives(size: int) -> None:
    for form, (answer_text, text, calls) in CASES:
        assert parsed(form, cut(answer_text, size)) == (text, list(calls)), answer_text


STRAYS = ("\n", " ", "Hello", "```", "json", "{", "}", "[", "]", '"', "'", ";", ",", "<", "`", ")", "\\")
BEGINNINGS = ("<|python_tag|>", "<function=", "</function>", "get_weather(", "city=", '{"name": "get_time"')
PIECES = st.sampled_from([OBJECT, SHORT, TAG, LISTED, "get_time()", *STRAYS, *BEGINNINGS])


@given(
    form=st.sampled_from(list(FORMATS)),
    answer_text=st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=60)),
    ends=st.lists(st.integers(0, 400), max_size=12),
    is_cut_off=st.booleans(),
)
def test_any_cutting_gives_the_same_text_and_calls(
    form: ToolPromptFormat, answer_text: str, ends: list[int], is_cut_off: bool
) -> None:
    bounds = [0, *sorted(ends), len(answer_text)]
    pieces = [answer_text[start:end] for start, end in pairwise(bounds)]
    assert parsed(form, pieces, is_cut_off=is_cut_off) == parsed(form, [answer_text], is_cut_off=is_cut_off)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name == name.strip() and name[0] != "]"
)
CALLS = st.lists(st.tuples(NAMES, st.dictionaries(TEXT, VALUES, max_size=3)), min_size=1, max_size=3)


@given(form=st.sampled_from(list(FORMATS)), calls=CALLS)
def test_calls_are_read_as_they_were_written(form: ToolPromptFormat, calls: Calls) -> None:
    answer = AnswerText(form, {name for name, _ in calls})
    emitted = answer.feed(FORMATS[form].written(calls)) + answer.end(is_cut_off=False)
    assert ("", list(calls)) == (emitted, [(call.name, call.arguments) for call in answer.calls])


@pytest.mark.parametrize(("form", "call"), [("json", OBJECT), ("function_tag", TAG), ("python_list", LISTED)])
def test_nothing_of_a_call_is_emitted_and_the_words_before_it_are_emitted_at_once(
    form: ToolPromptFormat, call: str
) -> None:
    answer = AnswerText(form, TOOLS)
    assert answer.feed("Let me look.") == "Let me look."
    assert [answer.feed(character) for character in f"\n{call}"] == [""] * (len(call) + 1)


def test_words_that_can_be_no_call_are_emitted_as_they_arrive() -> None:
    answer = AnswerText("json", TOOLS)
    assert [answer.feed(word) for word in ("One", " {", '"x', '": 1}', " two")] == ["One", "", "", ' {"x": 1}', " two"]


@pytest.mark.parametrize(("form", "call"), [("json", SHORT), ("function_tag", TAG), ("python_list", LISTED)])
def test_a_truncated_call_is_never_run(form: ToolPromptFormat, call: str) -> None:
    emitted, calls = parsed(form, [call[: call.index("Paris") + 5]], is_cut_off=True)
    assert emitted == ""
    assert [(name, type(arguments)) for name, arguments in calls] == [("get_weather", str)]


def test_endless_nesting_is_refused_without_recursion() -> None:
    for form, opening in (("json", '{"name": "get_weather", "parameters": '), ("python_list", "[get_weather(city=")):
        for bracket in ("[", '{"a": ', "("):
            _, ((name, arguments),) = parsed(form, [opening + bracket * 50_000])  # type: ignore[arg-type]
            assert (name, type(arguments)) == ("get_weather", str)


def test_a_call_that_exceeds_the_limit_is_emitted_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_CALL_CHARACTERS", 1_000)
    answer_text = '{"name": "get_weather", "parameters": {"city": "' + "x" * 2_000
    answer = AnswerText("json", TOOLS)
    assert "".join(answer.feed(piece) for piece in cut(answer_text, 100)).startswith('{"name": "get_weather"')


def test_a_long_call_in_small_pieces_is_not_read_again_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = AnswerText._read
    monkeypatch.setattr(AnswerText, "_read", lambda self, ending: reads.append(1) or read(self, ending))
    code = "x = {'a': (1, 2)}\n" * 2_000
    answer_text = json.dumps({"name": "get_weather", "parameters": {"city": code}})
    assert parsed("json", cut(answer_text, 4)) == ("", [("get_weather", {"city": code})])
    assert len(reads) < 60


@pytest.mark.parametrize("repeated", ["`", "```", "[TOOL_CALLS]", "<|python_tag|> "])
def test_repeated_openings_of_calls_cost_no_more_than_their_text(repeated: str) -> None:
    text = repeated * (4_000 // len(repeated))
    answer = AnswerText("json", ["f"])
    began = time.process_time()
    assert answer.feed(text) + answer.end(is_cut_off=False) == text
    assert answer.calls == []
    assert time.process_time() - began < 3
