"""What lies in a database and nothing leads to.

Two things may be left, and nobody reads either: the step records of an ended turn, which holds its steps itself, when
its process was gone before it removed them; and blobs that no record names any more, or that the write of never came.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic_core import from_json

from turnstone.domain.turns import TurnStatus
from turnstone.records import Operation, Put, Record
from turnstone.store.frames import wire_part
from turnstone.store.keys import HEADER, SINGLE
from turnstone.store.oversize import OversizeStore

_BLOB_CODECS = ("blob", "zlib+blob")


@dataclass
class Leftovers:
    """What nothing leads to: `orphans` must not be, the rest may be under the conditions told above."""

    orphans: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    blobs: set[str] = field(default_factory=set)


def leftovers(records: Iterable[Record], blobs: set[str], store: OversizeStore) -> Leftovers:
    """Return what is left, given the records as they are stored and the store that knows to read them."""
    stored = list(records)
    found = _Walk([store._decoded(record) for record in stored]).leftovers
    found.blobs = blobs - blobs_named_by(stored)
    return found


def blobs_named_by(records: Iterable[Record | Operation]) -> set[str]:
    pointing = (r for r in records if isinstance(r, Record | Put) and r.attributes.get("codec") in _BLOB_CODECS)
    return {json.loads(record.body)["name"] for record in pointing}


class _Walk:
    """Goes from the list of agents to everything that can be reached, and notes the rest."""

    def __init__(self, records: list[Record]) -> None:
        self.leftovers = Leftovers()
        self._by_key = {(record.key.pk, record.key.sk): record for record in records}
        self._partitions: dict[str, list[Record]] = {}
        for record in records:
            self._partitions.setdefault(record.key.pk, []).append(record)
        self._reached: set[tuple[str, str]] = set()
        self._names: set[str] = set()
        for tenant in {pk.split("|")[0] for pk in self._partitions}:
            self._walk_agents(tenant)
        for tenant in {pk.split("|")[0] for pk in self._partitions}:
            self._walk_idempotency(tenant)
        orphans = self._by_key.keys() - self._reached
        self.leftovers.orphans += [f"{pk} {sk}" for pk, sk in sorted(orphans)]

    def _walk_agents(self, tenant: str) -> None:
        for entry in self._partitions.get(f"{tenant}|agents", []):
            self._reach(entry)
            agent_id = from_json(entry.body)["agent_id"]
            self._names.add(agent_id)
            if self._lead_to(entry, f"{tenant}|agent:{agent_id}", SINGLE):
                self._walk_sessions(tenant, agent_id)

    def _walk_sessions(self, tenant: str, agent_id: str) -> None:
        for entry in self._partitions.get(f"{tenant}|session:{agent_id}", []):
            self._reach(entry)
            session_id = from_json(entry.body)["session_id"]
            self._names.add(session_id)
            partition = f"{tenant}|session:{agent_id}:{session_id}"
            if self._lead_to(entry, partition, HEADER):
                self._walk_session(partition)

    def _walk_session(self, partition: str) -> None:
        records = self._partitions[partition]
        turns = {record.key.sk.removeprefix("turn:"): record for record in records if record.key.sk[:5] == "turn:"}
        self._names |= set(turns)
        segments = sorted(
            record.key.sk for record in records if record.key.sk[:4] == "ctx:" and record.key.sk != HEADER
        )
        if segments != [f"ctx:{number:010d}" for number in range(len(segments))]:
            self.leftovers.orphans.append(f"{partition} has a gap in {segments}")
        self._reached |= {(partition, sk) for sk in segments}
        for turn in turns.values():
            self._reach(turn)
            if ("open" in turn.attributes) is _is_ended(turn):
                self.leftovers.orphans.append(f"{turn.key} is {turn.attributes}")
        for step in (record for record in records if record.key.sk[:5] == "step:"):
            self._walk_step(step, turns)

    def _walk_step(self, step: Record, turns: dict[str, Record]) -> None:
        _, order, number = step.key.sk.split(":")
        turn = turns.get(order)
        if turn is None:
            return
        if not _is_ended(turn):
            self._reach(step)
        elif int(number) < len(from_json(wire_part(turn.body))["steps"]):
            self._reach(step)
            self.leftovers.steps.append(f"{step.key}")

    def _walk_idempotency(self, tenant: str) -> None:
        for pk, records in self._partitions.items():
            if pk.startswith(f"{tenant}|idempotency:"):
                for record in records:
                    answer = from_json(record.body)["answer"]
                    if set(answer.values()) <= self._names:
                        self._reach(record)

    def _lead_to(self, entry: Record, pk: str, sk: str) -> bool:
        target = self._by_key.get((pk, sk))
        if target is None:
            self.leftovers.orphans.append(f"{entry.key} leads to nothing")
            return False
        self._reach(target)
        return True

    def _reach(self, record: Record) -> None:
        self._reached.add((record.key.pk, record.key.sk))


def _is_ended(turn: Record) -> bool:
    return TurnStatus(str(turn.attributes["status"])).is_terminal
