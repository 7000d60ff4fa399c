"""The smoke tests run the result of `make build` in emulators that `make smoke` sets up; other runs leave them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.smoke.artefact import ROOT, CloudResources
from tests.support.aws.dynamo_table import create_table
from tests.support.aws.emulator import EmulatorProcess

FOLDER = Path(__file__).parent
MINISTACK = ROOT / ".ministack" / "bin" / "python"
FIGURES = pytest.StashKey[list[str]]()
# The machine itself is tested elsewhere; tests check only the input of executions of this one.
DOES_NOTHING = '{"StartAt": "Ended", "States": {"Ended": {"Type": "Succeed"}}}'

Show = Callable[[str], None]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folder out unless an argument names it, or something in it."""
    named = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(FOLDER) for path in named) else True


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[FIGURES]:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def show(pytestconfig: pytest.Config) -> Show:
    """Return the function that adds a line to the summary, whether or not a test fails."""
    return pytestconfig.stash[FIGURES].append


@pytest.fixture(scope="session")
def emulator() -> Iterator[EmulatorProcess]:
    """An emulator that grants every right to every caller, for functions that run outside of it."""
    with EmulatorProcess(MINISTACK) as emulator:
        yield emulator


@pytest.fixture
def resources(emulator: EmulatorProcess) -> CloudResources:
    """A table, a bucket and a machine of the test's own."""
    name = f"smoke-{uuid4().hex[:8]}"
    create_table(emulator.client("dynamodb"), name)
    emulator.client("s3").create_bucket(
        Bucket=name, CreateBucketConfiguration={"LocationConstraint": emulator.environment["AWS_REGION"]}
    )
    machine = emulator.client("stepfunctions").create_state_machine(
        name=name, definition=DOES_NOTHING, roleArn="arn:aws:iam::000000000000:role/nobody"
    )
    return CloudResources(name, name, machine["stateMachineArn"], emulator.environment)
