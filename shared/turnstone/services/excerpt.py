"""The events of a turn from a number on, for a client that comes back, whoever knows them: the store or a run here."""

from collections.abc import Iterable, Iterator
from threading import Lock

from turnstone.domain.events import Numbered, StepStarted, TurnFailed
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns import TurnState, TurnStatus
from turnstone.services.broadcast import TurnBroadcast
from turnstone.services.replay import doubtful_after, numbered


class Excerpt:
    """Tells one client what it has not heard; what it may have heard once already has no number.

    Of a step that is stored the deltas come as one. A client that heard a part of them is told the step again, from its
    start, so that it never has to guess where its part ended.
    """

    def __init__(self, ref: TurnRef, after: int) -> None:
        self.broadcast = TurnBroadcast(ref)
        self._after = after
        self._up_to = after
        self._is_doubted = False
        self._start: Numbered | None = None
        self._in_order = Lock()

    def tell_state(self, state: TurnState) -> bool:
        """Tell what is stored; return whether more is to come."""
        goes_on = state.status is TurnStatus.IN_PROGRESS
        self._tell(numbered(state), doubtful_after(state), is_over=not goes_on)
        return goes_on

    def attach(self, running: TurnBroadcast) -> None:
        """Tell what the run here has told and will tell."""
        self._tell(running.before, running.doubtful_after, is_over=False)
        taking = Lock()

        def pass_on() -> None:
            with taking:
                heard = listener.take()
                if self.broadcast.is_left:
                    running.leave(listener)
                elif not self.broadcast.is_over:
                    self._tell(heard.told, running.doubtful_after, is_over=heard.is_last)
                    if heard.is_last:
                        running.leave(listener)

        listener = running.listen(pass_on)
        pass_on()

    def _tell(self, known: Iterable[Numbered], doubted: int | None, *, is_over: bool) -> None:
        with self._in_order:
            if doubted is not None and not self._is_doubted:
                self._is_doubted = True
                self._up_to = min(self._up_to, doubted)
            new = tuple(self._new_in(known))
            (self.broadcast.close if is_over else self.broadcast.publish)(*new)

    def _new_in(self, known: Iterable[Numbered]) -> Iterator[Numbered]:
        """Yield what is to be told of these events, which begin with the turn's first or follow those known before."""
        for told in known:
            if isinstance(told.event, StepStarted):
                self._start = told
            if told.number is None or isinstance(told.event, TurnFailed):
                yield self._shown(told)  # its number may be one that was told of a step that came to nothing
            elif told.number > self._up_to:
                if told.first is not None and told.first <= self._up_to and self._start is not None:
                    yield self._start._replace(number=None)
                self._up_to = told.number
                yield self._shown(told)

    def _shown(self, told: Numbered) -> Numbered:
        is_new = told.number is not None and told.number > self._after
        return told if is_new else told._replace(number=None)
