"""Run pytest again and again in forks of one process, which has loaded the slow modules of others.

A line on standard input is a list of arguments, as JSON; the answer is a line with the exit status, null for a run that had
to be ended. A script, not a module of the package: nothing of ours may be loaded before a fork.
"""

import importlib
import json
import os
import signal
import sys
import time

# not the plugins of pytest, which it loads itself
NOT_OURS = (
    "boto3",
    "httpx",
    "moto.awslambda_simple.models",
    "moto.dynamodb.models",
    "moto.stepfunctions.parser.backend.execution_worker",
    "pydantic",
    "pytest",
    "starlette",
    "uvicorn",
)
POLL_S = 0.02


def run(arguments: list[str], output: str, timeout_s: float) -> int | None:
    """Return pytest's exit status, None if it had to be ended; its output is in the file."""
    child = os.fork()
    if child == 0:
        os.setsid()
        output_file = os.open(output, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        os.dup2(output_file, 1)
        os.dup2(output_file, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = int(importlib.import_module("pytest").main(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # a thread that hangs may not hold it up
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(POLL_S)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    for name in NOT_OURS:
        importlib.import_module(name)
    assert not {"turnstone", "functions", "tests"} & sys.modules.keys(), "something of ours is loaded already"
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)
