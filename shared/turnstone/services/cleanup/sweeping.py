"""Periodic sweep: reconcile the turns left by dead processes or clients, and do other duties.

It is the last resort: a read of the turn, the next turn of its session or its supervisor usually comes first, and the
store's conditions decide which one acts.
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
    """The result of a sweep.

    Attributes:
        seen: open turns that were reconciled.
        ended: those that have ended since.
        taken_over: those that continue in this process.
        failed: turns and duties that raised an error.
        is_whole: whether there was time for everything.
        is_skipped: whether nothing was done because another process sweeps.
    """

    seen: int = 0
    ended: int = 0
    taken_over: tuple[TurnRef, ...] = ()
    failed: int = 0
    is_whole: bool = True
    is_skipped: bool = False

    @property
    def has_acted(self) -> bool:
        """Whether the sweep changed or left anything."""
        return bool(self.ended or self.taken_over or self.failed or not self.is_whole)


class Alone(NamedTuple):
    """Dependencies of exclusive sweeps: the store of the sweep's lease, and ids for its holders."""

    store: SweepStore
    ids: IdGenerator


class Sweeper:
    """Reconciles every open turn and does other duties in parallel."""

    def __init__(
        self,
        turns: TurnStore,
        reconcile: Callable[[TurnRef], Outlook],
        clock: Clock,
        duties: Sequence[Duty] = (),
        alone: Alone | None = None,
    ) -> None:
        """Call each duty with the time after which it must begin nothing.

        Args:
            alone: excludes parallel sweeps of other processes; None where only one process sweeps.
        """
        self._alone = alone
        self._turns = turns
        self._reconcile = reconcile
        self._clock = clock
        self._duties = duties

    def sweep(self, until: datetime) -> Swept:
        """Reconcile every open turn once, but start none after `until`. Raises StoreUnavailable for the index.

        Each sweep begins at another position, so that a short time never leaves out the same turns.
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
                # futures, because they keep an unexpected exception of one turn from the others
                outlooks = [(ref, pool.submit(self._reconcile_in_time, ref, until)) for ref in refs]
                for ref, outlook in outlooks:
                    swept = _counted(swept, ref, outlook)
            for done in duties:
                if problem := done.exception():
                    _log_failure("a duty of the sweep failed", problem)
                    swept = swept.model_copy(update={"failed": swept.failed + 1})
        level = logging.INFO if swept.has_acted else logging.DEBUG
        log.log(level, "swept: %s", swept.model_dump(exclude={"taken_over"}) | {"taken_over": len(swept.taken_over)})
        return swept

    def _reconcile_in_time(self, ref: TurnRef, until: datetime) -> Outlook | None:
        return self._reconcile(ref) if self._clock.now() < until else None


def _counted(swept: Swept, ref: TurnRef, future: "Future[Outlook | None]") -> Swept:
    if problem := future.exception():
        _log_failure(
            f"turn {ref.turn_id!r} of session {ref.session_id!r} not reconciled, the next sweep will try again", problem
        )
        return swept.model_copy(update={"failed": swept.failed + 1})
    outlook = future.result()
    if outlook is None:
        return swept.model_copy(update={"is_whole": False})
    changes: dict[str, object] = {"seen": swept.seen + 1, "ended": swept.ended + (outlook.check_at is None)}
    if outlook.run is not None:
        changes["taken_over"] = (*swept.taken_over, ref)
    return swept.model_copy(update=changes)


def _log_failure(what: str, problem: BaseException) -> None:
    log.warning("%s: %s", what, problem, exc_info=None if isinstance(problem, TurnstoneError) else problem)
