"""Refusals, and the ids of sessions, that responses and conversations share."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID, uuid5

from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.responses.requests import Given
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.system import IdGenerator


def refuse_lonely(answers: Iterable[Given], calls: Collection[str], field: str, of: str = "the conversation") -> None:
    """Raise InvalidRequest for an answer to none of the open calls, with its position in the field."""
    for given in answers:
        if given.call_id not in calls:
            message = f"no call of {of}, or of the items before it, has the id {given.call_id!r}"
            raise InvalidRequest(f"call_id: {message}", (field, given.position, "call_id"))


@contextmanager
def named_as(kind: str, identifier: str) -> Iterator[None]:
    """Raise NotFound by the id that the request named, in place of a session's or an agent's."""
    try:
        yield
    except NotFound as missing:
        raise NotFound(kind, identifier) from missing


def session_id_of(tenant: str, attempt: Attempt, ids: IdGenerator) -> str:
    """Return the id of a new session; a request that is sent again with its key finds the session that it created."""
    return str(uuid5(UUID(attempt.key), tenant)) if attempt.key else ids.new_id()
