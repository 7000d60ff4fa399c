"""The services of sessions, and of the files that their turns produce."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.turn_memory import TurnMemoryServices
    from turnstone.domain.access.caller import Caller
    from turnstone.services.files.attachments import Attachments
    from turnstone.services.sessions.sessions import Sessions


class SessionServices:
    """The services of sessions."""

    def __init__(self, foundation: Foundation, memory: Callable[[], TurnMemoryServices]) -> None:
        self._foundation = foundation
        self._memory = memory

    @cached_property
    def sessions(self) -> Sessions:
        from turnstone.services.sessions.sessions import SessionDeps, Sessions

        ports = self._foundation.ports
        return Sessions(
            SessionDeps(
                store=self._foundation.session_store,
                agents=self._foundation.agent_store,
                rules=self._foundation.rules,
                supervisor=ports.supervisor,
                clock=ports.clock,
                ids=ports.ids,
                ephemeral_for_s=self._foundation.settings.ephemeral_ttl_s,
                check_bank=self._check_bank,
            )
        )

    def _check_bank(self, caller: Caller, bank_id: str) -> None:
        from turnstone.domain.access.access import owner_of
        from turnstone.domain.memory.lent_banks import NamedBank

        named = NamedBank(bank_id, owner_of(caller), ("vector_db_id",))
        self._memory().lending.refuse_unusable(caller.tenant, [named])

    @cached_property
    def attachments(self) -> Attachments:
        from turnstone.services.files.attachments import Attachments
        from turnstone.store.files.attachments import AttachmentStore

        ports = self._foundation.ports
        store = AttachmentStore(ports.store, reads_in_pieces=not self._foundation.is_on_lambda)
        return Attachments(store, self._foundation.rules, ports.clock)
