"""Responses: start one, read, list and delete them. Each is a turn with the record of its request."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import ContentLost, InvalidRequest, NotFound, TurnEnded
from turnstone.domain.lists import ListQuery
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.responses.addresses import CONVERSATION_KIND, RESPONSE_KIND, session_of, turn_of
from turnstone.domain.responses.lists import ResponsesQuery
from turnstone.domain.responses.requests import NewResponse, Predecessor, SentRequest, StoredResponse
from turnstone.domain.sessions.call_pairs import open_calls
from turnstone.domain.sessions.sessions import LockState, Session
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.events import Numbered
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.image_files import base64_in
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.access.visible_list import Listing
from turnstone.services.cleanup.deleting import Deleting
from turnstone.services.responses.answering import session_id_of
from turnstone.services.responses.approving import PreviousResponse
from turnstone.services.responses.fitting import Fitting, SessionReads, turn_without_config
from turnstone.services.responses.forking import Forking, ForkNeeded
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.event_cursor import WholeCursor
from turnstone.services.streams.replay import numbered
from turnstone.services.turns.run_request import BesideConflict, InBackground, Opening
from turnstone.services.turns.supervision import watch_if_due
from turnstone.services.turns.turns import Turns
from turnstone.store.agents.agents import AgentStore
from turnstone.store.agents.implicit import IMPLICIT, is_implicit
from turnstone.store.files.attachments import AttachmentStore
from turnstone.store.layout.listing import ListEntry
from turnstone.store.responses.attempts import put_attempt
from turnstone.store.responses.responses import ResponseStore, get_request, listed_in
from turnstone.store.sessions.turns import SessionView, TurnStore

if TYPE_CHECKING:  # few functions follow or cancel turns
    from turnstone.domain.responses.conversations import ConversationTurn
    from turnstone.services.turns.cancelling import Cancelling
    from turnstone.services.turns.turn_events import TurnEvents
    from turnstone.store.responses.conversations import ConversationStore

MOST_BEFORE_FIRST = 10_000  # the clients take an empty page for the end of a list
SESSION_NAME = "response"
NOT_IN_BACKGROUND = (
    "response_id: this response does not run in the background; those with background=true are cancelled"
)


class ResponseDeps(NamedTuple):
    """Dependencies of responses.

    Attributes:
        conversations: returns the store of turns with their items, which only references need.
        unstored: returns the turns of responses that are not stored.
        kept_for_s: the lifetime of a conversation after its last use.
        ephemeral_for_s: that of a session of an agent that keeps none.
        read_tokens: the tokens of the history in which an answer finds its call.
        read_tokens_of: returns those that a fork takes over for a model, by tenant and model.
        deleting: returns the service that deletes sessions, which only deletion needs.
        events: returns the service that follows turns, which only streams of stored responses need.
        cancelling: returns the service that cancels turns.
        attachments: returns the store of files that tools made.
    """

    turns: Turns
    turn_store: TurnStore
    store: ResponseStore
    agents: AgentStore
    rules: AccessRules
    clock: Clock
    ids: IdGenerator
    kept_for_s: float
    ephemeral_for_s: float
    read_tokens: int
    read_tokens_of: Callable[[str, str], int]
    deleting: Callable[[], Deleting]
    events: "Callable[[], TurnEvents]"
    cancelling: "Callable[[], Cancelling]"
    supervisor: Supervisor
    attachments: Callable[[], AttachmentStore]
    unstored: Callable[[], Turns]
    conversations: "Callable[[], ConversationStore]"


Begun = TypeVar("Begun", TurnBroadcast, InBackground)


class Started(NamedTuple):
    """A response that has begun: the broadcast of its turn, and its request."""

    broadcast: TurnBroadcast
    sent: SentRequest


class Responses:
    def __init__(self, deps: ResponseDeps) -> None:
        self._deps = deps
        self._store = deps.store
        self._forking = Forking(deps.turn_store)

    def start(self, caller: Caller, new: NewResponse, attempt: Attempt) -> Started:
        """Begin the response as the next turn of its conversation, or of a fork if that has a later response.

        Raises:
            NotFound: the response or the conversation to continue, or the agent.
            InvalidRequest: an answer has no call, or the turn requests a feature that is not available.
            TurnRunning: the response to continue has not ended, or the conversation's newest turn runs.
            Overloaded, LimitReached: as `Turns.start` does.
        """
        turns = self._deps.turns if new.is_stored else self._deps.unstored()
        return Started(*self._begun(caller, new, attempt, turns.start, turns.joined))

    def start_in_background(self, caller: Caller, new: NewResponse, attempt: Attempt) -> StoredResponse:
        """Begin the response without its request, queued unless it has ended; for the errors see `start`."""
        turns = self._deps.turns
        begun, sent = self._begun(caller, new, attempt, turns.start_in_background, turns.joined_in_background)
        return StoredResponse(begun.ref, begun.state, sent, is_queued=not begun.state.status.is_terminal)

    def _begun(
        self,
        caller: Caller,
        new: NewResponse,
        attempt: Attempt,
        begin: Callable[[Caller, SessionRef, Opening, Attempt], Begun],
        join: Callable[[TurnRef, Attempt], Begun | None],
    ) -> tuple[Begun, SentRequest]:
        now = self._deps.clock.now()
        earlier = self._store.begun_before(caller.tenant, attempt, now) if new.is_stored else None
        if earlier is not None:
            with suppress(NotFound):  # deleted or hidden since, so the request begins another
                sent = self._visited(caller, earlier).sent
                if (joined := join(earlier, attempt)) is not None:
                    return joined, sent
        previous = None if new.previous is None else turn_of(caller.tenant, new.previous)
        ends_at = now + timedelta(seconds=self._deps.kept_for_s)
        report_if_due = partial(watch_if_due, self._deps.supervisor, self._deps.clock)
        reads = SessionReads(
            partial(self._open_calls, caller.tenant), partial(self._newest, caller.tenant), report_if_due
        )
        fitting = Fitting(new, previous, owner_of(caller), ends_at, reads, partial(put_attempt, attempt, now))
        try:
            if new.conversation is not None:
                ref, opening = self._in_conversation(caller, new, new.conversation)
            elif previous is None:
                ref, opening = self._first(caller, new, attempt)
            else:
                ref, opening = self._next(new, previous)
            try:
                begun = begin(caller, ref, fitting.of(opening), attempt)
            except ForkNeeded as needed:
                fitting = fitting.of_fork(needed)
                model = new.config_of(needed.view.agent.agent_config).model
                log = self._forking.log_of(ref, needed, self._deps.read_tokens_of(caller.tenant, model))
                ref, opening = self._first(caller, new, attempt, after=needed.state.order)
                begun = begin(caller, ref, fitting.of(opening._replace(log=log)), attempt)
        except NotFound as missing:
            named = new.conversation or new.previous
            if named is None or missing.kind == RESPONSE_KIND:
                raise
            raise NotFound(RESPONSE_KIND if new.conversation is None else CONVERSATION_KIND, named) from missing
        except BesideConflict as conflict:
            raise fitting.overtaken(conflict) from conflict
        except InvalidRequest as refused:
            raise fitting.in_request(refused) from refused
        return begun, fitting.sent or self._store.sent(begun.ref)

    def turns_seen_by(self, caller: Caller) -> Callable[[Predecessor, str], "ConversationTurn"]:
        """Return the function that returns the turn of an item, of any response that the caller may see.

        It takes the response or the conversation that is continued, and the item's id. It raises NotFound.
        """
        return partial(self._turn_with, caller)

    def _turn_with(self, caller: Caller, predecessor: Predecessor, item_id: str) -> "ConversationTurn":
        from turnstone.services.responses.references import References  # few requests refer to items

        references = References(self._deps.conversations(), self._store, self._deps.rules, self._deps.clock)
        return references.turn_with(caller, predecessor, item_id)

    def image_at(self, ref: TurnRef) -> Callable[[str], str | None]:
        """Return the function that reads an image which the turn's tools made: its base64 by its address."""

        def image(address: str) -> str | None:
            held = base64_in(address)
            return self._deps.attachments().image(ref.session, address) if held is None else held

        return image

    def read(self, caller: Caller, text: str) -> StoredResponse:
        """Return the response of that id. Raises NotFound, ContentLost."""
        ref = turn_of(caller.tenant, text)
        try:
            return self._visited(caller, ref)
        except NotFound as missing:
            raise NotFound(RESPONSE_KIND, text) from missing

    def follow(self, stored: StoredResponse) -> TurnBroadcast:
        """Return all events of a response that was just read or begun, past ones and those to come."""
        return self._deps.events().fed(WholeCursor(stored.ref), stored.state)

    def cancel(self, caller: Caller, text: str, attempt: Attempt) -> StoredResponse:
        """Return the cancelled response, or one that had ended before.

        Raises:
            NotFound: the response.
            InvalidRequest: it does not run in the background.
        """
        stored = self.read(caller, text)
        if not stored.sent.is_in_background:
            raise InvalidRequest(NOT_IN_BACKGROUND, ("response_id",))
        if stored.state.status.is_terminal:
            return stored
        try:
            state = self._deps.cancelling().cancel(caller, stored.ref, attempt)
        except TurnEnded:
            return self.read(caller, text)
        except NotFound as missing:
            raise NotFound(RESPONSE_KIND, text) from missing
        return stored._replace(state=state, is_queued=False)

    def list(self, caller: Caller, query: ResponsesQuery) -> tuple[Listing, Iterator[StoredResponse]]:
        """Return the part of the list, and its responses, read from the store on iteration."""
        now = self._deps.clock.now()

        def is_shown(entry: ListEntry) -> bool:
            listed = listed_in(entry)
            is_queried = now < listed.ends_at and query.model in (None, listed.model)
            return is_queried and self._deps.rules.may_see(caller, entry.stamp)

        entries = self._store.entries(caller.tenant, query.after, query.limit, is_reverse=query.is_newest_first)
        listing = Listing(entries, ListQuery(limit=query.limit, cursor=query.after), is_shown, MOST_BEFORE_FIRST)
        return listing, self._listed(caller, listing)

    def delete(self, caller: Caller, text: str) -> None:
        """Delete the response; what later ones took over stays in their context. Raises NotFound, Forbidden.

        A session of its own that has no other response, and is no conversation, is deleted with it.
        """
        ref = turn_of(caller.tenant, text)
        try:
            visited = self._deps.turn_store.visit(ref)
            check_session(self._deps.rules, caller, visited.session, visited.agent_owner, self._deps.clock.now())
        except NotFound as missing:
            raise NotFound(RESPONSE_KIND, text) from missing
        self._deps.rules.check_deletion(caller, visited.session.stamp, RESPONSE_KIND, text)
        try:
            self._store.delete(ref)
        finally:  # also after an earlier request that failed in between
            if is_implicit(ref.agent_id) and self._store.is_without_responses(ref.session):
                self._deps.deleting().delete_session(caller, ref.session)

    @staticmethod
    def events_of(state: TurnState) -> tuple[Numbered, ...]:
        """Return the events of the turn so far, with details, for the dialect that makes items of them."""
        return numbered(state, is_detailed=True)

    def _visited(self, caller: Caller, ref: TurnRef) -> StoredResponse:
        visited = self._deps.turn_store.visit(ref)
        check_session(self._deps.rules, caller, visited.session, visited.agent_owner, self._deps.clock.now())
        sent = self._store.sent(ref)
        state, _ = visited.turn()
        state.check_content()
        lock = visited.session.lock
        is_queued = lock.state is LockState.QUEUED and lock.order == state.order
        watch_if_due(self._deps.supervisor, self._deps.clock, ref, visited.session)
        return StoredResponse(ref, state, sent, is_queued)

    def _listed(self, caller: Caller, listing: Listing) -> Iterator[StoredResponse]:
        """Yield the responses; those deleted in the meantime, and those whose content is lost, are left out."""
        for entry in listing:
            try:
                yield self._visited(caller, listed_in(entry).ref_in(caller.tenant))
            except (NotFound, ContentLost):
                continue

    def _first(
        self, caller: Caller, new: NewResponse, attempt: Attempt, after: str | None = None
    ) -> tuple[SessionRef, Opening]:
        """Return the opening of a session's first response, ordered behind `after`. Raises NotFound for the agent."""
        agent_id, lives_for_s = new.agent_id or IMPLICIT, self._deps.kept_for_s
        if new.agent_id is not None:
            is_kept, stamp = self._deps.agents.keeps_sessions(caller.tenant, agent_id)
            self._deps.rules.check_sight(caller, stamp, "agent", agent_id)
            lives_for_s = lives_for_s if is_kept else self._deps.ephemeral_for_s
        now = self._deps.clock.now()
        ids = self._deps.ids
        session_id = session_id_of(caller.tenant, attempt, ids) if new.is_stored else ids.new_id()
        session = Session(
            agent_id=agent_id,
            session_id=session_id,
            session_name=SESSION_NAME,
            started_at=now,
            order=ids.order_key(now, None),
            stamp=owner_of(caller),
            lives_for_s=lives_for_s,
            last_order=after,
        )
        ref = SessionRef(tenant=caller.tenant, agent_id=agent_id, session_id=session_id)
        return ref, Opening(turn_without_config(new), create=session)

    def _next(self, new: NewResponse, previous: TurnRef) -> tuple[SessionRef, Opening]:
        """Return the opening of the response after that one. Raises InvalidRequest for another agent's."""
        if previous.agent_id != (new.agent_id or IMPLICIT):
            raise InvalidRequest(
                "model: the response to continue was answered by another agent; name that one, or send its items",
                ("model",),
            )
        read = (get_request(previous),)
        return previous.session, Opening(turn_without_config(new), turn_id=previous.turn_id, reads=read)

    @staticmethod
    def _in_conversation(caller: Caller, new: NewResponse, text: str) -> tuple[SessionRef, Opening]:
        """Return the opening of the conversation's next turn. Raises NotFound, InvalidRequest for another agent's."""
        ref = session_of(caller.tenant, text)
        if ref.agent_id != (new.agent_id or IMPLICIT):
            is_agents = not is_implicit(ref.agent_id)
            remedy = f"send 'agent/{ref.agent_id}'" if is_agents else "create one with the agent's id in agent"
            raise InvalidRequest(f"model: the conversation is not this agent's; {remedy}", ("model",))
        return ref, Opening(turn_without_config(new))

    def _newest(self, tenant: str, view: SessionView) -> PreviousResponse | None:
        """Return the session's newest turn, if that is a response."""
        session = view.session
        if session.last_order is None:
            return None
        ref = TurnRef(
            tenant=tenant, agent_id=session.agent_id, session_id=session.session_id, turn_id=session.last_order
        )
        try:
            state = self._deps.turn_store.load(ref)[1]
            return PreviousResponse(ref, lambda: state, self._store.sent(ref))
        except NotFound:  # a turn of another API, or a deleted response
            return None

    def _open_calls(self, tenant: str, view: SessionView) -> frozenset[str]:
        """Return the calls that the session's next turn may answer: those of a paused turn, or of the history."""
        ref = SessionRef(tenant=tenant, agent_id=view.session.agent_id, session_id=view.session.session_id)
        lock = view.session.lock
        if lock.state is LockState.AWAITING and not lock.is_overdue(self._deps.clock.now()):
            _, paused = self._deps.turn_store.load(ref.turn(str(lock.order)))
            return frozenset(call.call_id for call in paused.pending_calls)
        return open_calls(self._deps.turn_store.history(ref, view.segments, self._deps.read_tokens).messages)
