"""A client of responses: it repeats each request without an answer under its key, and records every answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from tests.support.engine.harness import ProcessDied, attempt, finished_steps, outline
from tests.support.engine.responses import read
from turnstone.dialects.openai.responses.requests import CreateResponse
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import NotFound, StoreUnavailable, TurnRunning
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.responses.addresses import response_id, turn_of
from turnstone.domain.responses.lists import ResponsesQuery
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import Step
from turnstone.store.keys.responses import request_key
from turnstone.store.responses.responses import request_in

if TYPE_CHECKING:
    from tests.integration.crash_matrix.processes import Process

SECRET = "secret-of-the-birds"
BIRDS: dict[str, Any] = {
    "type": "mcp",
    "server_label": "birds",
    "server_url": "https://birds.example/mcp",
    "authorization": SECRET,
}
# the items of a whole response, by the first word of its request's name
ITEMS = {
    "plain": ["message"],
    "call": ["function_call"],
    "outputs": ["message"],
    "request": ["mcp_list_tools", "mcp_approval_request"],
    "approval": ["mcp_call", "message"],
}
Act = Callable[["Process"], None]


def key_of(name: str) -> str:
    """Return the key of the request of that name, as it is stored."""
    return str(uuid5(NAMESPACE_URL, name))


class ResponseClient:
    """Acts as a client of responses does, until its process dies.

    Attributes:
        answered: the ids of its responses, by the names of their requests, which are their keys, too.
        published: the steps that it received of each.
        deleted: the names of those whose deletion was requested, and `confirmed` of those whose deletion was.
    """

    def __init__(self) -> None:
        self.answered: dict[str, str] = {}
        self.published: dict[str, list[Step]] = {}
        self.cancelled: set[str] = set()
        self.deleted: set[str] = set()
        self.confirmed: set[str] = set()
        self._attempts: dict[str, Attempt] = {}
        self._unanswered: Act | None = None

    def respond(self, server: Process, name: str, after: str | None = None, **body: Any) -> None:
        """Start the response of that name, after another one, and receive its events."""
        new = self._new(name, after, body)

        def act(at: Process) -> None:
            is_again = name in self._attempts
            by = self._attempts.setdefault(name, attempt(key=key_of(name)))
            broadcast = at.core.responses.start(LOCAL_CALLER, new, by).broadcast
            self.answered[name] = response_id(broadcast.ref)
            if is_again:
                at.pass_time()
            events = at.drain(broadcast)
            kept = self.published.setdefault(name, [])
            kept += (step for step in finished_steps(events) if step not in kept)
            if at.is_dead:
                raise ProcessDied
            if outline(events).endswith("failed:store_unavailable"):
                at.pass_time()

        self._do(server, act)

    def queue(self, server: Process, name: str, after: str | None = None, **body: Any) -> TurnRef:
        """Start the response of that name in the background; return its turn."""
        new = self._new(name, after, {"background": True, **body})

        def act(at: Process) -> None:
            by = self._attempts.setdefault(name, attempt(key=key_of(name)))
            self.answered[name] = response_id(at.core.responses.start_in_background(LOCAL_CALLER, new, by).ref)

        self._do(server, act)
        return self.turn(name)

    def cancel(self, server: Process, name: str) -> None:
        self.cancelled.add(name)
        by = attempt(key=key_of("cancel it"))
        self._do(server, lambda at: at.core.responses.cancel(LOCAL_CALLER, self.answered[name], by))

    def delete(self, server: Process, name: str) -> None:
        self.deleted.add(name)

        def act(at: Process) -> None:
            with suppress(NotFound):
                at.core.responses.delete(LOCAL_CALLER, self.answered[name])
            self.confirmed.add(name)

        self._do(server, act)

    def turn(self, name: str) -> TurnRef:
        return turn_of(LOCAL_CALLER.tenant, self.answered[name])

    @property
    def turns(self) -> list[TurnRef]:
        """Those of its responses whose deletion was not requested."""
        return [self.turn(name) for name in self.answered if name not in self.deleted]

    @property
    def emptied_sessions(self) -> list[SessionRef]:
        """Those whose only response was deleted."""
        kept = {turn.session.session_id for turn in self.turns}
        gone = [self.turn(name).session for name in self.confirmed]
        return [ref for ref in gone if ref.session_id not in kept]

    def repeat(self, server: Process) -> None:
        """Repeat the request that got no answer."""
        if self._unanswered is not None:
            self._do(server, self._unanswered)

    def continue_newest(self, server: Process, name: str) -> None:
        """Continue the newest response that is still there, or start the first one."""
        there = [each for each in self.answered if each not in self.deleted and each != name]
        after = there[-1] if there else None
        try:
            self.respond(server, name, after)
        except TurnRunning:  # its process is gone: to read it has it continued
            assert after is not None
            read(server, self.answered[after])
            server.pass_time()
            self.respond(server, name, after)

    def assert_true(self, reader: Process, where: str) -> None:
        """Assert that every response that was answered is there, once, and has all that was received of it."""
        shown = {text: read(reader, text) for text in self._listed(reader)}
        there = {name: text for name, text in self.answered.items() if name not in self.deleted}
        assert set(there.values()) <= shown.keys(), where
        may_be_there = {text for name, text in self.answered.items() if name not in self.confirmed}
        unanswered = self._attempts.keys() - self.answered.keys()
        assert len(shown.keys() - may_be_there) <= len(unanswered), where
        for name, text in there.items():
            self._assert_whole(name, shown[text], where)
            stored = reader.state(self.turn(name)).turn.steps
            published = self.published.get(name, [])
            assert [step for step in stored if step in published] == published, where
        self._assert_approvals(reader, shown, where)

    def assert_over(self, reader: Process, where: str) -> None:
        """Assert that every response has ended, the last one completed, and that deleted ones are missing."""
        statuses = {text: read(reader, text)["status"] for text in self._listed(reader)}
        assert set(statuses.values()) <= {"completed", "cancelled", "failed"}, where
        assert statuses[next(reversed(self.answered.values()))] == "completed", where
        for name in self.confirmed:
            assert self.answered[name] not in statuses, where

    def _assert_whole(self, name: str, response: Mapping[str, Any], where: str) -> None:
        expected = ITEMS[name.split(" ", 1)[0]]
        found = [item["type"] for item in response["output"]]
        is_whole = response["status"] == "completed"
        assert found == expected[: None if is_whole else len(found)], f"{where} {name} {found}"
        assert not is_whole or name not in self.cancelled or found == expected, where

    def _assert_approvals(self, reader: Process, shown: Mapping[str, Mapping[str, Any]], where: str) -> None:
        """Assert that each approval is noted with the response that uses it, and no other one does."""
        requests = [self._request(reader, text) for text in shown]
        used = [key for request in requests for key in request.approvals.values()]
        noted = [key for request in requests for key in request.approved]
        assert sorted(used) == sorted(set(noted)) == sorted(noted), where

    @staticmethod
    def _request(reader: Process, text: str) -> Any:
        ref = turn_of(LOCAL_CALLER.tenant, text)
        return request_in(reader.records.get(request_key(ref)), ref)

    @staticmethod
    def _listed(reader: Process) -> list[str]:
        _, listed = reader.core.responses.list(LOCAL_CALLER, ResponsesQuery(limit=100))
        return [response_id(stored.ref) for stored in listed]

    def _new(self, name: str, after: str | None, body: dict[str, Any]) -> Any:
        previous = {} if after is None else {"previous_response_id": self.answered[after]}
        return CreateResponse.model_validate({"model": "scripted", "input": name, **previous, **body}).to_new()

    def _do(self, server: Process, act: Act) -> None:
        self._unanswered = act
        try:
            act(server)
        except StoreUnavailable:
            act(server)
        self._unanswered = None
