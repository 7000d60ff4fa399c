"""Functions of a Python file as tools: their definitions, and the results of calls.

Covers: functions/command/chat/answering, functions/command/client, domain/tools/docstrings,
  functions/command/chat/screen, functions/command/chat/tools
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from functions.command.chat.answering import DECLINED, MOST_APPROVED, NO_USER, TOO_LONG, Answering
from functions.command.chat.screen import TextScreen
from functions.command.chat.tools import MODULE, ClientTool, load_tools
from functions.command.client import CommandFailed
from turnstone.domain.tools.docstrings import described
from turnstone.domain.tools.tools import ToolDef

Load = Callable[[str], Mapping[str, ClientTool]]


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def load(tmp_path: Path, notes: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    monkeypatch.setattr(sys, "path", list(sys.path))

    def loaded(source: str) -> Mapping[str, ClientTool]:
        path = tmp_path / "tools.py"
        path.write_text(source)
        return load_tools(path, notes.append)

    yield loaded
    sys.modules.pop(MODULE, None)


FORECAST = '''
from __future__ import annotations
from typing import Literal
from neighbour import SKY

def forecast(city: str, days: int = 3, unit: Literal["C", "F"] = "C") -> list[dict[str, object]]:
    """Tell the weather of the next days.

    Args:
        city: Where, in
            any language.
        unit (str): Of the degrees.

    Returns:
        A list.
    """
    return [{"city": city, "sky": SKY, "unit": unit}] * days

async def later(minutes: int) -> str:
    """Wait.

    :param minutes: how long
    :returns: nothing
    """
    return f"{minutes} later"
'''


def test_a_tool_is_described_by_its_hints_and_its_docstring(load: Load, tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("SKY = 'clear'\n")
    tools = load(FORECAST)
    assert list(tools) == ["forecast", "later"]
    definition = tools["forecast"].definition
    assert definition == {
        "name": "forecast",
        "description": "Tell the weather of the next days.",
        "input_schema": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where, in any language."},
                "days": {"type": "integer", "default": 3},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C", "description": "Of the degrees."},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    for tool in tools.values():
        ToolDef.model_validate(tool.definition)
    assert tools["forecast"].run({"city": "Oslo", "days": "1"}) == '[{"city":"Oslo","sky":"clear","unit":"C"}]'
    assert tools["later"].run({"minutes": 2}) == "2 later"
    sys.modules.pop("neighbour")


def test_exceptions_and_wrong_arguments_become_answers(load: Load) -> None:
    tool = load('def half(n: int) -> float:\n    "Halve."\n    return 1 / n\n')["half"]
    assert tool.run({"n": 0}) == "Error: ZeroDivisionError: division by zero"
    assert "n: Input should be a valid integer" in tool.run({"n": "many"})
    assert "m: Unexpected keyword argument" in tool.run({"n": 1, "m": 2})
    assert tool.run({"n": 2}) == "0.5"


def test_an_interrupt_from_the_keyboard_ends_a_tool(load: Load) -> None:
    tool = load('def endless() -> None:\n    "Wait."\n    raise KeyboardInterrupt\n')["endless"]
    with pytest.raises(KeyboardInterrupt):
        tool.run({})


def test_a_function_that_is_not_a_tool_is_named_with_the_reason(load: Load, notes: list[str]) -> None:
    source = """
from json import dumps
def told(x: int) -> int:
    "Tell."
    return x
def _private(x: int) -> int:
    "Not offered."
def silent(x: int) -> int: ...
def vague(x):
    "No hints."
def many(*x: int) -> int:
    "Any number."
"""
    assert list(load(source)) == ["told"]
    assert [note.split(": ")[1].split("(")[0] for note in notes] == ["silent", "vague", "many"]
    assert [word in note for word, note in zip(["docstring", "type hint", "named"], notes, strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n", "no function to offer"),
        ("import nothing_of_this_name\n", "ModuleNotFoundError"),
        ("def f(:\n", "SyntaxError"),
        ('def f(x: "Unheard") -> int:\n    "F."\n', "f"),
    ],
)
def test_a_file_without_tools_is_refused(load: Load, source: str, message: str) -> None:
    with pytest.raises(CommandFailed, match=message):
        load(source)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="there is no file"):
        load_tools(tmp_path / "none.py", lambda note: None)


def test_an_object_of_the_official_clients_decorator_is_a_tool(load: Load) -> None:
    source = """
class Made:
    def get_name(self): return "add"
    def get_description(self): return "Add."
    def get_params_definition(self):
        return {"x": {"name": "x", "description": "A number.", "parameter_type": "int", "required": True}}
    def run_impl(self, x): return x + 1
add = Made()
"""
    (tool,) = load(source).values()
    assert ToolDef.model_validate(tool.definition).name == "add"
    assert tool.run({"x": 1}) == "2"


def test_docstrings_of_either_style_give_the_same_description() -> None:
    google = """Do it.

        At once.

        Args:
            a: First.
            b (int): Second
                line: the last.

        Raises:
            X: never
        """
    sphinx = """Do it.

        At once.

        :param a: First.
        :param int b: Second
            line: the last.
        :raises X: never
        """
    assert (
        described(google) == described(sphinx) == ("Do it.\n\nAt once.", {"a": "First.", "b": "Second line: the last."})
    )


# ── approval of calls ────────────────────────────────────────────────────────────────────────────────────────────


class Silent(TextScreen):
    """A screen without a viewer."""

    def __init__(self) -> None:
        super().__init__(io.StringIO(), io.StringIO(), is_dim=False)


def call(call_id: str = "c", name: str = "told", arguments: Any = None) -> dict[str, Any]:
    return {"call_id": call_id, "tool_name": name, "arguments": {} if arguments is None else arguments}


def answered(lines: list[str] | None, *calls: dict[str, Any], is_allowed: bool = False) -> tuple[list[str], int]:
    """Return the answers to the calls with these lines typed, and the count of runs of the tool."""
    runs: list[object] = []
    tools = {name: ClientTool(name, {}, lambda arguments: runs.append(arguments) or "done") for name in ("told", "b")}
    read_line = None if lines is None else lambda question: lines.pop(0)
    answering = Answering(tools, Silent(), read_line, is_allowed)
    answers = answering.answers(calls)
    assert not lines
    assert [answer["call_id"] for answer in answers] == [one["call_id"] for one in calls]
    return [answer["content"] for answer in answers], len(runs)


def test_a_tool_runs_only_if_it_is_allowed_to() -> None:
    assert answered(["y\n"], call()) == (["done"], 1)
    assert answered(["no\n"], call()) == ([DECLINED], 0)
    assert answered(["\n", "huh\n", "YES\n"], call()) == (["done"], 1)
    assert answered(None, call()) == ([NO_USER], 0)
    assert answered(None, call(), is_allowed=True) == (["done"], 1)


def test_always_is_about_one_tool() -> None:
    assert answered(["a\n", "n\n"], call("1"), call("2"), call("3", "b")) == (["done", "done", DECLINED], 2)


def test_arguments_too_long_to_read_are_declined_without_a_prompt() -> None:
    long = call(arguments={"text": "x" * MOST_APPROVED})
    assert answered([], long) == ([TOO_LONG], 0)
    assert answered(None, long, is_allowed=True) == (["done"], 1)
    assert answered(["a\n"], call("1"), {**long, "call_id": "2"}) == (["done", "done"], 2)


def test_arguments_that_are_no_object_are_answered_to_the_model_without_a_question() -> None:
    contents, runs = answered([], call(arguments="{x"))
    assert ("not a JSON object" in contents[0], runs) == (True, 0)
