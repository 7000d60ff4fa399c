"""Banks of sessions: each is made for the first text that its session keeps, and is removed with the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InsertionsBusy, MemoryUnusable
from turnstone.domain.memory.banks import Bank, VectorSpace
from turnstone.domain.memory.documents import NewDocument, TextDocument
from turnstone.domain.memory.lent_banks import bank_of_session
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.memory.turns.lending import caller_of
from turnstone.store.memory.bank_reads import BankReads
from turnstone.store.memory.banks import BankStore, StoredBank

ONCE = Attempt(fingerprint="")  # texts under the same ids change nothing


class SessionText(NamedTuple):
    """A text that a session keeps; under the id of an earlier one it replaces that."""

    document_id: str
    text: str
    mime_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class SessionBankDeps:
    """Dependencies of session banks.

    Attributes:
        insert: inserts documents into a bank by its id.
        space: returns the tenant's space of vectors, None where none is configured.
    """

    store: BankStore
    reads: BankReads
    insert: Callable[[Caller, str, Sequence[TextDocument], ProviderData, Attempt], None]
    space: Callable[[str], VectorSpace | None]
    clock: Clock
    ids: IdGenerator


class SessionBanks:
    def __init__(self, deps: SessionBankDeps) -> None:
        self._deps = deps

    def keep(
        self, ref: SessionRef, stamp: Ownership, texts: Sequence[SessionText], provider_data: ProviderData
    ) -> None:
        """Add the texts to the session's bank; to do so again changes nothing.

        Args:
            stamp: the owner and access list of the session.

        Raises:
            NotFound: the session was deleted.
            InvalidRequest: the bank is full, or another one has its name.
            ModelError: the texts could not be embedded; none is added.
        """
        name = self._made(ref, stamp).bank.bank_id
        documents = [
            TextDocument(NewDocument(each.document_id, mime_type=each.mime_type), each.text)
            for each in texts
            if each.text.strip()
        ]
        try:
            self._deps.insert(caller_of(ref.tenant, stamp), name, documents, provider_data, ONCE)
        except InsertionsBusy as busy:
            raise MemoryUnusable(f"attachments: {busy}", ("attachments",)) from busy

    def _made(self, ref: SessionRef, stamp: Ownership) -> StoredBank:
        """Return the session's bank, a new one if it has none yet. Raises NotFound for a deleted session."""
        name = bank_of_session(ref.session_id)
        found = self._deps.reads.find(ref.tenant, [name]).get(name)
        if found is None:
            space, now = self._deps.space(ref.tenant), self._deps.clock.now()
            bank = Bank(
                bank_id=name,
                kind="keyword" if space is None else "vector",
                space=space,
                created_at=now,
                lives_with=ref,
                stamp=stamp,
            )
            found = self._deps.store.create_for_session(ref, StoredBank(bank, self._deps.ids.order_key(now, None)))
        if found.bank.lives_with != ref:
            taken = f"the name of the session's bank, {name!r}, is taken; delete that bank"
            raise MemoryUnusable(f"attachments: {taken}", ("attachments",))
        return found
