"""Everything that can go wrong, as one tree. No status codes here: `http/errors.py` holds the only tables.

TurnstoneError
├── InvalidRequest             the caller sent something that can't be accepted
│   ├── Unsupported            a field whose function this server does not offer
│   ├── UnknownModel           the registry is closed and has no such model
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
│   ├── TurnNotAwaiting        a resume of a turn that waits for nothing, and can't be opened again
│   └── TurnEnded              a turn that has ended can't be cancelled
├── IdempotencyMismatch        the key was used for another body
├── BodyTooLarge               more bytes than the server takes
├── Overloaded                 as many turns run as the server takes
│   ├── TenantOverloaded       as many run as the server takes of one tenant
│   └── Stopping               the server takes no more, because it stops
├── LimitReached               as much is spent as this server allows
│   ├── TurnLimitReached       tokens, by one turn
│   ├── TurnTimeReached        running time, by one turn
│   └── DayLimitReached        tokens, by a tenant in a day
├── ModelError                 inference did not produce an answer
│   ├── ModelFailed            the model refused or broke
│   │   ├── ModelBusy          its provider takes no more requests now
│   │   ├── ModelNotFound      its provider has no such model
│   │   └── ModelRefused       its provider does not accept the request
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

from turnstone.domain.errors.models import (
    ModelBusy as ModelBusy,
)
from turnstone.domain.errors.models import (
    ModelError as ModelError,
)
from turnstone.domain.errors.models import (
    ModelFailed as ModelFailed,
)
from turnstone.domain.errors.models import (
    ModelNotFound as ModelNotFound,
)
from turnstone.domain.errors.models import (
    ModelRefused as ModelRefused,
)
from turnstone.domain.errors.models import (
    ModelTimedOut as ModelTimedOut,
)
from turnstone.domain.errors.root import TurnstoneError as TurnstoneError

SHUTTING_DOWN = "the server is shutting down; send the request again"
SIGN = "sign it with credentials that may call this API"


class InvalidRequest(TurnstoneError):
    """The caller sent something that can't be accepted."""

    def __init__(self, message: str, location: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.location = location


class Unsupported(InvalidRequest):
    """The caller asked for a function this server does not offer."""


class UnknownModel(InvalidRequest):
    """The registry is closed and has no such model."""

    def __init__(self, model_id: str) -> None:
        message = f"model: this server has no model {model_id!r}; choose one that GET /v1/models lists, or register it"
        super().__init__(message, ("model",))


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
        return f"no open turn {self.identifier!r} in tenant {self.tenant!r}; it has ended, or belongs to another tenant"


class AlreadyRegistered(TurnstoneError):
    """Another definition is registered under this name."""

    may_be_repeated = False

    def __init__(self, kind: str, identifier: str) -> None:
        super().__init__(f"{kind} {identifier!r} is already registered with another definition; unregister it first")
        self.kind = kind
        self.identifier = identifier


class NotServed(TurnstoneError):
    """The clients have a method for this that the server does not have."""

    may_be_repeated = False


class UnknownClient(TurnstoneError):
    """The client is of a version whose API this server does not speak."""

    def __init__(self, version: str) -> None:
        super().__init__(f"this server supports clients of versions 0.1 to 0.3, not {version!r}; install one of those")


class TurnConflict(TurnstoneError):
    """The session or the turn is in a state that forbids this."""

    def __init__(self, message: str, turn_id: str) -> None:
        super().__init__(message)
        self.turn_id = turn_id


class TurnRunning(TurnConflict):
    """Another turn of the session runs."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(
            f"turn {turn_id!r} of this session is still running; wait for it to end, or cancel it", turn_id
        )


class TurnNotAwaiting(TurnConflict):
    """The turn waits for no tool responses."""

    def __init__(self, turn_id: str, status: str, why: str = "and awaits no tool responses") -> None:
        super().__init__(f"turn {turn_id!r} is {status} {why}; start a new turn", turn_id)
        self.status = status


class TurnEnded(TurnConflict):
    """The turn has ended, and not by being cancelled."""

    def __init__(self, turn_id: str, status: str) -> None:
        super().__init__(f"turn {turn_id!r} is {status}: there is nothing to cancel", turn_id)
        self.status = status


class IdempotencyMismatch(TurnstoneError):
    """The idempotency key was used for another body."""

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used with another body; use a new key for a new request")


class BodyTooLarge(TurnstoneError):
    """The request has more bytes than the server takes."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"the request body is over the limit of {limit_bytes} bytes (TURNSTONE_MAX_BODY_BYTES)")
        self.limit_bytes = limit_bytes


class Overloaded(TurnstoneError):
    """As many turns run as the server takes.

    Attributes:
        comes_first: what was refused goes on with something begun, and may wait in front of what is new.
        why_not_later: why it did not wait, or not any longer, until one of them ended; empty if nobody waits here.
        retry_after_s: when another try makes sense.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit
        self.comes_first = False
        self.why_not_later = ""
        self.retry_after_s = 1

    def __str__(self) -> str:
        running = "1 turn is running" if self.limit == 1 else f"{self.limit} turns are running"
        all_taken = f"{running}, which is all this server takes (the limit TURNSTONE_MAX_RUNNING_TURNS)"
        return f"{all_taken}{self._later}; try again shortly"

    @property
    def _later(self) -> str:
        return f", and {self.why_not_later}" if self.why_not_later else ""


class TenantOverloaded(Overloaded):
    """As many turns and questions of the tenant run as the server takes of one tenant."""

    def __init__(self, share: int, limit: int) -> None:
        super().__init__(limit)
        self.share = share

    def __str__(self) -> str:
        running, are = ("1 turn or question", "is") if self.share == 1 else (f"{self.share} turns and questions", "are")
        return (
            f"{running} of this tenant {are} running, which is the share of this tenant of the "
            f"{self.limit} places of this server (the limit TURNSTONE_MAX_TENANT_TURNS){self._later}; "
            "try again when one of them has ended"
        )


class Stopping(Overloaded):
    """The server stops, and takes no more turns."""

    def __str__(self) -> str:
        return SHUTTING_DOWN


class LimitReached(TurnstoneError):
    """As much is spent as this server allows."""

    may_be_repeated = False


class TurnLimitReached(LimitReached):
    """A turn has spent the tokens that one may."""

    def __init__(self, spent_tokens: int, limit_tokens: int) -> None:
        super().__init__(
            f"this turn has spent {spent_tokens} tokens, and a turn may spend {limit_tokens} "
            "(the limit TURNSTONE_MAX_TURN_TOKENS); its finished steps are kept"
        )
        self.limit_tokens = limit_tokens


class TurnTimeReached(LimitReached):
    """A turn has run for as long as one may."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"this turn has run for {limit_s:g} s, not counting waits for its client, and a turn may run no longer "
            "(the limit TURNSTONE_MAX_TURN_SECONDS); its finished steps are kept"
        )
        self.limit_s = limit_s


class DayLimitReached(LimitReached):
    """A tenant has spent the tokens of the day."""

    def __init__(self, limit_tokens: int, ends_in: timedelta) -> None:
        super().__init__(
            f"all {limit_tokens} tokens of this day (the limit TURNSTONE_MAX_DAY_TOKENS) are spent; "
            "try again after midnight UTC"
        )
        self.limit_tokens = limit_tokens
        self.retry_after_s = ceil(ends_in.total_seconds())


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
        super().__init__(f"the tools of {toolgroup_id!r} are not available now: {why}")
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
        super().__init__(
            f"turn {turn_id!r} was taken over or ended by another process; read it to see how it continues"
        )
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
