"""All errors of Turnstone, as one tree. No status codes here: `http/errors.py` holds the only tables.

TurnstoneError
├── InvalidRequest             the request can't be accepted
│   ├── Unsupported            a field whose function this server does not offer
│   ├── UnknownModel           the registry is closed and has no such model
│   ├── HistoryTooLong         a history does not fit the model's context, and may not be cut
│   ├── MemoryUnusable         a memory bank of a turn is missing, or its query can't be made
│   └── CallsMismatch          tool responses that are not exactly those the turn waits for
├── Unauthenticated            the request proves no identity
│   └── UnusableTenant         it names a tenant that can't be served
├── Forbidden                  the resource is visible to the caller, but the action is not allowed
├── NotFound                   no such resource, or not visible to the caller
│   └── NotOpen                no turn of this id is open, for an operator
├── AlreadyRegistered          another definition has this name
├── LabelTaken                 the agent has another memory block with this label
├── ToolNameTaken              the tenant has another tool with this name
├── NotServed                  a method of the clients that this server does not have
├── UnknownClient              a client of a version whose API this server does not speak
├── TurnConflict               the session or turn is in a state that forbids this
│   ├── TurnRunning            another turn of the session runs
│   │   └── TurnAwaited        the request may wait for its end
│   ├── TurnNotAwaiting        a resume of a turn without pending calls, which can't be opened again
│   └── TurnEnded              a turn that has ended can't be cancelled
├── IdempotencyMismatch        the key was used for another body
├── BodyTooLarge               more bytes than the server accepts
├── Overloaded                 the server's limit of running turns is reached
│   ├── TenantOverloaded       the limit of one tenant's running turns is reached
│   ├── InsertionsBusy         as many large texts are inserted into memory as may be at a time
│   └── Stopping               the server shuts down and accepts no more
├── LimitReached               a spending limit of this server is reached
│   ├── TurnLimitReached       tokens, by one turn
│   ├── TurnTimeReached        running time, by one turn
│   └── DayLimitReached        tokens, by a tenant in a day
├── ModelError                 inference did not produce an answer
│   ├── ModelFailed            the model refused or failed
│   │   ├── ModelBusy          its provider accepts no more requests now
│   │   ├── ModelNotFound      its provider has no such model
│   │   └── ModelRefused       its provider does not accept the request
│   └── ModelTimedOut          the model sent nothing for too long
├── MemoryProviderError        a provider of memory banks failed a call
│   ├── MemoryProviderFailed   it can't be reached, refuses the server's credentials, or failed
│   ├── MemoryProviderMissing  the operator's file has it no longer, or the server lacks its package
│   └── MemoryProviderTimedOut it did not answer in time
├── ToolFailed                 a server tool could not answer; the model receives the message
│   └── FetchFailed            a URL returned nothing usable
│       └── FetchRefused       a rule of this server forbids fetching it
├── ToolgroupUnavailable       the server of a toolgroup can't list its tools
│   ├── AddressForbidden       a rule of this server forbids calling it
│   ├── CredentialsMissing     a toolgroup's server requires credentials that the request did not pass on
│   └── CredentialsRefused     the request's credentials do not permit it
├── ShieldFailed               a shield could not judge; its `on_failure` setting applies
├── LeaseLost                  this process may no longer write to the turn
├── ContentLost                stored content is missing or damaged, permanently
├── StoreUnavailable           the store can't be read or written now
│   └── RecordTooNew           a newer version stored the record in its own format
├── IssuerUnavailable          the keys that verify callers' tokens can't be fetched now
└── Conflict                   a condition of a write did not hold
"""

from datetime import timedelta
from math import ceil

from turnstone.domain.errors.memory import MemoryProviderError as MemoryProviderError
from turnstone.domain.errors.memory import MemoryProviderFailed as MemoryProviderFailed
from turnstone.domain.errors.memory import MemoryProviderMissing as MemoryProviderMissing
from turnstone.domain.errors.memory import MemoryProviderTimedOut as MemoryProviderTimedOut
from turnstone.domain.errors.models import ModelBusy as ModelBusy
from turnstone.domain.errors.models import ModelError as ModelError
from turnstone.domain.errors.models import ModelFailed as ModelFailed
from turnstone.domain.errors.models import ModelNotFound as ModelNotFound
from turnstone.domain.errors.models import ModelRefused as ModelRefused
from turnstone.domain.errors.models import ModelTimedOut as ModelTimedOut
from turnstone.domain.errors.records import Conflict as Conflict
from turnstone.domain.errors.records import ContentLost as ContentLost
from turnstone.domain.errors.records import LeaseLost as LeaseLost
from turnstone.domain.errors.records import RecordTooNew as RecordTooNew
from turnstone.domain.errors.records import StoreUnavailable as StoreUnavailable
from turnstone.domain.errors.root import TurnstoneError as TurnstoneError
from turnstone.domain.errors.turns import TurnAwaited as TurnAwaited
from turnstone.domain.errors.turns import TurnConflict as TurnConflict
from turnstone.domain.errors.turns import TurnEnded as TurnEnded
from turnstone.domain.errors.turns import TurnNotAwaiting as TurnNotAwaiting
from turnstone.domain.errors.turns import TurnRunning as TurnRunning

SHUTTING_DOWN = "the server is shutting down; send the request again"
SIGN = "sign it with credentials that may call this API"


class InvalidRequest(TurnstoneError):
    """The request can't be accepted."""

    def __init__(self, message: str, location: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.location = location


class Unsupported(InvalidRequest):
    """The request uses a function that this server does not offer."""


class UnknownModel(InvalidRequest):
    """The registry is closed and has no such model."""

    def __init__(self, model_id: str) -> None:
        message = f"model: this server has no model {model_id!r}; choose one that GET /v1/models lists, or register it"
        super().__init__(message, ("model",))


class HistoryTooLong(InvalidRequest):
    """The history does not fit the model's context, and the request forbids that messages are left out."""

    def __init__(self) -> None:
        message = "input: with its history it exceeds the model's context; send truncation auto, or start anew"
        super().__init__(message, ("input",))


class MemoryUnusable(InvalidRequest):
    """A memory bank of a turn is missing or of another kind, or its query can't be made."""


class CallsMismatch(InvalidRequest):
    """The tool responses are not exactly those the turn waits for."""


class Unauthenticated(TurnstoneError):
    """The request proves no identity.

    Attributes:
        scheme: how a request can prove one, as HTTP's `Authorization` header names it; None where that is not revealed.
    """

    def __init__(self, scheme: str | None = None) -> None:
        how = f"send a key or token that may call this API as Authorization: {scheme}" if scheme else SIGN
        super().__init__(f"this request proves no identity; {how}")
        self.scheme = scheme


class UnusableTenant(Unauthenticated):
    """The credentials name a tenant that can't be served; the reason is for the operator, not for the caller."""


class Forbidden(TurnstoneError):
    """The resource is visible to the caller, but the action is not allowed."""


class NotFound(TurnstoneError):
    """The resource does not exist, or is not visible to the caller."""

    def __init__(self, kind: str, identifier: str) -> None:
        super().__init__(f"{kind} {identifier!r} not found")
        self.kind = kind
        self.identifier = identifier


class NotOpen(NotFound):
    """An operator's command names a turn that is not open in the tenant."""

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


class LabelTaken(TurnstoneError):
    """The agent has another memory block with this label."""

    may_be_repeated = False

    def __init__(self, label: str) -> None:
        super().__init__(f"the agent has another memory block with the label {label!r}; choose another label")
        self.label = label


class ToolNameTaken(TurnstoneError):
    """The tenant has another tool with this name."""

    may_be_repeated = False

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is another tool with the name {name!r}; change that one, or name the function otherwise"
        )
        self.name = name


class NotServed(TurnstoneError):
    """A method of the clients that this server does not have."""

    may_be_repeated = False


class UnknownClient(TurnstoneError):
    """The client's version uses an API that this server does not support."""

    def __init__(self, version: str) -> None:
        super().__init__(f"this server supports clients of versions 0.1 to 0.3, not {version!r}; install one of those")


class IdempotencyMismatch(TurnstoneError):
    """The idempotency key was used for another body."""

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used with another body; use a new key for a new request")


class BodyTooLarge(TurnstoneError):
    """The request has more bytes than the server accepts."""

    def __init__(self, limit_bytes: int, setting: str = "TURNSTONE_MAX_BODY_BYTES") -> None:
        """Take the limit, and the variable that sets it, empty for a fixed one."""
        named = f" ({setting})" if setting else ""
        super().__init__(f"the request body is over the limit of {limit_bytes} bytes{named}")
        self.limit_bytes = limit_bytes


class Overloaded(TurnstoneError):
    """The server's limit of running turns is reached.

    Attributes:
        comes_first: whether the refused request continues started work, and may queue before new work.
        why_not_later: why the request did not queue, or not longer; empty if this host has no queue.
        retry_after_s: when a retry makes sense.
        waits_for_slot: whether the request may queue for a slot of turns.
    """

    waits_for_slot = True

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
    """The limit of one tenant's running turns and direct requests is reached."""

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
    """The server shuts down and accepts no more turns."""

    def __str__(self) -> str:
        return SHUTTING_DOWN


class InsertionsBusy(Overloaded):
    """As many large texts are inserted into memory banks as this server inserts at a time, or for one tenant."""

    waits_for_slot = False

    def __init__(self, limit: int, retry_after_s: int) -> None:
        super().__init__(limit)
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return f"this server inserts {self.limit} large texts at a time, and others wait already; try again shortly"


class ReadingUnavailable(Overloaded):
    """The server can't read a document now; the message gives the reason."""

    waits_for_slot = False

    def __init__(self, message: str) -> None:
        super().__init__(0)
        self.message = message

    def __str__(self) -> str:
        return self.message


class LimitReached(TurnstoneError):
    """A spending limit of this server is reached."""

    may_be_repeated = False


class TurnLimitReached(LimitReached):
    """A turn has used its limit of tokens."""

    def __init__(self, spent_tokens: int, limit_tokens: int) -> None:
        super().__init__(
            f"this turn has spent {spent_tokens} tokens, and a turn may spend {limit_tokens} "
            "(the limit TURNSTONE_MAX_TURN_TOKENS); its finished steps are kept"
        )
        self.limit_tokens = limit_tokens


class TurnTimeReached(LimitReached):
    """A turn has used its limit of running time."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"this turn has run for {limit_s:g} s, not counting waits for its client, and a turn may run no longer "
            "(the limit TURNSTONE_MAX_TURN_SECONDS); its finished steps are kept"
        )
        self.limit_s = limit_s


class DayLimitReached(LimitReached):
    """A tenant has used its limit of tokens for the day."""

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
        refusal: set where the tool's server requires other credentials; outside turns it is the answer.
    """

    def __init__(self, message: str, refusal: "ToolgroupUnavailable | None" = None) -> None:
        super().__init__(message)
        self.refusal = refusal


class FetchFailed(ToolFailed):
    """A URL returned nothing usable; the message shows its scheme, host and port at most."""

    def __init__(self, shown: str, why: str) -> None:
        super().__init__(f"{shown} can't be fetched: {why}")


class FetchRefused(FetchFailed):
    """A rule forbids the fetch, and the message names it; no request reached that host."""


class ToolgroupUnavailable(TurnstoneError):
    """The server of a toolgroup can't list its tools; the message contains no secrets of addresses."""

    def __init__(self, toolgroup_id: str, why: str) -> None:
        super().__init__(f"the tools of {toolgroup_id!r} are not available now: {why}")
        self.toolgroup_id = toolgroup_id


class AddressForbidden(ToolgroupUnavailable):
    """A rule forbids the address of a toolgroup's server, or one that it redirects to; the message names the rule."""


class CredentialsMissing(ToolgroupUnavailable):
    """A toolgroup's server requires credentials that the request did not pass on; the message explains the remedy."""


class CredentialsRefused(ToolgroupUnavailable):
    """A toolgroup's server does not accept the request's credentials for this."""


class ShieldFailed(TurnstoneError):
    """A shield could not judge; its message, free of the judged content, is stored in the step."""


class IssuerUnavailable(TurnstoneError):
    """The keys that verify callers' tokens can't be fetched now; the message, for the operator, gives the reason."""
