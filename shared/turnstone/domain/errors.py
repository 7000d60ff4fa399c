"""Everything that can go wrong, as one tree. No status codes here: `http/errors.py` holds the only tables.

TurnstoneError
├── InvalidRequest             the caller sent something that can't be accepted
│   ├── Unsupported            a field whose function this server does not offer
│   └── CallsMismatch          tool responses that are not exactly those the turn waits for
├── Unauthenticated            the request proves no identity
│   └── UnusableTenant         it names a tenant that can't be served
├── Forbidden                  it is there, but not yours to do this to
├── NotFound                   no such thing, or not yours
│   └── NotOpen                no turn of this id is open, for an operator
├── AlreadyRegistered          another definition has this name
├── NotServed                  a method of the clients that this server does not have
├── UnknownClient              a client of a version whose API this server does not speak
├── TurnConflict               the session or turn is in a state that forbids this
│   ├── TurnRunning            another turn of the session runs
│   ├── TurnNotAwaiting        a resume of a turn that waits for nothing
│   └── TurnEnded              a turn that has ended can't be cancelled
├── IdempotencyMismatch        the key was used for another body
├── BodyTooLarge               more bytes than the server takes
├── Overloaded                 as many turns run as the server takes
│   └── TenantOverloaded       as many run as the server takes of one tenant
├── LimitReached               as much is spent as this server allows
│   ├── TurnLimitReached       tokens, by one turn
│   ├── TurnTimeReached        running time, by one turn
│   └── DayLimitReached        tokens, by a tenant in a day
├── ModelError                 inference did not produce an answer
│   ├── ModelFailed            the model refused or broke
│   └── ModelTimedOut          the model was silent for too long
├── ToolFailed                 a server tool could not answer; the model is told
│   └── FetchFailed            a URL gave nothing that can be used
│       └── FetchRefused       a rule of this server forbids to fetch it
├── ToolgroupUnavailable       whoever has a toolgroup's tools can't be asked which there are
│   ├── CredentialsMissing     a toolgroup's server wants credentials that the request did not hand on
│   └── CredentialsRefused     it knows those of the request, and they are not enough
├── ShieldFailed               a shield could not judge; what it is told to do then is done
├── LeaseLost                  this process may no longer write to the turn
├── ContentLost                stored content is missing or damaged, and no retry brings it back
├── StoreUnavailable           the store can't be read or written now
├── IssuerUnavailable          the keys that callers' tokens are signed with can't be had now
└── Conflict                   a condition of a write did not hold
"""

from datetime import timedelta
from math import ceil
from typing import Any

SIGN = "sign it with credentials that may call this API"


class TurnstoneError(Exception):
    """The root of the tree.

    Attributes:
        may_be_repeated: False where the same request, sent again, would be taken for an earlier one.
    """

    may_be_repeated = True


class InvalidRequest(TurnstoneError):
    """The caller sent something that can't be accepted."""

    def __init__(self, message: str, location: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.location = location


class Unsupported(InvalidRequest):
    """The caller asked for a function this server does not offer."""


class CallsMismatch(InvalidRequest):
    """The tool responses are not exactly those the turn waits for."""


class Unauthenticated(TurnstoneError):
    """The request proves no identity.

    Attributes:
        scheme: how a request can prove one, as HTTP's `Authorization` header names it; None where that is not told.
    """

    def __init__(self, scheme: str | None = None) -> None:
        how = f"send a key or token that may call this API as Authorization: {scheme}" if scheme else SIGN
        super().__init__(f"this request proves no identity; {how}")
        self.scheme = scheme


class UnusableTenant(Unauthenticated):
    """It names a tenant that can't be served; why is for the operator to know, not for the caller."""


class Forbidden(TurnstoneError):
    """The caller may see it, but not do this to it."""


class NotFound(TurnstoneError):
    """There is no such thing, or the caller may not see it."""

    def __init__(self, kind: str, identifier: str) -> None:
        super().__init__(f"{kind} {identifier!r} not found")
        self.kind = kind
        self.identifier = identifier


class NotOpen(NotFound):
    """No turn of this id is open in the tenant, as an operator is told."""

    def __init__(self, turn_id: str, tenant: str) -> None:
        super().__init__("open turn", turn_id)
        self.tenant = tenant

    def __str__(self) -> str:
        return f"no open turn {self.identifier!r} in tenant {self.tenant!r}; it has ended, or is none of that tenant's"


class AlreadyRegistered(TurnstoneError):
    """Another definition is registered under this name."""

    may_be_repeated = False

    def __init__(self, kind: str, identifier: str) -> None:
        super().__init__(f"{kind} {identifier!r} is there already, with another definition; unregister that one first")
        self.kind = kind
        self.identifier = identifier


class NotServed(TurnstoneError):
    """The clients have a method for this that the server does not have."""

    may_be_repeated = False


class UnknownClient(TurnstoneError):
    """The client is of a version whose API this server does not speak."""

    def __init__(self, version: str) -> None:
        super().__init__(f"this server speaks to clients of versions 0.1 to 0.3, not to {version!r}")


class TurnConflict(TurnstoneError):
    """The session or the turn is in a state that forbids this."""

    def __init__(self, message: str, turn_id: str) -> None:
        super().__init__(message)
        self.turn_id = turn_id


class TurnRunning(TurnConflict):
    """Another turn of the session runs."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(f"turn {turn_id!r} of this session is still running; wait for it to end", turn_id)


class TurnNotAwaiting(TurnConflict):
    """The turn waits for no tool responses."""

    def __init__(self, turn_id: str, status: str) -> None:
        super().__init__(f"turn {turn_id!r} is {status}, it does not await tool responses", turn_id)
        self.status = status


class TurnEnded(TurnConflict):
    """The turn has ended, and not by being cancelled."""

    def __init__(self, turn_id: str, status: str) -> None:
        super().__init__(f"turn {turn_id!r} is {status}, there is nothing to cancel", turn_id)
        self.status = status


class IdempotencyMismatch(TurnstoneError):
    """The idempotency key was used for another body."""

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used with another body; use a new key for a new request")


class BodyTooLarge(TurnstoneError):
    """The request has more bytes than the server takes."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the request body is over the limit of {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class Overloaded(TurnstoneError):
    """As many turns run as the server takes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} turns are running, which is all this server takes; try again shortly")
        self.limit = limit


class TenantOverloaded(Overloaded):
    """As many turns and questions of the tenant run as the server takes of one tenant."""

    def __init__(self, share: int, limit: int) -> None:
        super().__init__(limit)
        self.share = share

    def __str__(self) -> str:
        return (
            f"{self.share} turns and questions of this tenant are running, which is the share of this tenant of the "
            f"{self.limit} places of this server (the limit max_tenant_turns); try again when one of them has ended"
        )


class LimitReached(TurnstoneError):
    """As much is spent as this server allows."""

    may_be_repeated = False


class TurnLimitReached(LimitReached):
    """A turn has spent the tokens that one may."""

    def __init__(self, spent_tokens: int, limit_tokens: int) -> None:
        super().__init__(
            f"this turn has spent {spent_tokens} tokens, and a turn may spend {limit_tokens} "
            "(the limit max_turn_tokens); its finished steps are kept"
        )
        self.limit_tokens = limit_tokens


class TurnTimeReached(LimitReached):
    """A turn has run for as long as one may."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"this turn has run for {limit_s:g} s, waits for its client apart, which is as long as a turn may run "
            "(the limit max_turn_seconds); its finished steps are kept"
        )
        self.limit_s = limit_s


class DayLimitReached(LimitReached):
    """A tenant has spent the tokens of the day."""

    def __init__(self, limit_tokens: int, ends_in: timedelta) -> None:
        super().__init__(
            f"the {limit_tokens} tokens of this day (the limit max_day_tokens) are spent; "
            "there will be new ones at midnight UTC"
        )
        self.limit_tokens = limit_tokens
        self.retry_after_s = ceil(ends_in.total_seconds())


class ModelError(TurnstoneError):
    """Inference did not produce an answer.

    Attributes:
        is_outage: whoever provides the model can't answer now, whatever is asked.
    """

    is_outage = False


class ModelFailed(ModelError):
    """The model refused the request or broke."""

    def __init__(self, message: str, *, is_outage: bool = False) -> None:
        super().__init__(message)
        self.is_outage = is_outage


class ModelTimedOut(ModelError):
    """The model was silent for too long."""

    is_outage = True


class ToolFailed(TurnstoneError):
    """A server tool could not answer; its message is shown to the model.

    Attributes:
        refusal: why, where whoever has the tool wants other credentials; outside of turns it is the answer.
    """

    def __init__(self, message: str, refusal: "ToolgroupUnavailable | None" = None) -> None:
        super().__init__(message)
        self.refusal = refusal


class FetchFailed(ToolFailed):
    """A URL gave nothing that can be used; the message shows its scheme, host and port at most."""

    def __init__(self, shown: str, why: str) -> None:
        super().__init__(f"{shown} can't be fetched: {why}")


class FetchRefused(FetchFailed):
    """A rule forbids to fetch it, which the message names; nobody there was asked."""


class ToolgroupUnavailable(TurnstoneError):
    """Whoever has a toolgroup's tools can't be asked which there are; the message tells no addresses' secrets."""

    def __init__(self, toolgroup_id: str, why: str) -> None:
        super().__init__(f"the tools of {toolgroup_id!r} can't be had now: {why}")
        self.toolgroup_id = toolgroup_id


class CredentialsMissing(ToolgroupUnavailable):
    """A toolgroup's server wants credentials that the request did not hand on; the message says how to."""


class CredentialsRefused(ToolgroupUnavailable):
    """A toolgroup's server lets nobody with the request's credentials do this."""


class ShieldFailed(TurnstoneError):
    """A shield could not judge; its message, which tells nothing of what it was to judge, is kept in the step."""


class LeaseLost(TurnstoneError):
    """This process may no longer write to the turn: another took it over, or it was ended."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(f"turn {turn_id!r} was taken over or ended elsewhere; read it to see how it goes on")
        self.turn_id = turn_id


class ContentLost(TurnstoneError):
    """Stored content is missing or damaged, and no retry brings it back."""

    may_be_repeated = False

    def __init__(self, kind: str, identifier: str) -> None:
        super().__init__(
            f"the content of {kind} {identifier!r} is lost: the server's stored copy is missing or damaged; "
            "only a backup of the server's data brings it back"
        )
        self.kind = kind
        self.identifier = identifier


class StoreUnavailable(TurnstoneError):
    """The store can't be read or written now.

    Attributes:
        may_be_applied_later: whether the store may still apply a write after this was raised for it.
    """

    def __init__(self, message: str, *, may_be_applied_later: bool = False) -> None:
        super().__init__(message)
        self.may_be_applied_later = may_be_applied_later


class IssuerUnavailable(TurnstoneError):
    """The keys that callers' tokens are signed with can't be had now; the message, for the operator, says why."""


class Conflict(TurnstoneError):
    """A condition of an atomic write did not hold, so nothing was written.

    Attributes:
        operation: index of the first operation whose condition failed.
        key: that operation's key, a `Key` of the ports.
        found: the `Record` that was there, None if there was none.
    """

    def __init__(self, operation: int, key: Any, found: Any) -> None:
        super().__init__(f"operation {operation} on {key!r}: its condition does not hold")
        self.operation = operation
        self.key = key
        self.found = found
