"""The tool `code_interpreter`: the environment of honest code, and its result for the model.

Covers: adapters/tools/code/code_interpreter, adapters/tools/code/code_runs, adapters/tools/code/code_subprocess,
  adapters/tools/code/call_limit, adapters/tools/code/produced_files
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.server.servers import wait_until
from tests.support.tools.jailed import MEMORY_MB, Jails, can_jail, jails
from turnstone.adapters.tools.code import code_subprocess
from turnstone.adapters.tools.code.call_limit import CallLimit
from turnstone.adapters.tools.code.code_interpreter import CODE_INTERPRETER, CodeInterpreter
from turnstone.adapters.tools.code.code_runs import CUT, MAX_CHARACTERS, CodeRun
from turnstone.adapters.tools.code.code_subprocess import JailedCode
from turnstone.adapters.tools.code.produced_files import produced_file
from turnstone.domain.errors import ToolFailed, ToolgroupUnavailable
from turnstone.domain.tools.tool_runs import ProducedFile, ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.values.cancellation import StopSignal

__all__ = ["can_jail", "jails"]
ASKER = ToolAsker("tenant")


@dataclass
class Scripted:
    """Runs nothing, and returns the result that it was given.

    Attributes:
        calls: each piece of code, with its time limit and its stop signal.
    """

    result: CodeRun
    refusals: list[str] = field(default_factory=list)
    checks: int = 0
    calls: list[tuple[str, float, StopSignal | None]] = field(default_factory=list)

    def check(self) -> None:
        self.checks += 1
        if self.refusals:
            raise ToolFailed(self.refusals.pop(0))

    def run(self, code: str, timeout_s: float, stop: StopSignal | None) -> CodeRun:
        self.calls.append((code, timeout_s, stop))
        return self.result


def invocation(code: Any, *, name: str = "code_interpreter", timeout_s: float = 10) -> ToolInvocation:
    arguments = {"code": code}
    call = ToolCall(call_id="1", tool_name=name, arguments="{}")
    return ToolInvocation(call, arguments, "key", None, ASKER, timeout_s)


def result_of(run: CodeRun) -> ToolResult:
    return CodeInterpreter(Scripted(run), 30).invoke(invocation("x"))


def in_jail(code: str) -> ToolResult:
    return CodeInterpreter(JailedCode(MEMORY_MB), 10).invoke(invocation(code))


def test_printed_output_is_returned(jails: Jails) -> None:
    result = in_jail("import sys\nprint('a\\nü')\nprint('b', file=sys.stderr)")
    assert result.content == "completed\n[stdout]\na\nü\n[/stdout]\n[stderr]\nb\n[/stderr]"
    assert result.metadata == {"status": "completed", "exit_code": 0}


def test_an_error_has_its_own_traceback_lines_only(jails: Jails) -> None:
    result = in_jail("def half(n):\n    return n / 0\nhalf(1)")
    assert isinstance(result.content, str)
    assert result.content.startswith("error\n[stderr]\nTraceback (most recent call last):\n")
    assert 'File "<code>", line 3, in <module>\n    half(1)\n' in result.content
    assert result.content.endswith("ZeroDivisionError: division by zero\n[/stderr]\nexit code: 1")
    assert "<string>" not in result.content


@pytest.mark.parametrize(
    "code", ["x =", "\ud800", "'\0'", "  x", "raise SystemExit('told')", "raise KeyboardInterrupt"]
)
def test_invalid_code_is_an_error_with_a_reason(jails: Jails, code: str) -> None:
    run = jails.run(code)
    assert run.status == "error"
    assert run.stderr
    assert "entry.py" not in run.stderr


def test_an_exit_code_is_returned(jails: Jails) -> None:
    result = in_jail("print('so far'); raise SystemExit(3)")
    assert result.content == "error\n[stdout]\nso far\n[/stdout]\nexit code: 3"
    assert result.metadata == {"status": "error", "exit_code": 3}


def test_output_until_the_timeout_is_returned(jails: Jails) -> None:
    run = jails.run("print('so far'); import time; time.sleep(60)", timeout_s=2)
    assert (run.status, run.stdout) == ("timed out", "so far\n")


def test_files_are_kept(jails: Jails) -> None:
    result = in_jail("open('b.csv', 'w').write('1,2'); open('a.png', 'wb').write(b'\\x89PNG')")
    assert result.files == (
        ProducedFile("a.png", "image/png", b"\x89PNG"),
        ProducedFile("b.csv", "text/csv", b"1,2"),
    )
    assert result.content == "completed\nfiles: a.png, b.csv"


def test_files_are_kept_of_code_that_fails(jails: Jails) -> None:
    assert [file.body for file in in_jail("open('a', 'w').write('1'); 1 / 0").files] == [b"1"]


def test_each_call_starts_in_a_fresh_process(jails: Jails) -> None:
    in_jail("kept = 1; open('kept', 'w').write('1')")
    assert in_jail("import os; print(os.listdir(), 'kept' in globals())").content == (
        "completed\n[stdout]\n[] False\n[/stdout]"
    )


def test_most_of_the_standard_library_works(jails: Jails) -> None:
    code = (
        "import asyncio, collections, csv, ctypes, dataclasses, decimal, fractions, gzip, hashlib, io, json\n"
        "import lzma, math, os, pathlib, pickle, random, re, shutil, sqlite3, ssl, statistics, tempfile, threading\n"
        "import zipfile, zoneinfo\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from datetime import datetime\n"
        "@dataclasses.dataclass\n"
        "class Point: x: int\n"
        "assert pickle.loads(pickle.dumps(Point(1))) == Point(1)\n"
        "with ThreadPoolExecutor(4) as pool: print(sum(pool.map(abs, range(5))))\n"
        "print(asyncio.run(asyncio.sleep(0, 'slept')))\n"
        "with sqlite3.connect('a.db') as db: print(db.execute('select 6 * 7').fetchone())\n"
        "print(datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset())\n"
        "with tempfile.NamedTemporaryFile() as file: print(os.path.dirname(file.name))\n"
        "with zipfile.ZipFile('a.zip', 'w') as made: made.writestr('x', 'y')\n"
        "shutil.copytree('.', '/tmp/copy'); shutil.rmtree('/tmp/copy'); shutil.copy2('a.zip', 'b.zip')\n"
        "with open('/dev/null', 'w') as nothing: nothing.write('x')\n"
        "print(len(os.urandom(3)), random.random() < 1, pathlib.Path.home() == pathlib.Path.cwd(), __name__)"
    )
    run = jails.run(code)
    assert run.stderr == ""
    assert run.stdout.split("\n") == [
        "10", "slept", "(42,)", "2:00:00", "/tmp", "3 True True __main__", "",
    ]  # fmt: skip
    assert [file.name for file in run.files] == ["a.db", "a.zip", "b.zip"]


def test_packages_of_this_python_work(jails: Jails) -> None:
    assert jails.run("import pydantic_core, yaml; print(yaml.safe_load('a: 1'))").stdout == "{'a': 1}\n"


def test_a_missing_package_raises_module_not_found(jails: Jails) -> None:
    assert "ModuleNotFoundError: No module named 'turnstone'" in jails.run("import turnstone").stderr


def test_long_output_is_cut_to_its_beginning_and_its_end(jails: Jails) -> None:
    content = in_jail("print('first'); print('ü' * 2_000_000); print('last')").content
    assert isinstance(content, str)
    assert content.startswith("completed\n[stdout]\nfirst\nüüü")
    assert content.endswith("üüü\nlast\n[/stdout]")
    assert CUT in content
    assert "\ufffd" not in content
    assert len(content) < MAX_CHARACTERS + 100


def test_notes_and_timeouts_are_in_the_content() -> None:
    assert result_of(CodeRun("timed out", "a", "")).content == (
        "timed out\n[stdout]\na\n[/stdout]\nit was ended: it may take 10 seconds, also of all processors together"
    )
    assert result_of(CodeRun("error", "", "", note="noted")).content == "error\nnoted"


def test_files_of_one_name_get_different_names() -> None:
    files = tuple(produced_file(name, b"") for name in ("a b", "a_b", "a/a b"))
    assert [file.name for file in result_of(CodeRun("completed", "", "", 0, files)).files] == ["a_b", "2-a_b", "3-a_b"]


@pytest.mark.parametrize(("own", "given", "expected"), [(30, 10, 10), (5, 10, 5)])
def test_the_shorter_time_holds(own: float, given: float, expected: float) -> None:
    runner = Scripted(CodeRun("completed", "", ""))
    CodeInterpreter(runner, own).invoke(invocation("x", timeout_s=given))
    assert runner.calls == [("x", expected, None)]


def test_a_call_that_waited_has_the_rest_of_its_time_and_one_that_waited_too_long_does_not_run() -> None:
    runner, limit = Scripted(CodeRun("completed", "", "")), CallLimit(1)
    interpreter = CodeInterpreter(runner, 30, limit)
    interpreter.invoke(invocation("x", timeout_s=10))
    assert runner.calls.pop() == ("x", 10, None)
    with limit.slot("another", 0, None):
        with pytest.raises(ToolFailed, match=r"waited 0\.05 s for a place, and one call at a time"):
            interpreter.invoke(invocation("x", timeout_s=0.1))
        assert runner.calls == []
        waiting = threading.Thread(target=interpreter.invoke, args=(invocation("y", timeout_s=40),))
        waiting.start()
        wait_until(lambda: bool(limit._waiting), 10, "the call did not wait")
    waiting.join()
    ((code, timeout_s, _),) = runner.calls
    assert code == "y"
    assert 15 < timeout_s <= 30


@pytest.mark.parametrize("code", [None, "", "  \n", 1, ["x"], "x" * 200_001])
def test_an_argument_that_is_no_code_is_refused(code: Any) -> None:
    runner = Scripted(CodeRun("completed", "", ""))
    with pytest.raises(ToolFailed, match="code: send"):
        CodeInterpreter(runner, 30).invoke(invocation(code))
    assert runner.calls == []


def test_another_tool_is_refused() -> None:
    with pytest.raises(ToolFailed, match="no tool 'shell' here"):
        CodeInterpreter(Scripted(CodeRun("completed", "", "")), 30).invoke(invocation("x", name="shell"))


def test_the_tool_is_offered_where_code_can_be_run() -> None:
    runner = Scripted(CodeRun("completed", "", ""), ["this machine can't"])
    interpreter = CodeInterpreter(runner, 30)
    with pytest.raises(
        ToolgroupUnavailable, match=r"'builtin::code_interpreter' are not available now: this machine can't"
    ):
        interpreter.tools(ASKER)
    assert interpreter.tools(ASKER) == (CODE_INTERPRETER,)
    assert interpreter.tools(ASKER) == (CODE_INTERPRETER,)
    assert runner.checks == 2


def test_too_little_memory_for_python_is_an_error(can_jail: None) -> None:
    with pytest.raises(ToolFailed, match="code can't be run on this server"):
        JailedCode(8).check()


def test_the_least_memory_that_can_be_set_is_enough(can_jail: None) -> None:
    JailedCode(64).check()


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_subprocess.sys, "platform", "darwin")
    with pytest.raises(ToolFailed, match="only Linux"):
        JailedCode(MEMORY_MB).check()
