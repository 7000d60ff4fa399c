"""Run tests in a forked process, where one module may be another than the one on the disk."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType

import pytest

from tests.mutants.mutant import Mutant

# Third-party modules of the tests, loaded once for all trials; each trial loads our own again.
PRELOADED = (
    *("anyio.pytest_plugin", "aws_lambda_powertools.metrics", "cryptography.x509", "hypothesis.stateful", "jwt"),
    *("mangum", "pydantic.json_schema", "pydantic.main", "sqlite3", "starlette.applications", "uvicorn", "xdist"),
    *("moto.dynamodb.responses", "moto.stepfunctions.parser.backend.execution_worker"),
)
OPTIONS = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", "--hypothesis-seed=0")
SECONDS_PER_TEST = 15
MEMORY_BYTES = 6 * 2**30


class Swap(MetaPathFinder, SourceFileLoader):
    """Finds and loads a mutant when its module is imported; nothing on the disk changes."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(mutant.path.resolve()))
        self._source = mutant.source

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


def preload() -> None:
    """Import the modules that all trials need, once."""
    for module in PRELOADED:
        importlib.import_module(module)
    assert "turnstone" not in sys.modules, "a trial would not load the mutant"


def is_killed(mutant: Mutant | None, tests: Sequence[str], limit_s: float) -> bool:
    """Whether a test fails with the mutant in place, or does not come to its end; None for the code as it is."""

    def trial() -> int:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        if mutant is not None:
            sys.meta_path.insert(0, Swap(mutant))
        return int(pytest.main([*OPTIONS, "-x", "--timeout", str(SECONDS_PER_TEST), *tests]))

    return in_a_fork(trial, limit_s) != 0


def in_a_fork(work: Callable[[], int], limit_s: float) -> int | None:
    """The exit code of the work, done in a process of its own, or None if it was not done in time."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _work_alone(work)
    end = time.monotonic() + limit_s
    try:
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end:
                return None
            time.sleep(0.01)
        child = 0
        return os.waitstatus_to_exitcode(ended[1])
    finally:
        if child:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _work_alone(work: Callable[[], int]) -> None:
    os.setsid()  # so that its own processes end with it
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    code = 1
    try:
        with tempfile.TemporaryDirectory() as examples:  # a failure with a mutant is no example to keep
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = examples
            code = work()
    finally:
        sys.stdout.flush()
        os._exit(code)  # although threads may be left
