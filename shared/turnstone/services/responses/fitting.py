"""The turn of a response, as it fits its session: with its configuration, and answers to calls that are there."""

from datetime import datetime

from turnstone.domain.access.access import Ownership
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.refs import TurnRef
from turnstone.domain.responses.addresses import RESPONSE_KIND, response_id
from turnstone.domain.responses.requests import ListedResponse, NewResponse, SentRequest
from turnstone.domain.turns.turns import NewTurn
from turnstone.ports.records import Put
from turnstone.store.responses.responses import put_response, request_in
from turnstone.store.sessions.turns import SessionView


class Fitting:
    """The opening of one response.

    Attributes:
        sent: the request with all functions of the configuration, None before a session was read.
    """

    def __init__(self, new: NewResponse, previous: TurnRef | None, owner: Ownership, ends_at: datetime) -> None:
        """Take the response to continue, and the owner and the expiry of the list entry."""
        self._new = new
        self._previous = previous
        self._owner = owner
        self._ends_at = ends_at
        self.sent: SentRequest | None = None

    def turn(self, view: SessionView) -> NewTurn:
        """Return the turn that fits the session. Raises NotFound, InvalidRequest."""
        self._refuse_lonely_answers(() if self._previous is None else self._open_calls(self._previous, view))
        config = self._new.config_of(view.agent.agent_config)
        functions = tuple(tool.name for tool in config.client_tools)
        self.sent = self._new.sent.model_copy(update={"functions": functions})
        return turn_without_config(self._new).model_copy(update={"config": config})

    def records(self, ref: TurnRef) -> tuple[Put, ...]:
        """Return the writes of the response beside its turn."""
        sent = self.sent or self._new.sent
        listed = ListedResponse(
            agent_id=ref.agent_id,
            session_id=ref.session_id,
            order=ref.turn_id,
            model=str(sent.echo["model"]),
            ends_at=self._ends_at,
            stamp=self._owner,
        )
        return put_response(ref, sent, listed)

    def _open_calls(self, previous: TurnRef, view: SessionView) -> tuple[str, ...]:
        """Return the ids of the calls that the response to continue leaves to its client."""
        request_in(view.beside[0], previous)
        if view.state is None:
            raise NotFound(RESPONSE_KIND, response_id(previous))
        if view.session.last_order != previous.turn_id:
            raise InvalidRequest(
                "previous_response_id: a later response continues it already; continue the newest one",
                ("previous_response_id",),
            )
        return tuple(call.call_id for call in view.state.turn.output_message.tool_calls)

    def _refuse_lonely_answers(self, calls: tuple[str, ...]) -> None:
        for given in self._new.given:
            if given.call_id not in calls:
                message = (
                    f"no call of the response to continue, or of the items before it, has the id {given.call_id!r}"
                )
                raise InvalidRequest(f"call_id: {message}", ("input", given.position, "call_id"))


def turn_without_config(new: NewResponse) -> NewTurn:
    """Return the turn before its session is read."""
    return NewTurn(
        messages=new.messages,
        policy=new.policy,
        extras=dict(new.extras),
        tool_extras=dict(new.tool_extras),
        origin="responses",
        keeps_details=True,
    )
