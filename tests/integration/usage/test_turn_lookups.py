"""The values that a turn decides on are read, validated and timed once, and passed along with it.

Covers: dialects/llama_stack/turns/requests
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tests.support.engine.either_store import Make
from tests.support.engine.harness import attempt
from turnstone.dialects.llama_stack.turns.requests import CreateTurn
from turnstone.domain.access.caller import LOCAL_CALLER

DECIDING = "services/turns/turns.py"


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count the calls of this thread and of threads that begin within the block."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        name, caller = frame.f_code.co_qualname, frame.f_back
        if name.endswith(".now") and caller is not None and caller.f_code.co_filename.endswith(DECIDING):
            name = "now, in the opening"
        if name.endswith("RangeStore.gather") and not any(frame.f_locals.get(which) for which in ("gets", "ranges")):
            name = "gather nothing"
        calls[name] += 1

    sys.setprofile(count)
    threading.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type] # as its documentation has it


def test_a_turn_reads_its_route_and_tools_once_and_decides_at_one_moment(make: Make) -> None:
    server = make("one", "two")
    ref = server.session()
    server.whole_turn(ref)
    body = {"messages": [{"role": "user", "content": "again"}], "instructions": "Be brief."}
    server.core.executor._pool = ThreadPoolExecutor(1)  # its thread begins within the count
    with counted_calls() as calls:
        new = CreateTurn.model_validate(body).to_new_turn()
        broadcast = server.turns.start(LOCAL_CALLER, ref, new, attempt())
        server.drain(broadcast)
    assert calls["Routing.route"] == 1
    assert calls["Toolboxes.of"] == 1
    assert calls["TurnStore.commit"] == 2, "the turn's own thread was counted"
    assert calls["TurnOverrides.agree_with_deprecated"] == 1
    assert calls["now, in the opening"] == 1
    assert calls["gather nothing"] == 0
