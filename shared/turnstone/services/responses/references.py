"""References to items: the turn of an item of any response or conversation that the caller may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.responses.addresses import ITEM_KIND, item_address, session_of, turn_of
from turnstone.services.access.access import AccessRules, check_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnstone.domain.access.caller import Caller
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.responses.conversations import ConversationTurn
    from turnstone.domain.responses.requests import Predecessor
    from turnstone.ports.system import Clock
    from turnstone.store.responses.conversations import ConversationStore
    from turnstone.store.responses.responses import ResponseStore


class References(NamedTuple):
    """The stores in which referenced items are found."""

    conversations: ConversationStore
    responses: ResponseStore
    rules: AccessRules
    clock: Clock

    def turn_with(self, caller: Caller, predecessor: Predecessor, item_id: str) -> ConversationTurn:
        """Return the turn with the item: of the session to continue, or of a response in the tenant's list.

        Raises NotFound also for one that the caller may not see.
        """
        for ref in self._turns(caller, predecessor, item_id):
            try:
                session, agent_owner, _ = self.conversations.visit(ref.session)
                check_session(self.rules, caller, session, agent_owner, self.clock.now())
                found = self.conversations.turn(ref)
            except (NotFound, ContentLost):
                continue
            if found is not None:
                return found[0]
        raise NotFound(ITEM_KIND, item_id)

    def _turns(self, caller: Caller, predecessor: Predecessor, item_id: str) -> Iterator[TurnRef]:
        """Yield the turns that may have the item."""
        address = item_address(item_id)
        if address is None:
            return
        if predecessor.response is not None:
            yield turn_of(caller.tenant, predecessor.response).session.turn(address.turn_id)
        if predecessor.conversation is not None:
            yield session_of(caller.tenant, predecessor.conversation).turn(address.turn_id)
        listed = self.responses.listed(caller.tenant, address.turn_id, self.clock.now())
        if listed is not None:
            yield listed
