"""Looking now and then for what nobody looks after: turns left by dead processes or clients, and other duties.

It is the last resort: who reads a turn, opens the next one of its session or supervises it usually comes first, and
the store's conditions decide who acts.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from turnstone.domain.errors import TurnstoneError
from turnstone.domain.refs import TurnRef
from turnstone.domain.values.frozen import Frozen
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.turns.recovery import Outlook
from turnstone.store.cleanup.sweeps import SweepStore
from turnstone.store.sessions.turns import TurnStore

log = logging.getLogger(__name__)
MAX_PARALLEL_TURNS = 4
BATCH = 64
SHIFT_S = 300

Duty = Callable[[datetime], object]


class Swept(Frozen):
    """What a sweep did.

    Attributes:
        seen: turns that were open and looked at.
        ended: those that have ended since.
        taken_over: those that go on in this process.
        failed: those that could not be looked at, and duties that could not be done.
        is_whole: whether there was time for everything.
        is_skipped: whether nothing was done, because another process sweeps.
    """

    seen: int = 0
    ended: int = 0
    taken_over: tuple[TurnRef, ...] = ()
    failed: int = 0
    is_whole: bool = True
    is_skipped: bool = False

    @property
    def has_acted(self) -> bool:
        """Whether it changed anything, or left anything undone."""
        return bool(self.ended or self.taken_over or self.failed or not self.is_whole)


class Alone(NamedTuple):
    """What sweeping alone takes: where the lease of a sweep is kept, and what names its holder."""

    store: SweepStore
    ids: IdGenerator


class Sweeper:
    """Attends to every open turn, and does the other duties it is given beside that."""

    def __init__(
        self,
        turns: TurnStore,
        attend: Callable[[TurnRef], Outlook],
        clock: Clock,
        duties: Sequence[Duty] = (),
        alone: Alone | None = None,
    ) -> None:
        """Take duties, each of which is given the time after which it is to begin with nothing.

        Args:
            alone: sees to it that no two processes sweep at once; None where only one process does.
        """
        self._alone = alone
        self._turns = turns
        self._attend = attend
        self._clock = clock
        self._duties = duties

    def sweep(self, until: datetime) -> Swept:
        """Look at everything once, but begin with nothing after that time. Raises StoreUnavailable for the index.

        Where each sweep begins moves on, so that no turn is left out for good when time is short.
        """
        if self._alone is None:
            return self._swept(until)
        lease = self._alone.store.try_take(self._alone.ids.new_id(), self._clock.now(), until)
        if lease is None:
            log.debug("not swept: another sweep is not over")
            return Swept(is_whole=False, is_skipped=True)
        try:
            return self._swept(until)
        finally:
            self._alone.store.release(lease, self._clock.now())

    def _swept(self, until: datetime) -> Swept:
        shift = int(self._clock.now().timestamp()) // SHIFT_S
        swept = Swept()
        with ThreadPoolExecutor(MAX_PARALLEL_TURNS + len(self._duties), thread_name_prefix="sweep") as pool:
            duties = [pool.submit(duty, until) for duty in self._duties]
            found = self._turns.each_open(shift)
            while refs := tuple(islice(found, BATCH)):
                if self._clock.now() >= until:
                    swept = swept.model_copy(update={"is_whole": False})
                    break
                # futures, because they catch what nobody expected of one turn: the others are looked at all the same
                looks = [(ref, pool.submit(self._attend_in_time, ref, until)) for ref in refs]
                for ref, look in looks:
                    swept = _counted(swept, ref, look)
            for done in duties:
                if problem := done.exception():
                    _log_failure("a duty was not done", problem)
                    swept = swept.model_copy(update={"failed": swept.failed + 1})
        level = logging.INFO if swept.has_acted else logging.DEBUG
        log.log(level, "swept: %s", swept.model_dump(exclude={"taken_over"}) | {"taken_over": len(swept.taken_over)})
        return swept

    def _attend_in_time(self, ref: TurnRef, until: datetime) -> Outlook | None:
        return self._attend(ref) if self._clock.now() < until else None


def _counted(swept: Swept, ref: TurnRef, look: "Future[Outlook | None]") -> Swept:
    if problem := look.exception():
        _log_failure(f"turn {ref.turn_id!r} of session {ref.session_id!r} is left to the next sweep", problem)
        return swept.model_copy(update={"failed": swept.failed + 1})
    outlook = look.result()
    if outlook is None:
        return swept.model_copy(update={"is_whole": False})
    changes: dict[str, object] = {"seen": swept.seen + 1, "ended": swept.ended + (outlook.check_at is None)}
    if outlook.run is not None:
        changes["taken_over"] = (*swept.taken_over, ref)
    return swept.model_copy(update=changes)


def _log_failure(what: str, problem: BaseException) -> None:
    log.warning("%s: %s", what, problem, exc_info=None if isinstance(problem, TurnstoneError) else problem)
