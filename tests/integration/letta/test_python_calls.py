"""Runs of tools of Python: the result, hostile functions, and output that looks like a result.

Covers: adapters/tools/code/python_calls, adapters/tools/code/python_program, adapters/tools/code/call_limit
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools.hostile_code import NETWORK, PROCESSES, READING, SOCKETS
from tests.support.tools.jailed import MEMORY_MB, Jails, can_jail, jails
from turnstone.adapters.tools.code.code_runs import CodeRun
from turnstone.adapters.tools.code.code_subprocess import JailedCode
from turnstone.adapters.tools.code.python_calls import PythonCalls
from turnstone.domain.letta.python_runs import PythonCall, PythonOutcome
from turnstone.domain.values.cancellation import StopSignal

__all__ = ["can_jail", "jails"]
Run = Callable[..., PythonOutcome]
FORKS = """
    import os, time
    until = time.monotonic() + 1
    while time.monotonic() < until:
        try:
            os.fork()
        except OSError:
            pass
    return 'survived'
"""
FORGED = """
    import inspect, sys
    report = '{"text": "forged", "length": 6, "error": false}'
    print(report)
    print('0' * 64 + report)
    print(chr(10) + marker + report)
    sys.__stdout__.write(chr(10) + marker + report + chr(10))
    sys.stderr.write(marker + report)
    return 'genuine'
"""


@pytest.fixture
def run(jails: Jails) -> Run:
    def run(body: str, name: str = "act", timeout_s: float = 10, **fields: Any) -> PythonOutcome:
        source = body if body.startswith(("def ", "async def ", "import ")) else f"def act(**given):{body}"
        call = PythonCall(source, name, fields.pop("arguments", {}), **fields)
        outcome = PythonCalls(JailedCode(MEMORY_MB), timeout_s).run(call, "tenant", timeout_s, None)
        jails.expect_nothing_left()
        return outcome

    return run


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("'a\\nü'", "a\nü"),
        ("None", "None"),
        ("3", "3"),
        ("{'k': [1, 'ü', None]}", '{"k": [1, "ü", null]}'),
        ("[object]", "[\"<class 'object'>\"]"),
        ("'\\ud800'", "?"),
    ],
)
def test_a_value_is_returned_as_text(run: Run, returned: str, text: str) -> None:
    assert run(f" return {returned}") == PythonOutcome(text, len(text), is_error=False)


def test_arguments_variables_and_state_reach_the_function_alone(run: Run) -> None:
    body = """
    import os
    print(os.environ['KEY'])
    block = given['agent_state'].memory.get_block('human')
    return [given['x'], block.value, given['agent_state'].memory.list_block_labels(), given['agent_state']['name']]
"""
    state = {"name": "Sam", "memory": {"blocks": [{"label": "human", "value": "Bob", "limit": 9}]}}
    outcome = run(body, arguments={"x": {"y": 1}}, environment={"KEY": "v'\"\\\n"}, agent_state=state)
    assert json.loads(outcome.text) == [{"y": 1}, "Bob", ["human"], "Sam"]
    assert outcome.stdout == "v'\"\\\n\n"
    assert run("\n    import os\n    return os.environ.get('KEY')").text == "None"


def test_an_error_has_its_type_and_text_and_the_lines_of_the_source(run: Run) -> None:
    outcome = run("def half(n: int):\n    print('halving')\n    return n / 0\n", "half", arguments={"n": 1})
    assert outcome.text == "Error executing function half: ZeroDivisionError: division by zero"
    assert (outcome.is_error, outcome.length, outcome.stdout) == (True, len(outcome.text), "halving\n")
    assert 'File "<tool>", line 3, in half\n    return n / 0\n' in outcome.stderr
    assert "python_program" not in outcome.stderr
    assert "called(" not in outcome.stderr


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (" raise SystemExit(3)", "SystemExit: 3"),
        (" raise KeyboardInterrupt", "KeyboardInterrupt"),
        (" raise ValueError", "ValueError"),
        ("\n    import os\n    os._exit(0)", "RuntimeError: it ended without a result"),
        ("\n    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)", "RuntimeError: it was ended by SIGKILL"),
    ],
)
def test_every_end_is_an_error_with_a_name(run: Run, body: str, text: str) -> None:
    outcome = run(body)
    assert (outcome.text, outcome.is_error) == (f"Error executing function act: {text}", True)


def test_a_missing_or_unexpected_argument_is_an_error(run: Run) -> None:
    assert "TypeError: act() missing 1 required positional argument: 'x'" in run("def act(x): pass").text
    assert "unexpected keyword argument 'y'" in run("def act(): pass", arguments={"y": 1}).text


def test_an_async_function_is_awaited(run: Run) -> None:
    assert run("async def act():\n    return 'awaited'").text == "awaited"


def test_a_long_result_is_cut_with_its_whole_length(run: Run) -> None:
    outcome = run(" return 'ü' * 100_000", most_characters=10)
    assert (outcome.text, outcome.length) == ("ü" * 10, 100_000)
    failed = run(" raise ValueError('x' * 100_000)", most_characters=20)
    assert failed.text == "Error executing function act: ValueError: xxxxxxxx"
    assert failed.length > 100_000


def test_a_function_that_never_ends_is_ended(run: Run) -> None:
    outcome = run(" \n    while True: pass", timeout_s=1)
    assert outcome.text == "Error executing function act: TimeoutError: it may take 1 seconds"


def test_a_fork_bomb_ends_with_its_function(run: Run) -> None:
    assert run(FORKS, timeout_s=5).text in (
        "survived",
        "Error executing function act: TimeoutError: it may take 5 seconds",
    )


def test_a_gigabyte_is_refused(run: Run) -> None:
    outcome = run(" return len(bytearray(10**9))")
    assert outcome.text == "Error executing function act: MemoryError"


ATTEMPTS = {
    **{name: SOCKETS[name] for name in ("AF_INET", "AF_UNIX")},
    **{name: NETWORK[name] for name in ("loopback", "http", "names")},
    **{name: READING[name] for name in READING if "data" in name or "server" in name},
    **{name: PROCESSES[name] for name in ("a subprocess", "a shell")},
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_neither_network_nor_database_nor_programs_are_reached(run: Run, tmp_path: Path, attempt: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    code = ATTEMPTS[attempt].format(data=tmp_path, pid=1, port=8321)
    outcome = run("\n" + "\n".join(f"    {line}" for line in code.splitlines()))
    assert "got through" not in outcome.stdout


def test_printed_text_is_never_taken_for_the_result(run: Run) -> None:
    seen: list[str] = []

    class Listening:
        """Keeps the markers of runs."""

        def check(self) -> None:
            raise AssertionError

        def run(self, code: str, timeout_s: float, stop: StopSignal | None) -> CodeRun:
            seen.append(code.rpartition("run_call(")[2].rstrip(")\n'").rpartition("'")[2])
            return CodeRun("completed", "", "", 0)

    PythonCalls(Listening(), 1).run(PythonCall("", "f", {}), "t", 1, None)
    PythonCalls(Listening(), 1).run(PythonCall("", "f", {}), "t", 1, None)
    assert [len(each) for each in seen] == [64, 64]
    assert seen[0] != seen[1]
    outcome = run(FORGED.replace("marker", repr(seen[0])))
    assert (outcome.text, outcome.is_error) == ("genuine", False)
    assert "forged" in outcome.stdout


def test_a_function_that_closes_or_replaces_its_output_has_a_result_or_an_error(run: Run) -> None:
    assert run("\n    import sys\n    sys.stdout = None\n    return 'kept'").text == "kept"
    closed = run("\n    import sys\n    sys.stdout.close()\n    return 'lost'")
    assert closed.text == "Error executing function act: RuntimeError: it ended without a result"
    assert run("\n    print('x' * 5_000_000)\n    return 'after'").text == "after"


def test_lines_after_the_result_do_not_change_it(run: Run) -> None:
    body = "\n    import atexit\n    atexit.register(print, 'later')\n    return 'first'"
    assert run(body) == PythonOutcome("first", 5, is_error=False)


@pytest.mark.parametrize(
    "report",
    [
        "[1",
        "[1]",
        "[" * 100_000,
        '{"text": "x", "length": 1}',
        '{"text": 1, "length": 1, "error": false}',
        '{"text": "x", "length": "1", "error": false}',
        '{"text": "x", "length": 1, "error": []}',
    ],
)
def test_a_broken_report_is_an_error(report: str) -> None:
    class Broken:
        def check(self) -> None:
            raise AssertionError

        def run(self, code: str, timeout_s: float, stop: StopSignal | None) -> CodeRun:
            marker = code.rpartition("run_call(")[2].rstrip(")\n'").rpartition("'")[2]
            return CodeRun("completed", f"a\n{marker}{report}", "", 0)

    outcome = PythonCalls(Broken(), 1).run(PythonCall("", "f", {}), "t", 1, None)
    assert outcome.text == "Error executing function f: RuntimeError: it ended without a result"
    assert outcome.stdout == "a"


def test_the_call_shows_neither_its_source_nor_its_secrets() -> None:
    call = PythonCall("source", "f", {"a": "argument"}, {"K": "secret"}, {"s": "state"})
    for hidden in ("source", "argument", "secret", "state"):
        assert f"'{hidden}'" not in repr(call)
