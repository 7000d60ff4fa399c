"""The records of a database that no other record leads to.

A clean-up job leads to deleted records until it has removed them, and the open index leads to the job.

The days lead to the usage of sessions, also of deleted ones.

Three kinds may be left, and no reader needs them: the step records of an ended turn, which holds its steps itself, when
its process was gone before it removed them, or another process ended it; files of a tool whose answer was never stored;
and blobs that no record names any more, or whose write never came. All are removed with their session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic_core import from_json

from turnstone.domain.jobs import Job
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import Operation, Put, Record
from turnstone.store.agents.implicit import IMPLICIT
from turnstone.store.layout.frames import wire_part
from turnstone.store.layout.keys import (
    HEADER,
    SINGLE,
    agent_list_key,
    job_key,
    job_shard,
    session_list,
    session_list_key,
)
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.letta.agents import FIELDS

_BLOB_CODECS = ("blob", "zlib+blob")


@dataclass
class Leftovers:
    """Records that nothing leads to: `orphans` must be empty, the rest may be left under the conditions above.

    Attributes:
        sessions: the ids of existing sessions.
        jobs: the unfinished jobs.
    """

    orphans: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    blobs: set[str] = field(default_factory=set)
    attachments: list[str] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    jobs: list[Job] = field(default_factory=list)


def leftovers(records: Iterable[Record], blobs: set[str], store: OversizeStore) -> Leftovers:
    """Return the leftovers of stored records; `store` decodes them."""
    stored = list(records)
    found = _Walk([store._decoded(record) for record in stored]).leftovers
    found.blobs = blobs - blobs_named_by(stored)
    return found


def blobs_named_by(records: Iterable[Record | Operation]) -> set[str]:
    pointing = (r for r in records if isinstance(r, Record | Put) and r.attributes.get("codec") in _BLOB_CODECS)
    return {json.loads(record.body)["name"] for record in pointing}


class _Walk:
    """Walks from the list of agents and from the jobs to every record in reach, and notes the rest."""

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
            self._walk_sessions(tenant, IMPLICIT)
            self._walk_responses(tenant)
            self._walk_blocks(tenant)
            self._walk_banks(tenant)
            self._walk_runs(tenant)
        for tenant in {pk.split("|")[0] for pk in self._partitions}:
            self._walk_idempotency(tenant)
            for registry in ("shields", "directory", "webhooks"):
                self._reach_all(f"{tenant}|{registry}")
            for webhook in self._partitions.get(f"{tenant}|webhooks", []):
                self._reach_all(f"{tenant}|webhook:{webhook.key.sk.removeprefix('id:')}")
        for pk in [pk for pk in self._partitions if pk.split("|")[-1].startswith("usage:")]:
            self._reach_all(pk)
        for pk in [pk for pk in self._partitions if pk.startswith("job:")]:
            self._walk_job(self._partitions[pk])
        orphans = self._by_key.keys() - self._reached
        self.leftovers.orphans += [f"{pk} {sk}" for pk, sk in sorted(orphans)]

    def _walk_agents(self, tenant: str) -> None:
        for entry in self._partitions.get(f"{tenant}|agents", []):
            self._reach(entry)
            agent_id = from_json(entry.body)["agent_id"]
            self._names.add(agent_id)
            agent = f"{tenant}|agent:{agent_id}"
            if self._lead_to(entry, agent, SINGLE):
                self._reached |= {(agent, FIELDS)} & self._by_key.keys()
                self._walk_sessions(tenant, agent_id)

    def _walk_sessions(self, tenant: str, agent_id: str) -> None:
        for entry in self._partitions.get(f"{tenant}|session:{agent_id}", []):
            self._reach(entry)
            session_id = from_json(entry.body)["session_id"]
            self._names.add(session_id)
            partition = f"{tenant}|session:{agent_id}:{session_id}"
            if self._lead_to(entry, partition, HEADER):
                self.leftovers.sessions.add(session_id)
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
        turn_bodies = b"".join(record.body for record in records if record.key.sk[:5] in ("turn:", "step:"))
        for attachment in (record for record in records if record.key.sk.startswith("attachment:")):
            self._reach(attachment)
            if attachment.key.sk.removeprefix("attachment:").encode() not in turn_bodies:
                self.leftovers.attachments.append(attachment.key.sk)
        beside = {(partition, f"{kind}:{order}") for kind in ("request", "items") for order in turns}
        self._reached |= beside & self._by_key.keys()
        for remembered in (record for record in records if record.key.sk.startswith("idempotency:")):
            if from_json(remembered.body)["answer"]["turn_id"] in turns:
                self._reach(remembered)

    def _walk_responses(self, tenant: str) -> None:
        """Walk from the list of responses; an entry is left until its time to live where its session is deleted."""
        for entry in self._partitions.get(f"{tenant}|responses", []):
            self._reach(entry)
            listed = from_json(entry.body)
            if listed["session_id"] in self.leftovers.sessions:
                partition = f"{tenant}|session:{listed['agent_id']}:{listed['session_id']}"
                self._lead_to(entry, partition, f"request:{listed['order']}")

    def _walk_blocks(self, tenant: str) -> None:
        """Walk from the list of memory blocks, which stay when their agent is deleted."""
        for entry in self._partitions.get(f"{tenant}|blocks", []):
            self._reach(entry)
            block_id = from_json(entry.body)["block_id"]
            self._names.add(block_id)
            self._lead_to(entry, f"{tenant}|block:{block_id}", SINGLE)

    def _walk_banks(self, tenant: str) -> None:
        """Walk from the list of memory banks to their content."""
        for entry in self._partitions.get(f"{tenant}|banks", []):
            self._reach(entry)
            self._reach_all(f"{tenant}|bank:{entry.attributes['content_id']}")

    def _walk_runs(self, tenant: str) -> None:
        """Walk from the list of runs; an entry is left until its time to live where its session is deleted."""
        for entry in self._partitions.get(f"{tenant}|runs", []):
            self._reach(entry)
            listed = from_json(entry.body)
            if listed["session_id"] in self.leftovers.sessions:
                partition = f"{tenant}|session:{listed['agent_id']}:{listed['session_id']}"
                self._lead_to(entry, partition, f"turn:{entry.key.sk}")

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

    def _walk_job(self, records: list[Record]) -> None:
        (record,) = records
        job = Job.model_validate_json(record.body)
        self.leftovers.jobs.append(job)
        if record.key != job_key(job) or dict(record.attributes) != {"open": job_shard(record.key)}:
            return  # no sweep will find it
        self._reach(record)
        sessions = session_list(job.tenant, job.agent_id)
        if job.kind == "clean_session":
            entry = session_list_key(job.tenant, job.agent_id, job.order)
            self._reached |= {(entry.pk, entry.sk)} & self._by_key.keys()
            self._reach_all(f"{sessions}:{job.session_id}")
        if job.kind == "clean_agent":
            entry = agent_list_key(job.tenant, job.order)
            self._reached |= {(entry.pk, entry.sk)} & self._by_key.keys()
            for listed in self._partitions.get(sessions, []):
                self._reach_all(f"{sessions}:{from_json(listed.body)['session_id']}")
            self._reach_all(sessions)
            self._reach_all(f"{job.tenant}|agent:{job.agent_id}")
        if job.kind in ("clean_bank", "clean_insertion", "clean_segments"):
            self._reach_all(f"{job.tenant}|bank:{job.order}")

    def _reach_all(self, pk: str) -> None:
        for record in self._partitions.get(pk, []):
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
