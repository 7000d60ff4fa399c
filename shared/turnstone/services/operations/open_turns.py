"""List and cancel open turns, for an operator."""

from collections.abc import Iterator, Sequence
from functools import partial

from turnstone.domain.errors import NotFound, NotOpen, TurnEnded, TurnstoneError
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.open_turns import InspectedTurn, Trouble
from turnstone.domain.values.outcome import Raised, Returned, guarded
from turnstone.services.turns.cancelling import Cancelling
from turnstone.store.sessions.turns import TurnStore

UNIQUE = Attempt(fingerprint="")


class OpenTurns:
    def __init__(self, turns: TurnStore, cancelling: Cancelling) -> None:
        self._turns = turns
        self._cancelling = cancelling

    def list(self, tenant: str | None) -> Iterator[InspectedTurn]:
        """Yield the open turns of a tenant, of all for None. Raises StoreUnavailable for the index."""
        for ref in self._refs(tenant):
            match guarded(partial(self._turns.load, ref)):
                case Returned((_, state)):
                    if not state.status.is_terminal:
                        yield ref, state
                case Raised(error):
                    if not isinstance(error, NotFound):  # else it was deleted after the index was read
                        yield ref, _trouble(error)

    def cancel(self, tenant: str, turn_ids: Sequence[str] | None) -> Iterator[InspectedTurn]:
        """Cancel these open turns of the tenant, all of them for None, and yield each that did not end by itself.

        Of all, deleted turns are left out, too.

        Raises:
            NotFound: one of them is not open; then none is cancelled.
            StoreUnavailable: the index can't be read.
        """
        open_refs = {ref.turn_id: ref for ref in self._refs(tenant)}
        for turn_id in turn_ids or ():
            if turn_id not in open_refs:
                raise NotOpen(turn_id, tenant)
        over = (TurnEnded, NotFound) if turn_ids is None else TurnEnded
        for turn_id in open_refs if turn_ids is None else turn_ids:
            match guarded(partial(self._cancelling.cancel_for_operator, open_refs[turn_id], UNIQUE)):
                case Returned(state):
                    yield open_refs[turn_id], state
                case Raised(error):
                    if not isinstance(error, over):
                        yield open_refs[turn_id], _trouble(error)

    def _refs(self, tenant: str | None) -> Iterator[TurnRef]:
        return (ref for ref in self._turns.each_open() if tenant in (None, ref.tenant))


def _trouble(problem: BaseException) -> Trouble:
    if isinstance(problem, TurnstoneError):
        return Trouble(reason=str(problem))
    # the kind only: the message of a record that can't be parsed quotes its content
    return Trouble(reason=f"what is stored of it can't be understood ({type(problem).__name__})")
