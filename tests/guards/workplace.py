"""A copy of the tree in which guards are taken out and tests are run; the tree itself is left alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.guards.guard import Edit

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build")
IMPORTED = ("turnstone", "functions", "tests")
FAILED = re.compile(r"^FAILED (?P<test>\S+?::[^\s\[]+(?:\[.*?\])?)(?: - (?P<why>.*))?$")
# such a failure comes from the edit, not from the open race
BROKEN_EDIT = re.compile(r"NameError|SyntaxError|ImportError|UnboundLocalError|takes .* positional argument")
TESTS_FAILED = 1


class GuardNotFound(Exception):
    """The text of a guard is not in its file exactly once, or the file without it is no program."""


@dataclass(frozen=True)
class Outcome:
    """How some tests ended.

    Attributes:
        failed: the tests that failed, each of their cases with the reason that pytest gave.
        is_hanging: they had to be ended.
        is_green: all passed.
    """

    failed: dict[str, str]
    seconds: float
    is_hanging: bool
    is_green: bool
    output: str

    def is_red(self, test: str) -> bool:
        """Return whether the test failed; without brackets, any of its cases."""
        return test in self.failed or any(failed.startswith(f"{test}[") for failed in self.failed)


class Workplace:
    def __init__(self, folder: Path) -> None:
        """Copy the tree to the folder, and check that Python imports the copy there."""
        self._folder = folder / "tree"
        shutil.copytree(ROOT, self._folder, ignore=LEFT_OUT)
        self._environment = {
            **os.environ,
            "PYTHONPATH": f"{self._folder / 'shared'}{os.pathsep}{self._folder}",
            "PYTHONDONTWRITEBYTECODE": "1",  # a compiled file could replace one that was edited since
            "COLUMNS": "1000",  # else pytest cuts its reasons
        }
        self._assert_imported()
        self._warm = subprocess.Popen(
            [sys.executable, str(self._folder / "tests" / "guards" / "warm.py")],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def without(self, edits: Sequence[Edit]) -> Iterator[None]:
        """Take a guard out for the time of the block. Raises GuardNotFound."""
        files = {edit.file: (self._folder / edit.file).read_text() for edit in edits}
        edited = texts_without(edits, files)
        try:
            for file, text in edited.items():
                (self._folder / file).write_text(text)
            yield
        finally:
            for file, text in files.items():
                (self._folder / file).write_text(text)

    def run(self, tests: Sequence[str], timeout_s: float) -> Outcome:
        """Run the tests; end them at the timeout."""
        arguments = ["-p", "no:cacheprovider", "--tb=no", "-rfE", *tests]
        began = time.monotonic()
        code, output = self._pytest(arguments, timeout_s)
        failed = {}
        for line in output.splitlines():
            if (failure := FAILED.match(line)) is not None:
                failed[failure["test"]] = failure["why"] or ""
        if code == TESTS_FAILED and not failed:
            raise GuardNotFound(f"tests could not even begin:\n{output[-2_000:]}")
        if code not in (0, TESTS_FAILED, None):
            raise GuardNotFound(f"pytest ended with {code}:\n{output[-2_000:]}")
        return Outcome(failed, time.monotonic() - began, code is None, code == 0, output)

    def close(self) -> None:
        """End the process that runs tests."""
        self._warm.terminate()
        self._warm.communicate()

    def _pytest(self, arguments: Sequence[str], timeout_s: float) -> tuple[int | None, str]:
        """Return pytest's exit status, None if it had to be ended, and its output."""
        output_file = self._folder.parent / "output.txt"
        assert self._warm.stdin is not None
        assert self._warm.stdout is not None
        request = {"arguments": list(arguments), "output": str(output_file), "timeout_s": timeout_s}
        self._warm.stdin.write(json.dumps(request) + "\n")
        self._warm.stdin.flush()
        return json.loads(self._warm.stdout.readline()), output_file.read_text(errors="replace")

    def _assert_imported(self) -> None:
        program = "; ".join(
            [*(f"import {name}" for name in IMPORTED), *(f"print({name}.__file__)" for name in IMPORTED)]
        )
        command = [sys.executable, "-c", program]
        output = subprocess.run(command, cwd=self._folder, env=self._environment, capture_output=True, text=True).stdout
        paths = [Path(line) for line in output.splitlines()]
        if len(paths) != len(IMPORTED) or not all(path.is_relative_to(self._folder) for path in paths):
            raise GuardNotFound(f"not the copy in {self._folder} is imported, but:\n{output}")


def texts_without(edits: Sequence[Edit], files: Mapping[str, str]) -> dict[str, str]:
    """Return the files' texts without the guard.

    Raises:
        GuardNotFound: the guard is not in a file exactly once, or the file without it is no program.
    """
    edited = dict(files)
    for edit in edits:
        text = edited[edit.file]
        if (times := text.count(edit.found)) != 1:
            raise GuardNotFound(f"{edit.file} has {times} times, not once: {edit.found!r}")
        edited[edit.file] = text.replace(edit.found, edit.replaced_by)
    for file, text in edited.items():
        try:
            compile(text, file, "exec") if file.endswith(".py") else json.loads(text)
        except (SyntaxError, ValueError) as error:
            raise GuardNotFound(f"{file} is no program without its guard: {error}") from error
    return edited
