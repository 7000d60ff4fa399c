"""Background threads survive the exceptions of their work, and retries under contention end.

Covers: services/threads/daemon_threads, store/layout/contention
"""

from __future__ import annotations

import pytest

from turnstone.domain.errors import Conflict, StoreUnavailable
from turnstone.domain.values.outcome import Raised, Returned, guarded
from turnstone.services.threads.daemon_threads import DaemonThreads
from turnstone.store.layout.contention import TRIES, ReadAgain, retried


class Panic(BaseException):
    """An exception of a library's native code."""


def failing(error: BaseException) -> None:
    raise error


def test_an_act_has_its_result_or_its_error() -> None:
    panic = Panic()
    assert guarded(lambda: 3) == Returned(3)
    assert guarded(lambda: failing(panic)) == Raised(panic)
    with pytest.raises(KeyboardInterrupt):
        guarded(lambda: failing(KeyboardInterrupt()))


def test_a_thread_outlives_a_panic_and_raises_it_to_the_waiter() -> None:
    threads = DaemonThreads(1, "one")
    with pytest.raises(Panic):
        threads.run(lambda: failing(Panic())).result(5)
    assert threads.run(lambda: 3).result(5) == 3


@pytest.mark.parametrize("error", [Conflict(0, "key", None), ReadAgain()])
def test_a_write_that_met_another_is_repeated_as_often_as_allowed(error: Exception) -> None:
    tries: list[int] = []

    def act() -> int:
        tries.append(1)
        if len(tries) < TRIES:
            raise error
        return len(tries)

    assert retried(act, "busy") == TRIES
    tries.clear()
    with pytest.raises(StoreUnavailable, match="busy"):
        retried(act, "busy", tries=TRIES - 1)
    assert len(tries) == TRIES - 1


def test_other_errors_are_raised_at_once() -> None:
    with pytest.raises(Conflict):
        retried(lambda: failing(Conflict(0, "key", None)), "busy", on=(ReadAgain,))
