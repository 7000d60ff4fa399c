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
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.mutants.mutant import Mutant

# What the tests import of others, loaded once for all trials; nothing of ours, which each trial loads anew.
PRELOADED = (
    *("anyio.pytest_plugin", "botocore.client", "cryptography.x509", "hypothesis.stateful", "jwt", "mangum"),
    *("pydantic.json_schema", "pydantic.main", "pydantic.networks", "sqlite3"),
    *("starlette.applications", "urllib3", "uvicorn", "xdist"),
    *("moto.dynamodb.responses", "moto.events.responses", "moto.s3.responses", "moto.secretsmanager.models"),
    *("moto.stepfunctions.responses", "moto.stepfunctions.parser.backend.execution_worker"),
    *("aws_lambda_powertools", "aws_lambda_powertools.metrics"),
)
QUIET = ("-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning")
SECONDS_PER_TEST = 15
MEMORY_BYTES = 6 * 2**30


class Mutated(SourceFileLoader):
    """Loads a module from its mutant's source; nothing on the disk changes."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, str(mutant.path.resolve()))
        self._source = mutant.source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class Swap(MetaPathFinder):
    """Finds the mutant where its module is asked for."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._loader = Mutated(mutant)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        return spec_from_file_location(fullname, self._mutant.path.resolve(), loader=self._loader)


def preload() -> None:
    """Import what all trials need, once."""
    for module in PRELOADED:
        importlib.import_module(module)
    assert not [name for name in sys.modules if name.split(".")[0] == "turnstone"], "ours is to be loaded in the trials"


def is_killed(mutant: Mutant, tests: Sequence[str], limit_s: float) -> bool:
    """Whether a test fails with the mutant in place, or does not come to its end."""

    def trial() -> int:
        sys.meta_path.insert(0, Swap(mutant))
        return int(pytest.main([*QUIET, "-x", "--timeout", str(SECONDS_PER_TEST), "--hypothesis-seed=0", *tests]))

    return in_a_fork(trial, limit_s) != 0


def in_a_fork(work: Callable[[], int], limit_s: float, says: bool = False) -> int | None:
    """The exit code of the work, done in a process of its own, or None if it was not done in time."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _work_alone(work, says)
    end = time.monotonic() + limit_s
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(done[1])


def _work_alone(work: Callable[[], int], says: bool) -> None:
    os.setsid()  # so that what it starts ends with it
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if not says:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    code = 1
    try:
        with tempfile.TemporaryDirectory() as examples:  # what fails with a mutant is no example to remember
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(examples))
            code = work()
    finally:
        sys.stdout.flush()
        os._exit(code)  # whatever threads are left
