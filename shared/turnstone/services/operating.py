"""The turns that have not ended, as an operator sees them and ends them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from turnstone.domain.attempts import Attempt
from turnstone.domain.errors import NotFound, NotOpen, TurnEnded
from turnstone.domain.sessions import TurnRef
from turnstone.domain.turns import TurnState
from turnstone.services.cancelling import Cancelling
from turnstone.store.turns import TurnStore

UNIQUE = Attempt(fingerprint="")


class OpenTurns:
    def __init__(self, turns: TurnStore, cancelling: Cancelling) -> None:
        self._turns = turns
        self._cancelling = cancelling

    def list(self, tenant: str | None) -> Iterator[tuple[TurnRef, TurnState]]:
        """Yield the open turns of a tenant, of all for None, each with its state. Raises StoreUnavailable."""
        for ref in self._refs(tenant):
            try:
                _, state = self._turns.load(ref)
            except NotFound:
                continue  # it was removed meanwhile
            if not state.status.is_terminal:
                yield ref, state

    def cancel(self, tenant: str, turn_ids: Sequence[str] | None) -> Iterator[tuple[TurnRef, TurnState]]:
        """Cancel these open turns of the tenant, all of them for None, and yield each that did not end by itself.

        Raises:
            NotOpen: one of them is over or not there; then none is cancelled.
            StoreUnavailable: the store can't be reached, or a turn changes too fast.
        """
        known = {ref.turn_id: ref for ref in self._refs(tenant)}
        for turn_id in turn_ids or ():
            if turn_id not in known:
                raise NotOpen(turn_id, tenant)
        for turn_id in known if turn_ids is None else turn_ids:
            with suppress(TurnEnded):
                yield known[turn_id], self._cancelling.cancel_for_operator(known[turn_id], UNIQUE)

    def _refs(self, tenant: str | None) -> Iterator[TurnRef]:
        return (ref for ref in self._turns.each_open() if tenant in (None, ref.tenant))
