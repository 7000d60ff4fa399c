"""No test reaches beyond this machine, except those for a table that `TURNSTONE_TEST_TABLE` names."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import socket
import threading
from collections.abc import Generator, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.fakes.aws.aws_server import AwsProcess

WAITING = Path(__file__).parent / "e2e"
LOOPBACK = ("127.", "::1", "localhost")
CONNECT = socket.socket.connect
RARE_SEARCHES = (20_000, 20, 20)  # tests leave little garbage, and searches for it took a twentieth of their time
# a server would refuse it as a setting that is none; the processes of a run inherit it under a name of their own
if (is_required := os.environ.pop("TURNSTONE_REQUIRE_ALL", None)) is not None:
    os.environ["TESTS_REQUIRE_ALL"] = is_required
pytest.register_assert_rewrite("tests.support")  # asserts of helpers show values as well
settings.register_profile("unhurried", deadline=None)  # a busy machine takes its time over anything
settings.load_profile("unhurried")
gc.disable()  # while tests are collected, nothing becomes garbage


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="the seed of nightly tests; without it, each run takes a new one")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed; processes of a run that share its tests are given that of the first."""
    if config.option.seed is None:
        config.option.seed = getattr(config, "workerinput", {}).get("seed", secrets.randbits(32))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = node.config.option.seed


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the seed first, where nightly tests run; the other processes of a run have no terminal."""
    config = session.config
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and "nightly" in config.option.markexpr.replace("not nightly", ""):
        terminal.write_line(seed_line(config))


def pytest_collection_finish() -> None:
    """Leave the modules and items of all tests out of every later search for garbage: a sixth of the time of a test."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARE_SEARCHES)
    from starlette import routing

    from tests.support.aws.descriptions import parse_once  # after the asserts of helpers are registered

    parse_once()
    routing.compile_path = lru_cache(maxsize=None)(routing.compile_path)  # hundreds of tests build the same app


@pytest.fixture(scope="session", autouse=True)
def warm_starts() -> Iterator[None]:
    """Start servers from a prepared process; `cold_starts` takes that back where the start itself is tested."""
    from tests.support.starts.warm_starts import starts

    with starts(are_warm=True):
        yield


@pytest.fixture
def cold_starts() -> Iterator[None]:
    """Start each server as a new Python, as a user does."""
    from tests.support.starts.warm_starts import starts

    with starts(are_warm=False):
        yield


@pytest.fixture(autouse=True)
def own_log_handlers() -> Iterator[None]:
    """Take away the handlers of a server or function that a test starts in this process: the next test has its own."""
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    root.handlers[:] = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print the seed with each failure that may depend on it."""
    report = yield
    if report.failed and "fresh_seed" in getattr(item, "fixturenames", ()):
        report.sections.append(("Seed", seed_line(item.config)))
    return report


def seed_line(config: pytest.Config) -> str:
    return f"seed {config.option.seed}: --seed={config.option.seed} repeats the same cases"


@pytest.fixture(scope="session")
def fresh_seed(pytestconfig: pytest.Config) -> int:
    """The seed of this run, for nightly tests."""
    return int(pytestconfig.option.seed)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first where several processes share them: all wait for the last test.

    Each process begins with an equal part of the tests in their order, without those that `-m` leaves out. The parts of
    half of the processes begin with tests of real servers, which wait much, those of the others with tests that
    compute much: so some compute while others wait, all the time.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1:
        return
    kinds: dict[tuple[bool, bool], list[pytest.Item]] = {}
    for item in items:
        kinds.setdefault((WAITING in item.path.parents, bool(item.get_closest_marker("slow"))), []).append(item)
    waiting = [*kinds.pop((True, True), ()), *kinds.pop((True, False), ())]
    computing, quick = kinds.pop((False, True), []), iter(kinds.pop((False, False), ()))
    half = processes // 2
    firsts = [waiting[n::half] for n in range(half)] + [
        computing[n :: processes - half] for n in range(processes - half)
    ]
    ordered: list[pytest.Item] = []
    for number, first in enumerate(firsts):
        size = (len(items) - len(ordered)) // (processes - number)
        ordered += [*first, *islice(quick, max(0, size - len(first)))]
    items[:] = [*ordered, *quick]


class ReachedOut(AssertionError):
    """A test tried to talk to another machine."""


@pytest.fixture(autouse=True, scope="session")
def only_loopback() -> Iterator[None]:
    """Fail a test that connects to anything but this machine."""

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(LOOPBACK):
            raise ReachedOut(f"a test connects to {address}")
        CONNECT(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.fixture(scope="module")
def beyond_loopback(only_loopback: None) -> Iterator[None]:
    """Let the tests of one module talk to the cloud, because TURNSTONE_TEST_TABLE names a table there."""
    assert os.environ.get("TURNSTONE_TEST_TABLE"), "nobody allowed this module to reach beyond this machine"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", CONNECT)
        yield


@pytest.fixture
def in_a_lambda() -> Iterator[None]:
    """Give handlers an event loop of their own, as a Lambda has one, and undo their changes to the loggers."""
    loggers = [logging.getLogger(name) for name in (None, "turnstone", "functions")]
    saved = [(logger, logger.level, list(logger.handlers), list(logger.filters)) for logger in loggers]
    excepthook = threading.excepthook
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
    for logger, level, handlers, filters in saved:
        logger.setLevel(level)
        logger.handlers[:], logger.filters[:] = handlers, filters
    logging.captureWarnings(False)
    threading.excepthook = excepthook


@pytest.fixture(scope="session")
def aws() -> Iterator[AwsProcess]:
    """DynamoDB and S3 in a process of their own."""
    from tests.fakes.aws.aws_server import AwsProcess  # only where it is used: moto takes its time

    with AwsProcess() as process:
        yield process
