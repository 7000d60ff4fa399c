"""Coverage of the transcripts, and reasons for gaps: `python -m tests.golden --table` prints both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.golden import product
from tests.golden.every_scenario import SCENARIOS
from tests.golden.play import TRANSCRIPTS, read

E2E = Path(__file__).parents[1] / "e2e"
REQUEST = re.compile(r"(?m)^>>> \d+ (\w+) (\S.*)$")
STATUS = re.compile(r"(?m)^<<< (?:\d+ )?(\d{3})$")
PARAMETER = re.compile(r"\\\{\w+\\\}")
KILLS = "kills processes or the power, so that what is lost depends on the moment"
TIMES = "judges times, memory or connections, which differ from run to run"
RACES = "concurrent in real time; deterministic cases are in turns/followed_and_joined and failures/"
OTHER_PROGRAM = "another program than the server: the terminal client, a browser, the start of a process"
# end-to-end tests and rows of the table of clients without a transcript
LEFT_OUT: Mapping[str, str] = {
    "tests/e2e/command/test_chat.py": OTHER_PROGRAM,
    "tests/e2e/command/test_chat_input.py": OTHER_PROGRAM,
    "tests/e2e/command/test_memory.py": OTHER_PROGRAM,
    "tests/e2e/command/test_starts.py": "how a test starts a command, not what the command answers",
    "tests/e2e/command/test_wheel.py": OTHER_PROGRAM,
    "tests/e2e/server/test_cross_origin.py": "a browser's own requests; its answers' headers are in contract tests",
    "tests/e2e/server/test_first_words.py": OTHER_PROGRAM,
    "tests/e2e/server/test_refused_starts.py": OTHER_PROGRAM,
    "tests/e2e/server/test_where_it_is_installed.py": OTHER_PROGRAM,
    "tests/e2e/clients/test_inference_clients.py": f"{TIMES}: a client leaves while a model answers",
    "tests/e2e/tools/test_left_calls.py": f"{TIMES}: a client leaves while code runs",
    "tests/e2e/sessions/test_long_sessions.py": TIMES,
    "tests/e2e/server/test_slow_readers.py": TIMES,
    "tests/e2e/clients/test_retries_of_slow_models.py": TIMES,
    "tests/e2e/files/test_large_files.py": "bodies of many megabytes, and memory; files/ has small ones",
    "tests/e2e/store/test_lost_power.py": KILLS,
    "tests/e2e/server/test_processes.py": KILLS,
    "tests/e2e/store/test_torture.py": KILLS,
    "tests/e2e/responses/test_background.py": KILLS,
    "tests/e2e/responses/test_replays.py": KILLS,
    "tests/e2e/responses/test_sent_again.py": f"{TIMES}: a client waits for its timeout",
    "tests/e2e/responses/test_answered_calls.py": "answers in fragments; responses/ has calls and their answers",
    "tests/e2e/responses/test_deletions.py": "a client of many steps; conversations/ has deletions",
    "tests/e2e/responses/test_shared_history.py": "two clients in turns; conversations/ has turns of both APIs",
    "tests/e2e/responses/test_agents_sdk.py": "a client of many steps; responses/ has each of its requests",
    "tests/e2e/server/test_attacks.py": "random hostile requests; refusals/ and connections/ have examples",
    "tests/e2e/docs/test_runnable_blocks.py": "runs the commands of the documentation, which shows their output",
    "clients, second_turn_while_one_runs": RACES,
    "clients, errors.py": RACES,
    "clients, lost_turns.py, pause_and_resume.py, with_key.py": "wait for their test to change the server in between",
    "clients, leaving.py, long_turn.py, openai_completions.py leave": f"{TIMES}: clients leave, or models are slow",
    "clients, python-0.1.9, 0.2.0, 0.2.20, 0.0.53, 0.0.57, typescript-0.2.23": "send what the recorded versions send",
    "crash matrix, its crash points": "are numbered by calls of a port, so one call less moves all that follow",
    "code_interpreter": "needs a kernel that allows the jail, and real processor time",
    "AgentCore, Bedrock": "no emulator of these services runs here; the Lambda functions are in gateway/",
}


@cache
def wire() -> str:
    """Return the text of all transcripts of requests and answers."""
    return "\n".join(read(path) for path in sorted((TRANSCRIPTS / "wire").rglob("*.txt")))


def requests() -> set[tuple[str, str]]:
    """Return methods and paths of all requests."""
    return {(method, target.partition("?")[0]) for method, target in REQUEST.findall(wire())}


def uncovered(routes: Iterable[tuple[str, str, bool]]) -> list[str]:
    """Return the routes without a request."""
    sent = requests()
    return [
        f"{method} {path}"
        for method, path, takes_slashes in routes
        if not any(verb == method and pattern_of(path, takes_slashes).fullmatch(target) for verb, target in sent)
    ]


def pattern_of(path: str, takes_slashes: bool) -> re.Pattern[str]:
    pattern = PARAMETER.sub("[^/]+", re.escape(path))
    return re.compile(pattern.removesuffix("[^/]+") + ".+" if takes_slashes and path.endswith("}") else pattern)


def statuses() -> set[int]:
    return set(map(int, STATUS.findall(wire())))


def kinds_of_failures() -> set[str]:
    return {kind for scenario in SCENARIOS.values() for kind in scenario.fails_by}


def unnamed_tests() -> list[str]:
    """Return the modules of end-to-end tests with neither a scenario nor a reason for a gap."""
    named = {test.partition("::")[0] for scenario in SCENARIOS.values() for test in scenario.stands_for}
    modules = [f"tests/e2e/{path.relative_to(E2E)}" for path in sorted(E2E.rglob("test_*.py"))]
    return [module for module in modules if module not in named and module not in LEFT_OUT]


def table() -> str:
    """Return the table of scenarios and gaps."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"{len(SCENARIOS)} scenarios"
    for name, scenario in sorted(SCENARIOS.items()):
        over = "" if len(scenario.only) > 1 else f" (over {scenario.only[0]} only)"
        yield f"  {name}{over}: {', '.join(scenario.stands_for)}"
    served, unserved = uncovered(product.ROUTES), uncovered(product.UNSERVED)
    yield f"routes without a request: {served or 'none'}"
    yield f"unserved routes with a request: {len(product.UNSERVED) - len(unserved)} of {len(product.UNSERVED)}"
    yield f"statuses: {sorted(statuses())}"
    yield f"kinds of failures: {sorted(kinds_of_failures())}"
    yield "left out"
    for name, why in LEFT_OUT.items():
        yield f"  {name}: {why}"
