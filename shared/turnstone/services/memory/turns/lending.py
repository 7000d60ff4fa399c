"""Access of turns to memory banks: a bank is read if one of its namers for the turn may see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from turnstone.domain.access.access import Ownership
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import MemoryUnusable
from turnstone.domain.memory.lent_banks import LentBanks, NamedBank
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules
from turnstone.store.memory.bank_reads import BankReads, OpenedBank
from turnstone.store.memory.banks import StoredBank


class Lending:
    def __init__(self, reads: BankReads, rules: AccessRules, clock: Clock) -> None:
        self._reads = reads
        self._rules = rules
        self._clock = clock

    def refuse_unusable(self, tenant: str, named: Sequence[NamedBank]) -> None:
        """Raise MemoryUnusable, naming the field, for a bank that its namers can't lend.

        A bank that this process has read before is not read again, as `open` does that, unless it would be refused:
        it may have changed since, and a hidden bank takes the time of a missing one.
        """
        required = [each for each in named if not each.is_optional]
        names = list(dict.fromkeys(each.bank_id for each in required))
        try:
            self._check(tenant, required, {name: self._reads.remembered(tenant, name) for name in names})
        except MemoryUnusable:
            self._check(tenant, required, self._reads.find(tenant, names))

    def open(self, tenant: str, banks: LentBanks, bank_ids: Iterable[str]) -> list[OpenedBank]:
        """Return these banks with their content, in this order, without optional ones that are not there.

        Raises:
            MemoryUnusable: a bank is missing, or none of its namers may see it.
        """
        names = list(dict.fromkeys(bank_ids))
        opened = self._reads.open(tenant, names) if names else {}
        named = [each for each in banks.named if each.bank_id in names]
        optional = {each.bank_id for each in named if each.is_optional and each.bank_id not in opened}
        required = [name for name in names if name not in optional]
        if unnamed := set(required) - {each.bank_id for each in named}:
            raise MemoryUnusable(_missing(min(unnamed)))
        self._check(
            tenant,
            [each for each in named if each.bank_id not in optional],
            {bank_id: bank.stored for bank_id, bank in opened.items()},
        )
        return [opened[name] for name in required]

    def _check(self, tenant: str, named: Sequence[NamedBank], found: Mapping[str, StoredBank | None]) -> None:
        for bank_id in dict.fromkeys(each.bank_id for each in named):
            of_bank = [each for each in named if each.bank_id == bank_id]
            stored, where = found.get(bank_id), ".".join(map(str, of_bank[0].location))
            if (
                stored is None
                or stored.is_over(self._clock.now())
                or not any(self._rules.may_see(caller_of(tenant, each.by), stored.bank.stamp) for each in of_bank)
            ):
                raise MemoryUnusable(f"{where}: {_missing(bank_id)}", of_bank[0].location)
            for each in of_bank:
                if each.kind not in (None, stored.bank.kind):
                    where = ".".join(map(str, each.location))
                    problem = f"{bank_id!r} is a bank of the type {stored.bank.kind!r}, not {each.kind!r}"
                    raise MemoryUnusable(f"{where}: {problem}", each.location)


def caller_of(tenant: str, created: Ownership) -> Caller:
    """Return the creator of a resource of this owner, with the groups at its creation."""
    return Caller.model_construct(tenant=tenant, principal=created.owner or "", **dict(created.attributes))


def _missing(bank_id: str) -> str:
    return f"there is no memory bank {bank_id!r}; register it first"
