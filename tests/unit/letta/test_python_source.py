"""The function in the source of a tool: its schema, and the refusals.

Covers: domain/letta/python_source, domain/letta/tools, domain/letta/python_runs, dialects/letta/custom/requests,
  dialects/letta/custom/results, dialects/letta/environment
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import pytest
from pydantic import ValidationError

from turnstone.dialects.letta.custom.requests import CreateTool, RunTool, UpdateTool
from turnstone.dialects.letta.custom.results import run_result_of
from turnstone.dialects.letta.requests import CreateLettaAgent, UpdateLettaAgent
from turnstone.dialects.letta.tools import custom_tool
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.python_runs import CUT, MOST_OUTPUT, PythonOutcome, SourceResult
from turnstone.domain.letta.python_source import function_in, with_types
from turnstone.domain.letta.tools import (
    MOST_TOOLS,
    custom_tools_of,
    refuse_many_tools,
    values_of,
    variables_of,
    with_custom_tool,
    without_custom_tool,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ROLL = '''
import random

def helper():
    return 6

def roll(sides: int, name: "Optional[str]" = __import__("os").abort()) -> int:
    """
    Roll a die.

    Args:
        sides (int): number of sides
        name: of the player

    Returns:
        int: the eyes
    """
    return random.randint(1, sides)

def _private(x):
    pass
'''
TOOL_ID = "58c2e88e-4449-464b-9f6e-1b5426324b01"


def of(parameters: str, head: str = "def f") -> dict[str, Any]:
    found = function_in(f"{head}({parameters}):\n    'Do it.'\n")
    return found.parameters


def test_the_last_public_function_is_described_by_its_docstring_and_never_run() -> None:
    found = function_in(ROLL)
    assert (found.name, found.description, found.takes_agent_state) == ("roll", "Roll a die.", False)
    assert found.parameters == {
        "type": "object",
        "properties": {
            "sides": {"type": "integer", "description": "number of sides"},
            "name": {"type": "string", "description": "of the player"},
        },
        "required": ["sides"],
    }


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str", {"type": "string"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("list", {"type": "array", "items": {}}),
        ("List[int]", {"type": "array", "items": {"type": "integer"}}),
        ("tuple[str, ...]", {"type": "array", "items": {"type": "string"}}),
        ("tuple[str, int]", {"type": "array", "items": {}}),
        ("dict", {"type": "object"}),
        ("typing.Dict[str, float]", {"type": "object", "additionalProperties": {"type": "number"}}),
        ("dict[str, Any]", {"type": "object"}),
        ("Optional[int]", {"type": "integer"}),
        ("int | None", {"type": "integer"}),
        ("Union[int, str]", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ("Literal['a', 'b']", {"enum": ["a", "b"]}),
        ("'List[str]'", {"type": "array", "items": {"type": "string"}}),
        ("Annotated[int, 5]", {"type": "integer"}),
        ("Any", {}),
    ],
)
def test_an_annotation_has_a_json_schema(annotation: str, schema: dict[str, Any]) -> None:
    assert of(f"x: {annotation}")["properties"] == {"x": schema}


def test_parameters_with_a_default_value_are_optional_and_the_agents_state_is_hidden() -> None:
    found = function_in("async def f(a: int, agent_state: 'AgentState', b: int = 1, *, c: int, d: int = 2):\n    'Do.'")
    assert (found.parameters["required"], list(found.parameters["properties"])) == (["a", "c"], ["a", "b", "c", "d"])
    assert found.takes_agent_state


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:", "source_code: is not Python: line 1: "),
        ("a\0b", "source_code: is not Python"),
        ("x = 1", "source_code: has no function"),
        ("def _f(): 'Do.'", "source_code: has no function"),
        ("def f(): pass", "line 1: the function 'f' has no docstring"),
        ("\ndef f():\n    '  '", "line 2: the function 'f' has no docstring"),
        ("def f(x): 'Do.'", "the parameter 'x' of 'f' has no type annotation"),
        ("def f(x: Thing): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: '['): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: list[Thing]): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: Literal[a]): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: f()): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: Annotated[()]): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: dict[()]): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: Literal[()]): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: Optional[None]): 'Do.'", "the type of 'x' of 'f' has no JSON schema"),
        ("def f(x: Literal['\\ud800']): 'Do.'", "line 1: JSON can't have a text or a number of 'f'"),
        (f"def f(x: Literal[0x{'f' * 9_000}]): 'Do.'", "line 1: JSON can't have a text or a number of 'f'"),
        ("def f(): 'Do \\ud800.'", "line 1: JSON can't have a text or a number of 'f'"),
        (f"def f(x: {'list[' * 65}int{']' * 65}): 'Do.'", "nested too deep"),
        ("def f(*x: int): 'Do.'", "not all of 'f' can be named"),
        ("def f(**x: int): 'Do.'", "not all of 'f' can be named"),
        ("def f(x: int, /): 'Do.'", "not all of 'f' can be named"),
        ("def f(request_heartbeat: bool): 'Do.'", "'request_heartbeat' of 'f' is one of the loop"),
        ("def ü(): 'Do.'", "has other signs than letters"),
        (f"def {'f' * 65}(): 'Do.'", "more than 64"),
    ],
)
def test_other_source_is_refused_with_the_reason(source: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        function_in(source)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        "-" * 99_000 + "1",
        "(" * 99_000,
        "a" + ".b" * 49_000,
        "f" + "()" * 49_000,
        "1" + "+1" * 49_000,
        "not " * 24_000 + "1",
        "if 1: pass\n" + "elif 1: pass\n" * 7_000,
        "def f(x: " + "list[" * 90 + "int" + "]" * 90 + "): 'Do.'",
        "def f(x: '" + "list[" * 9_000 + "int" + "]" * 9_000 + "'): 'Do.'",
        "def f(x: " + "int|" * 24_000 + "int): 'Do.'",
        "def f(x: " + "int|" * 900 + "int): 'Do.'",
    ],
)
def test_deep_source_is_refused_in_a_thread_with_a_small_stack(source: str) -> None:
    ends: list[str] = []

    def parse() -> None:
        try:
            function_in(source)
        except InvalidRequest:
            ends.append("refused")
        else:
            ends.append("accepted")

    thread = Thread(target=parse)
    thread.start()
    thread.join()
    assert len(ends) == 1


def test_a_warning_about_the_source_is_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    function_in("def f():\n    'Do.'\n    return '\\d' is 1")
    assert not recwarn.list


def test_a_name_selects_a_function() -> None:
    assert function_in(ROLL.replace("def helper():", "def helper():\n    'Help.'"), "helper").name == "helper"
    with pytest.raises(InvalidRequest, match="name: the source has no function 'none'"):
        function_in(ROLL, "none")


def test_a_schema_of_the_request_replaces_that_of_the_source() -> None:
    parameters = {
        "type": "object",
        "properties": {"x": {"type": "string"}, "request_heartbeat": {"type": "boolean"}},
        "required": ["x", "request_heartbeat"],
    }
    new = {"source_code": "def f(x): return x", "json_schema": {"description": "Do.", "parameters": parameters}}
    tool = CreateTool.model_validate(new).to_new()
    own = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    assert (tool.name, tool.description, tool.parameters) == ("f", "Do.", own)
    new["json_schema"] = {"name": "g", "parameters": parameters}
    with pytest.raises(InvalidRequest, match="its name must be that of the function, 'f'"):
        CreateTool.model_validate(new).to_new()


@pytest.mark.parametrize(
    "wrong",
    [
        {"source_code": ""},
        {"source_code": "x" * 100_001},
        {"source_type": "json"},
        {"json_schema": {}},
        {"json_schema": {"parameters": {"type": "string"}}},
        {"json_schema": {"parameters": {"type": "object", "description": "x" * 50_000}}},
        {"return_char_limit": 0},
        {"return_char_limit": 1_000_001},
        {"tags": ["x"] * 101},
    ],
)
def test_other_fields_of_a_tool_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CreateTool.model_validate({"source_code": ROLL, **wrong})


def test_a_change_keeps_the_fields_that_it_does_not_name() -> None:
    sent = {"source_code": ROLL, "tags": ["a", "b", "a"], "return_char_limit": 9, "description": "Mine."}
    tool = CreateTool.model_validate(sent).to_new()
    assert (tool.description, tool.tags, tool.return_char_limit) == ("Mine.", ("a", "b"), 9)
    same = UpdateTool.model_validate({"return_char_limit": None}).to_change()(tool)
    assert same == tool
    source = "def other(x: int):\n    'Do.'"
    changed = UpdateTool.model_validate({"source_code": source, "tags": []}).to_change()(tool)
    assert (changed.name, changed.description, changed.tags, changed.return_char_limit) == ("other", "Do.", (), 9)
    two = source + "\n\ndef third(x: int):\n    'Do it.'"
    assert UpdateTool.model_validate({"source_code": two, "name": "other"}).to_change()(tool).name == "other"
    with pytest.raises(InvalidRequest):
        UpdateTool.model_validate({"name": "none"}).to_change()(tool)


def test_a_tool_is_shown_with_the_argument_of_the_loop() -> None:
    shown = custom_tool(CreateTool.model_validate({"source_code": ROLL}).to_new(), "t", None)
    assert (shown.tool_type, shown.source_type, shown.source_code) == ("custom", "python", ROLL)
    parameters = (shown.json_schema or {})["parameters"]
    assert list(parameters["properties"]) == ["sides", "name", "request_heartbeat"]
    assert parameters["required"] == ["sides", "request_heartbeat"]


def test_texts_become_the_types_of_their_parameters() -> None:
    schema = of("a: int, b: float, c: bool, d: list, e: dict, f: str, g: Any")
    given = {"a": "3", "b": "2.5", "c": "true", "d": "[1]", "e": "{'k': 1}", "f": "3", "g": "3", "h": "3"}
    read = {"a": 3, "b": 2.5, "c": True, "d": [1], "e": {"k": 1}, "f": "3", "g": "3", "h": "3"}
    assert with_types(given, schema) == read
    wrong = {"a": "x", "b": "[]", "c": "3", "d": "(", "e": "__import__('os')", "f": 3}
    assert with_types(wrong, schema) == wrong
    assert with_types({"a": "(" * 9_999, "d": "-" * 9_999}, schema) == {"a": "(" * 9_999, "d": "-" * 9_999}


@pytest.mark.parametrize(
    "text", ["[b'x']", "[1j]", "[{1, 2}]", "[...]", "['\\ud800']", f"[0x{'f' * 9_000}]", "[1e999]", "[" * 99 + "]" * 99]
)
def test_a_text_that_is_a_literal_but_no_json_stays_a_text(text: str) -> None:
    assert with_types({"a": text}, of("a: list")) == {"a": text}
    assert with_types({"a": "1e999"}, of("a: float")) == {"a": "1e999"}


def test_an_output_over_its_limit_has_a_notice_and_printed_lines_are_bounded() -> None:
    outcome = PythonOutcome("abc", 5, is_error=False, stdout="x" * (MOST_OUTPUT + 1), stderr="")
    assert outcome.shown == "abc\n[The function output was truncated to 3 of 5 characters.]"
    assert outcome.result.metadata == {"stdout": ["x" * MOST_OUTPUT + CUT], "stderr": []}
    shown = run_result_of(SourceResult(outcome, NOW))
    assert (shown.status, shown.stdout, shown.stderr) == ("success", ("x" * MOST_OUTPUT + CUT,), ())
    failed = PythonOutcome("no", 2, is_error=True)
    assert (failed.result.content, failed.result.metadata) == ("no", {"error": True, "stdout": [], "stderr": []})
    assert run_result_of(SourceResult(failed, NOW)).status == "error"


def test_a_run_has_its_arguments_and_variables() -> None:
    run = RunTool.model_validate({"source_code": ROLL, "args": {"sides": "6"}, "env_vars": {"K": "v"}}).to_run()
    assert (run.tool.name, run.arguments, run.environment) == ("roll", {"sides": "6"}, {"K": "v"})


@pytest.mark.parametrize(
    "wrong",
    [{"1K": "v"}, {"K-": "v"}, {"K\n": "v"}, {"K": "a\0b"}, {"K": "x" * 4_097}, {f"K{n}": "" for n in range(65)}],
)
def test_other_variables_are_refused_without_their_values(wrong: dict[str, str]) -> None:
    for model in (CreateLettaAgent, UpdateLettaAgent):
        with pytest.raises(ValidationError) as refused:
            model.model_validate({"tool_exec_environment_variables": wrong})
        assert "xxx" not in str(refused.value)


def test_a_variable_keeps_its_times_until_its_value_changes() -> None:
    before = variables_of({"A": "1", "B": "2"}, (), NOW)
    later = NOW + timedelta(days=1)
    after = variables_of({"B": "3", "A": "1", "C": "4"}, before, later)
    times = [(each.key, each.created_at, each.updated_at) for each in after]
    assert times == [("B", NOW, later), ("A", NOW, NOW), ("C", later, later)]
    assert values_of(after) == {"B": "3", "A": "1", "C": "4"}
    assert "'3'" not in repr(after)


def test_the_toolgroup_of_a_tool_of_python_is_added_and_removed_once() -> None:
    config = AgentConfig(model="m", instructions="", toolgroups=("builtin::clock",))
    both = ("builtin::clock", f"letta::custom/{TOOL_ID}")
    added = config.model_copy(update={"toolgroups": with_custom_tool(config, TOOL_ID)})
    assert added.toolgroups == with_custom_tool(added, TOOL_ID) == both
    assert custom_tools_of((*both, *both)) == (TOOL_ID,)
    assert without_custom_tool(added, TOOL_ID) == without_custom_tool(config, TOOL_ID) == ("builtin::clock",)
    with pytest.raises(InvalidRequest):
        refuse_many_tools(["x"] * (MOST_TOOLS + 1))


def test_ids_and_names_of_tools_become_toolgroups() -> None:
    sent = {"llm": "m", "include_base_tools": False, "tools": ["send_message", "roll"], "tool_ids": [f"tool-{TOOL_ID}"]}
    new = CreateLettaAgent.model_validate(sent).to_new("Sam")
    assert new.config.toolgroups == ("letta::core/send_message", f"letta::custom/{TOOL_ID}")
    assert new.tool_names == ("roll",)
    with pytest.raises(NotFound):
        CreateLettaAgent.model_validate({**sent, "tool_ids": ["tool-0"]}).to_new("Sam")
