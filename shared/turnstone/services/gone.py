"""Turns that were deleted while somebody still ran them."""

import logging

from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.events import TurnEvent
from turnstone.domain.sessions import TurnRef
from turnstone.services.replay import told_as_gone
from turnstone.store.turns import TurnStore

log = logging.getLogger(__name__)


def told_if_gone(turns: TurnStore, ref: TurnRef) -> tuple[TurnEvent, ...]:
    """Return how to tell that the turn was deleted, nothing if it is there or nobody knows."""
    try:
        turns.load(ref)
    except NotFound as missing:
        return (told_as_gone(missing, ref.turn_id),)
    except StoreUnavailable as unavailable:
        log.info("whether turn %s was deleted is not known: %s", ref.turn_id, unavailable)
    return ()
