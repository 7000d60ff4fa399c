"""A database, processes and clients over it, and the laws that hold."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from tests.fakes.jobs import RecordedJobs
from tests.fakes.receiver import ScriptedReceiver
from tests.integration.crash_matrix.client import CREATED, Client, Gone
from tests.integration.crash_matrix.databases import Database
from tests.integration.crash_matrix.faults import Fault, Faults
from tests.integration.crash_matrix.leftovers import Leftovers, blobs_named_by, leftovers
from tests.integration.crash_matrix.letta_client import LettaClient
from tests.integration.crash_matrix.processes import ALSO, KINDS, SPILT, Process, word_of
from tests.integration.crash_matrix.response_client import SECRET, ResponseClient
from tests.support.engine.harness import FakeClock, attempt, client_tool
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.lists import ListQuery
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.domain.webhooks.webhooks import EVENT_TYPES, NewWebhook
from turnstone.ports.records import Operation
from turnstone.services.letta.importing import REMOVED_AFTER
from turnstone.store.layout.keys import agent_key, session_key, session_partition
from turnstone.store.layout.oversize import _folder
from turnstone.store.sessions.session_records import session_of

ZLIB = b"x"  # the first byte of a compressed payload


class World:
    def __init__(self, database: Database, fault: Fault | None = None) -> None:
        self.database = database
        self.clock = FakeClock()
        self.faults = Faults(fault)
        self.queue = RecordedJobs()
        self.receiver = ScriptedReceiver()
        self.has_webhook = False
        self.gone = Gone()
        self.clients: list[Client] = []
        self.clients_of_responses: list[ResponseClient] = []
        self.clients_of_letta: list[LettaClient] = []
        self.has_lambdas = False
        self._processes: list[Process] = []
        self._ever_named: set[str] = set()

    def process(self, *, is_on_lambda: bool = False, **settings: Any) -> Process:
        self._processes.append(Process(self, is_on_lambda=is_on_lambda, **settings))
        self.has_lambdas = self.has_lambdas or is_on_lambda
        return self._processes[-1]

    def client(self, agent_id: str | None = None, **config: Any) -> Client:
        """Return a client with a session of an agent that has tools of both kinds, a new one unless it is named."""
        server = self.process()
        ref = server.session(agent_id, toolgroups=["dice"], client_tools=[client_tool()], **config)
        self.clients.append(Client(ref, self.gone))
        return self.clients[-1]

    def response_client(self) -> ResponseClient:
        self.clients_of_responses.append(ResponseClient())
        return self.clients_of_responses[-1]

    def letta_client(self) -> LettaClient:
        self.clients_of_letta.append(LettaClient())
        return self.clients_of_letta[-1]

    def subscribe(self, server: Process) -> None:
        """Create a webhook of every type of events."""
        new = NewWebhook(url="https://hooks.example/turns", event_types=EVENT_TYPES)
        server.core.webhooks.create(LOCAL_CALLER, new, attempt())
        self.has_webhook = True

    @property
    def reader(self) -> Process:
        """Return a process that only reads, over ports that never fail."""
        return self._processes[0]

    @property
    def living(self) -> list[Process]:
        return [process for process in self._processes if not process.is_dead]

    def note_written(self, operations: Sequence[Operation]) -> None:
        self._ever_named |= blobs_named_by(operations)

    def repeat(self, server: Process, client: Client) -> None:
        """Let the client, and those of responses and of Letta, repeat the requests that got no answer."""
        client.repeat(server)
        for responses in self.clients_of_responses:
            responses.repeat(server)
        for letta in self.clients_of_letta:
            letta.repeat(server)

    def finish(self, server: Process) -> None:
        """Let every client that still has a session answer its waiting calls and take another turn."""
        for client in self.clients:
            if self.is_there(client):
                self._run_queued(server, client)
                client.finish(server)
        self._continue_others(server, "plain at last", "say at last")

    def send(self, server: Process, text: str) -> None:
        """Let every client that still has a session take another turn, after its queued one."""
        for client in self.clients:
            if self.is_there(client):
                self._run_queued(server, client)
                client.send(server, text)
        self._continue_others(server, text, "say again")

    def _continue_others(self, server: Process, text: str, letta_text: str) -> None:
        for client in self.clients_of_responses:
            if any(server.header(ref).lock.state is LockState.QUEUED for ref in client.turns):
                server.reconcile_open()
            client.continue_newest(server, text)
        for letta in self.clients_of_letta:
            letta.continue_after_all(server, letta_text)

    def _run_queued(self, server: Process, client: Client) -> None:
        """Run the client's queued turn, as a starting process does; requests do not supersede it."""
        if server.header(client.ref).lock.state is LockState.QUEUED:
            server.reconcile_open()

    def close(self) -> None:
        for process in self._processes:
            process.core.leases.close()
        self.database.close()

    def is_there(self, client: Client) -> bool:
        """Return whether the client's session and its agent exist."""
        ref, records = client.ref, self.reader.records
        header = records.get(session_key(ref))
        is_over = header is None or session_of(header).is_over(self.clock.now())
        return not is_over and records.get(agent_key(ref.tenant, ref.agent_id)) is not None

    def assert_true(self) -> Leftovers:
        """Assert that everything published is stored, once, and that every record can be reached."""
        reader = self.reader
        where = str(self.faults.fault)
        for client in self.clients:
            if self.is_there(client):
                assert not client.is_gone, where
                self._assert_published(reader, client, where)
            else:
                assert client.may_be_gone, where
                self._assert_gone(client)
        for responses in self.clients_of_responses:
            responses.assert_true(reader, where)
        for letta in self.clients_of_letta:
            letta.assert_true(reader, where)
        left = leftovers(self.database.records(), self.database.blobs(), reader.records)
        fault = self.faults.fault
        assert left.orphans == [], f"{where} {left.orphans}"
        is_cut_off = (
            self.has_lambdas or self.faults.has_struck or any(client.cancelled_turns for client in self.clients)
        )
        assert is_cut_off or left.steps == [], where
        assert is_cut_off or left.attachments == [], where
        spilt = [r.key for r in self.database.records() if SPILT.encode() in reader.records._decoded(r).body]
        assert spilt == [], where
        may_be_nameless = (
            self.faults.has_struck and fault is not None and fault.call.port in ("store", "blobs", "tools")
        )
        nameless = len(left.blobs - self._ever_named)
        of_one_write = 2 if self.clients_of_responses else 1  # a response's request is a record next to its turn
        assert nameless <= (of_one_write if may_be_nameless else 0), where
        self._assert_tools_called_alike(where)
        return left

    def assert_over(self) -> None:
        """Assert that every turn has ended, the last one completed, and that nothing is left of deleted sessions."""
        if self.assert_true().jobs:
            if self.clients_of_letta:
                self.clock.advance(REMOVED_AFTER.total_seconds())  # the turns of an agent that was never created
            self.process().work_off()
            left = self.assert_true()
            jobs = [job for job in left.jobs if job.kind != "end_session" or self._is_late(job, left)]
            assert jobs == [], str(self.faults.fault)
        for client in self.clients:
            if not self.is_there(client):
                self._assert_nothing_left(client)
                continue
            assert self._created() in ([[1]] if client.was_created else [[], [0], [1]]), str(self.faults.fault)
            states = self.reader.states(client.ref)
            assert [state.order for state in states if not state.status.is_terminal] == [], str(self.faults.fault)
            assert states[-1].status is TurnStatus.COMPLETED, str(self.faults.fault)
            if self.has_webhook:
                self._assert_reported(states)

        for responses in self.clients_of_responses:
            responses.assert_over(self.reader, str(self.faults.fault))
            for ref in responses.emptied_sessions:
                self._assert_no_record_of(ref)
            self._assert_no_secret_left()
        for letta in self.clients_of_letta:
            letta.assert_over(self.reader, str(self.faults.fault))
            if letta.is_gone:
                self._assert_no_letta_agent_left(letta.agent_id)

    def _is_late(self, job: Job, left: Leftovers) -> bool:
        """Return whether the end of a deleted session was due."""
        return job.session_id not in left.sessions and job.due_at <= self.clock.now()

    def _assert_no_secret_left(self) -> None:
        """Assert that no record and no payload has the secret that requests of responses bring along."""
        where, secret = str(self.faults.fault), SECRET.encode()
        records = map(self.reader.records._decoded, self.database.records())
        found = [record.key for record in records if secret in record.body or SECRET in str(record.attributes)]
        assert found == [], where
        _, payloads = self.database.connect()
        bodies = {name: payloads.get(name) or b"" for name in self.database.blobs()}
        found_in = [name for name, body in bodies.items() if secret in _inflated(body)]
        assert found_in == [], where

    def _assert_reported(self, states: Sequence[TurnState]) -> None:
        """Assert that the webhook got every pause and end of the turns, each under one id, and nothing else."""
        where, events = str(self.faults.fault), [request.event for request in self.receiver.received]
        by_id = {event["id"]: event for event in events}
        assert all(event == by_id[event["id"]] for event in events), where
        reported = [(event["type"], event["data"]["turn_id"]) for event in by_id.values()]
        ends = [each for each in reported if each[0] != "turn.awaiting_input"]
        ended = [
            state for state in states if state.status is not TurnStatus.CANCELLED
        ]  # no event is of a cancelled turn
        assert sorted(ends) == sorted((f"turn.{state.status.value}", state.turn_id) for state in ended), where
        answered = {state.turn_id for state in states if any(trace.is_from_client for trace in state.traces)}
        paused = {turn_id for event_type, turn_id in reported if event_type == "turn.awaiting_input"}
        assert answered <= paused <= {state.turn_id for state in states}, where

    def _created(self) -> list[int]:
        """Return how many sessions each agent has that was created under a key."""
        agents, sessions = self.reader.core.agents, self.reader.core.sessions
        listing, _ = agents.list(LOCAL_CALLER, ListQuery(name=CREATED))
        ids = [entry.fields["agent_id"] for entry in listing]
        return [len(list(sessions.list(LOCAL_CALLER, agent_id, ListQuery()))) for agent_id in ids]

    def _assert_published(self, reader: Process, client: Client, where: str) -> None:
        reader.assert_whole(client.ref)
        states = reader.states(client.ref)
        stored = [step for state in states for step in state.turn.steps]
        assert [step for step in stored if step in client.published] == client.published, where
        texts = [str(state.turn.input_messages[0].content) for state in states]
        assert texts == [text for text in client.messages if text in texts], where
        for state, text in zip(states, texts, strict=True):
            found = [step.step_type for step in state.turn.steps]
            kinds = (KINDS[word_of(text)], *ALSO.get(word_of(text), ()))
            length = None if state.status is TurnStatus.COMPLETED else len(found)
            assert found in [whole[:length] for whole in kinds], f"{where} {text} {found}"
            assert state.status is TurnStatus.CANCELLED or state.order not in client.cancelled_turns, where
            called = [call.call_id for step in state.turn.steps for call in getattr(step, "tool_calls", ())]
            assert len(called) == len(set(called)), where

    def _assert_gone(self, client: Client) -> None:
        """Assert that no reader finds the session."""
        core, ref = self.reader.core, client.ref
        uses: list[Callable[[], object]] = [
            lambda: core.sessions.read(LOCAL_CALLER, ref, None),
            lambda: self.reader.start(ref),
            lambda: core.deleting.delete_session(LOCAL_CALLER, ref),
        ]
        for use in uses:
            with pytest.raises(NotFound):
                use()
        with suppress(NotFound):  # the agent, too
            listed = core.sessions.list(LOCAL_CALLER, ref.agent_id, ListQuery())
            assert ref.session_id not in [entry.fields["session_id"] for entry in listed]

    def _assert_nothing_left(self, client: Client) -> None:
        """Assert that no key, no record and no payload of the client is left."""
        where, ref = str(self.faults.fault), client.ref
        gone = [ref.session_id]
        folders = [_folder(session_partition(ref))]
        if ref.agent_id in self.gone.confirmed:
            gone.append(ref.agent_id)
            folders.append(_folder(agent_key(ref.tenant, ref.agent_id).pk))
        records = [self.reader.records._decoded(record) for record in self.database.records()]
        assert [r.key for r in records if any(g in r.key.pk or g.encode() in r.body for g in gone)] == [], where
        assert [name for name in self.database.blobs() if name.startswith(tuple(folders))] == [], where

    def _assert_no_record_of(self, ref: SessionRef) -> None:
        """Assert that nothing is left in the partition of a deleted session."""
        left = [record.key for record in self.database.records() if record.key.pk == session_partition(ref)]
        assert left == [], str(self.faults.fault)

    def _assert_no_letta_agent_left(self, agent_id: str) -> None:
        """Assert that no record of a deleted agent is left but its memory blocks, which stay, and its usage."""
        records = [self.reader.records._decoded(record) for record in self.database.records()]
        naming = [r.key for r in records if agent_id in f"{r.key.pk} {r.key.sk}" or agent_id.encode() in r.body]
        left = [key for key in naming if "|usage:" not in key.pk]
        assert left == [], str(self.faults.fault)

    def _assert_tools_called_alike(self, where: str) -> None:
        runs = [run for process in self._processes for run in process.scripted_tools.invocations]
        keys: dict[Any, set[str]] = {}
        for run in runs:
            turn_id, _, _ = run.idempotency_key.partition(":")
            keys.setdefault((turn_id, run.call.call_id), set()).add(run.idempotency_key)
        assert [found for found in keys.values() if len(found) > 1] == [], where


def _inflated(body: bytes) -> bytes:
    """Return the payload without its compression."""
    return zlib.decompress(body) if body[:1] == ZLIB else body
