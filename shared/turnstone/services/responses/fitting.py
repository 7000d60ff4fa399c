"""The turn of a response, as it fits its session: with its configuration, and answers to calls that are there."""

from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import toolgroup_name
from turnstone.domain.errors import InvalidRequest, NotFound, TurnRunning
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.responses.addresses import RESPONSE_KIND, response_id
from turnstone.domain.responses.hosted import hosted_tools
from turnstone.domain.responses.requests import ListedResponse, NewResponse, SentRequest
from turnstone.domain.sessions.lending import names_banks
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.tools.inline_toolgroups import ListedServer, listed_server, mark_of, server_label
from turnstone.domain.tools.tool_runs import ToolOffer
from turnstone.domain.turns.turns import NewTurn
from turnstone.ports.records import Put
from turnstone.services.responses.answering import refuse_lonely
from turnstone.services.responses.approving import Decided, PreviousResponse, decided, used_already
from turnstone.services.responses.forking import ForkNeeded
from turnstone.services.turns.run_request import BesideConflict, Opening
from turnstone.store.responses.responses import put_approved, put_response, request_in
from turnstone.store.sessions.turn_records import is_terminal, turn_state_of
from turnstone.store.sessions.turns import SessionView

NOTED_WITH_IT = (
    "store: the use of an approval is noted with its response; leave store out, or send the approval's request with it"
)


class SessionReads(NamedTuple):
    """Reads of a session for its next response, and a report of its turn.

    Attributes:
        open_calls: returns the calls that the response may answer.
        newest: returns the newest response, None if the newest turn is none.
        report_if_due: reports the turn if its process is gone, so that another one takes it over.
    """

    open_calls: Callable[[SessionView], Collection[str]] = lambda _: ()
    newest: Callable[[SessionView], PreviousResponse | None] = lambda _: None
    report_if_due: Callable[[SessionRef, Session], None] = lambda _ref, _session: None


class Fitting:
    """The opening of one response.

    Attributes:
        sent: the request with all tools of the configuration, None before a session was read.
    """

    def __init__(
        self,
        new: NewResponse,
        previous: TurnRef | None,
        owner: Ownership,
        ends_at: datetime,
        in_session: SessionReads | None = None,
        beside_first: Callable[[TurnRef], tuple[Put, ...]] = lambda _: (),
    ) -> None:
        """Take the response to continue, and the owner and the expiry of the list entry.

        `in_session` reads a conversation, and `beside_first` returns the writes with the first response of a session.
        """
        self._new = new
        self._previous = previous
        self._owner = owner
        self._ends_at = ends_at
        self._open_calls: Collection[str] = ()
        self._in_session = in_session or SessionReads()
        self._beside_first = beside_first
        self._is_first = False
        self._turn: NewTurn | None = None
        self._groups_before = 0
        self._continued: PreviousResponse | None = None
        self._decided = Decided()
        self.sent: SentRequest | None = None

    def of(self, opening: Opening) -> Opening:
        """Return the opening with the turn and the records of the response."""
        needs_whole = self._new.needs_whole_history
        self._is_first = opening.create is not None
        self._turn = opening.new
        return opening._replace(
            fit=self.turn,
            beside_turn=self.records,
            needs_whole_history=needs_whole,
            opens_without_tools=self._new.is_streamed,
        )

    def turn(self, view: SessionView) -> NewTurn:
        """Return the turn that fits the session. Raises NotFound, InvalidRequest."""
        if self._previous is not None:
            self._continue(self._previous, view)
        elif self._new.conversation is not None:
            reads_newest = self._new.own_toolgroups or self._new.approvals
            self._continued = self._in_session.newest(view) if reads_newest else None
            self._open_calls = self._in_session.open_calls(view) if self._new.given else ()
        of = "the response to continue" if self._new.conversation is None else "the conversation"
        refuse_lonely(self._new.given, self._open_calls, "input", of)
        self._decided = decided(self._new.approvals, self._continued, of)
        if self._decided.noted and not self._new.is_stored:
            raise InvalidRequest(NOTED_WITH_IT, ("store",))
        config = self._new.config_of(view.agent.agent_config)
        functions = tuple(tool.name for tool in config.client_tools)
        self._groups_before = len(config.toolgroups) - len(self._new.config.toolgroups)
        self.sent = self._new.sent.model_copy(update={"functions": functions, "segment": view.open_segment.number})
        turn = (self._turn or turn_without_config(self._new)).model_copy(
            update={
                "config": config,
                "carried_calls": self._decided.calls,
                "messages": (*self._decided.denials, *self._new.messages),
            }
        )
        return turn.model_copy(update={"named_by": self._owner}) if names_banks(turn) else turn

    def records(self, ref: TurnRef, offer: ToolOffer) -> tuple[Put, ...]:
        """Return the writes of the response beside its turn, which is offered these tools."""
        sent = self.sent or self._new.sent
        if offer.unavailable is None:
            self._decided.refuse_missing(offer)
        else:  # the turn fails before it runs an approved call
            self._decided = Decided()
        changes = {"hosted": hosted_tools(offer), "approvals": self._decided.requests, **self._lists(offer)}
        self.sent = sent = sent.model_copy(update=changes)
        listed = ListedResponse(
            agent_id=ref.agent_id,
            session_id=ref.session_id,
            order=ref.turn_id,
            model=str(sent.echo["model"]),
            ends_at=self._ends_at,
            stamp=self._owner,
        )
        continued, approved = self._continued, self._decided.noted
        noted = (put_approved(continued.ref, continued.sent, approved),) if continued is not None and approved else ()
        first = self._beside_first(ref) if self._is_first else ()
        return (*put_response(ref, sent, listed), *noted, *first)

    def of_fork(self, needed: ForkNeeded) -> "Fitting":
        """Return the opening of the same response in a new session that begins with the turns up to this one."""
        fork = Fitting(self._new, None, self._owner, self._ends_at, beside_first=self._beside_first)
        if self._previous is not None:
            fork._follow(PreviousResponse(self._previous, lambda: needed.state, needed.sent))
        return fork

    def overtaken(self, conflict: BesideConflict) -> Exception:
        """Return the refusal where another response has just used an approval, else the conflict."""
        approving = (each for each in self._new.approvals if each.request_id in self._decided.noted)
        first = next(approving, None)
        return conflict if first is None else used_already(first)

    def in_request(self, refused: InvalidRequest) -> InvalidRequest:
        """Return the refusal of a configuration with the field of the request that it is about."""
        match refused.location:
            case ("toolgroups", int(index), *within) if index >= self._groups_before:
                tool = self._new.tool_indexes[index - self._groups_before]
                location: tuple[str | int, ...] = ("tools", tool, *within[1:])
            case ("own_toolgroups", str(name), *within):
                own = (toolgroup_name(each).partition("/")[0] for each in self._new.config.toolgroups)
                location = ("tools", self._new.tool_indexes[list(own).index(name)], *within)
            case ("toolgroups", *_):
                location = ("tools",)
            case ("tool_config", *_):
                location = ("tool_choice",)
            case _:
                return refused
        before = ".".join(map(str, refused.location))
        message = str(refused).removeprefix(f"{before}: ").removeprefix(f"{refused.location[0]}: ")
        return type(refused)(f"{'.'.join(map(str, location))}: {message}", location)

    def _continue(self, previous: TurnRef, view: SessionView) -> None:
        """Raise NotFound unless the response to continue exists, TurnRunning before its end, ForkNeeded after others.

        The calls that it leaves to its client are open.
        """
        request = request_in(view.beside[0], previous)
        record = view.turn_record
        if record is None:
            raise NotFound(RESPONSE_KIND, response_id(previous))
        if not is_terminal(record):
            self._in_session.report_if_due(previous, view.session)
            raise TurnRunning(previous.turn_id)
        # a conversation has the responses that name it, and no others
        is_newest = view.session.last_order == previous.turn_id
        if not is_newest or request.conversation is not None or not self._new.is_stored:
            raise ForkNeeded(view, turn_state_of(record), request)
        self._follow(PreviousResponse(previous, partial(turn_state_of, record), request))

    def _follow(self, continued: PreviousResponse) -> None:
        self._continued, self._open_calls = continued, continued.client_calls if self._new.given else ()

    def _lists(self, offer: ToolOffer) -> dict[str, Any]:
        """Return the tools of MCP servers to list, and the marks of all that were listed in the chain so far."""
        marks = {} if self._continued is None else dict(self._continued.sent.marks)
        if offer.unavailable is not None:
            failed = server_label(offer.unavailable.toolgroup_id.partition("/")[0])
            return {"lists": (ListedServer(label=failed, error=str(offer.unavailable)),), "marks": marks}
        lists: list[ListedServer] = []
        for own in self._new.own_toolgroups:
            listed = listed_server(own, offer.server.values())
            mark, names = mark_of(own, listed), frozenset(str(tool["name"]) for tool in listed.tools)
            if marks.get(own.label) != mark and self._new.listed.get(own.label) != names:
                lists.append(listed)
            marks[own.label] = mark
        return {"lists": tuple(lists), "marks": marks}


def turn_without_config(new: NewResponse) -> NewTurn:
    """Return the turn before its session is read."""
    return NewTurn(
        messages=new.messages,
        policy=new.policy,
        extras=dict(new.extras),
        tool_extras=dict(new.tool_extras),
        origin="responses",
        runs_in_background=new.sent.is_in_background,
        keeps_details=True,
        own_toolgroups=new.own_toolgroups,
    )
