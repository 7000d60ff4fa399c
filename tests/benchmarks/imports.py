"""The cost of a function's start: each in a process of its own, measured in turns with a fixed baseline.

The processor time is user and system together, from the first line of the process on, so without that of the
interpreter's own start. A busy machine takes longer for everything: so each start is compared with one of the baseline
just before, and the median of these ratios counts.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Literal

from tests.benchmarks.figures import Figure
from tests.support.aws.cloudformation import template, variables

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("started.py")
START_TIMEOUT_S = 60
STARTS = 9
BUFFERED_BAR = 1.25
STREAMING_BAR = 1.35
MEMORY_BAR_MB = 65
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
    "TURNSTONE_TABLE": "turnstone",
    "TURNSTONE_BUCKET": "turnstone-blobs",
    "TURNSTONE_STATE_MACHINE_ARN": "arn:aws:states:eu-central-1:123456789012:stateMachine:TurnSupervisor",
    "TURNSTONE_MODEL_URL": "offline",
    "TURNSTONE_JOBS_QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/123456789012/turnstone-Jobs",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
AUTHORIZER = "authorizer.authorize"


@dataclass(frozen=True, slots=True)
class Function:
    """A function as the template deploys it: the module of its handler, and whether it is a web server instead."""

    module: str
    kind: Literal["buffered", "streaming"]

    @property
    def cpu_bar(self) -> float:
        """How much processor time its start may take, in that of the baseline."""
        return STREAMING_BAR if self.kind == "streaming" else BUFFERED_BAR

    def __str__(self) -> str:
        return f"{self.module} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Started:
    """The cost of one start.

    Attributes:
        memory_mb: the most it held.
        modules: the file of each module that the interpreter had not loaded by itself, None if it has none.
        first_request: the modules that the first request loaded.
        answer: the answer to the first request.
    """

    cpu_s: float
    memory_mb: float
    modules: dict[str, str | None]
    first_request: tuple[str, ...] = ()
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def own(self) -> set[str]:
        """The modules of the layer."""
        return {name for name in self.modules if name.split(".")[0] == "turnstone"}

    @property
    def third_party(self) -> set[str]:
        """The packages, by the names they are imported by, that neither Python brings nor we."""
        installed = tuple(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
        return {name.split(".")[0] for name, file in self.modules.items() if file and file.startswith(installed)}


def functions() -> tuple[Function, ...]:
    """Return every function the template deploys; one that can stream does so."""
    return tuple(_function(each) for _, each in sorted(template().functions.items()))


def _function(deployed: dict[str, Any]) -> Function:
    if deployed["Handler"] == "stream.sh":
        return Function(variables(deployed)["TURNSTONE_ROUTE_MODULE"], "streaming")
    return Function(deployed["Handler"].removesuffix(".handler"), "buffered")


def started(function: Function | None, event: Path | None = None, **environment: str) -> Started:
    """Start the function, or the baseline for None, in a new process, and let it answer an event if one is given."""
    _compile()
    if function is None:
        arguments, settings = ["baseline"], {}
    elif function.kind == "streaming":
        arguments, settings = ["stream"], {"TURNSTONE_ROUTE_MODULE": function.module}
    else:
        arguments, settings = ["function", function.module], {"_HANDLER": f"{function.module}.handler"}
        if function.module == AUTHORIZER:
            settings["TURNSTONE_AUTH"] = "api_keys"
    command = [sys.executable, str(PROGRAM), *arguments, *([str(event)] if event else [])]
    surrounding = {"PATH": os.environ["PATH"], **ENVIRONMENT, **settings, **environment}
    ran = subprocess.run(command, env=surrounding, capture_output=True, text=True, timeout=START_TIMEOUT_S)
    assert ran.returncode == 0, ran.stderr
    return Started(**json.loads(ran.stdout.splitlines()[-1]))


class Ratios:
    """The processor time of starts in that of the baseline, the more exact the more rounds there were."""

    def __init__(self) -> None:
        self._baseline_s: list[float] = []
        self._ratios: defaultdict[Function, list[float]] = defaultdict(list)

    def measure(self, chosen: Sequence[Function], rounds: int) -> None:
        """Start the baseline and then each function, so many times."""
        for _ in range(rounds):
            baseline_s = started(None).cpu_s
            self._baseline_s.append(baseline_s)
            for function in chosen:
                self._ratios[function].append(started(function).cpu_s / baseline_s)

    def of(self, function: Function) -> float:
        return median(self._ratios[function])

    @property
    def baseline_ms(self) -> float:
        return median(self._baseline_s) * 1_000


def starts_of_functions(_: Path) -> Iterator[Figure]:
    """Yield the cost of each function's start: processor time and memory."""
    ratios = Ratios()
    ratios.measure(functions(), STARTS)
    yield Figure("function: start of the baseline", ratios.baseline_ms, "ms")
    for function in functions():
        yield Figure(f"function: start of {function}", ratios.of(function), "×", function.cpu_bar)
        yield Figure(f"function: memory of {function}", started(function).memory_mb, "MB", MEMORY_BAR_MB)


@cache
def _compile() -> None:
    for folder in ("functions", "shared"):
        compileall.compile_dir(ROOT / folder, quiet=1)
