"""Table of error codes by the class of the error, and by the kind of the missing resource.

Statuses belong to HTTP: `http/errors.py` has them by error class and by code. `docs/reference/errors.md` prints both.
"""

from collections.abc import Mapping

from turnstone.domain import errors
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.errors.root import TurnstoneError

CODES: Mapping[type[TurnstoneError], ErrorCode] = {
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.Unsupported: ErrorCode.NOT_SUPPORTED,
    errors.UnknownModel: ErrorCode.MODEL_NOT_FOUND,
    errors.HistoryTooLong: ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    errors.MemoryUnusable: ErrorCode.MEMORY_UNUSABLE,
    errors.CallsMismatch: ErrorCode.TOOL_RESPONSES_MISMATCH,
    errors.Unauthenticated: ErrorCode.UNAUTHENTICATED,
    errors.UnusableTenant: ErrorCode.UNAUTHENTICATED,  # the existing tenants are the operator's data
    errors.Forbidden: ErrorCode.FORBIDDEN,
    errors.NotFound: ErrorCode.RECORD_NOT_FOUND,  # of a kind that NOT_FOUND does not name
    errors.NotOpen: ErrorCode.TURN_NOT_FOUND,
    errors.AlreadyRegistered: ErrorCode.ALREADY_REGISTERED,
    errors.LabelTaken: ErrorCode.LABEL_TAKEN,
    errors.ToolNameTaken: ErrorCode.TOOL_NAME_TAKEN,
    errors.NotServed: ErrorCode.NOT_IMPLEMENTED,
    errors.UnknownClient: ErrorCode.UNSUPPORTED_CLIENT,
    errors.TurnAwaited: ErrorCode.TURN_RUNNING,
    errors.TurnRunning: ErrorCode.TURN_RUNNING,
    errors.TurnNotAwaiting: ErrorCode.TURN_NOT_AWAITING_INPUT,
    errors.TurnEnded: ErrorCode.TURN_ENDED,
    errors.IdempotencyMismatch: ErrorCode.IDEMPOTENCY_KEY_REUSED,
    errors.BodyTooLarge: ErrorCode.BODY_TOO_LARGE,
    errors.Overloaded: ErrorCode.OVERLOADED,
    errors.InsertionsBusy: ErrorCode.OVERLOADED,
    errors.ReadingUnavailable: ErrorCode.OVERLOADED,
    errors.TenantOverloaded: ErrorCode.TENANT_OVERLOADED,
    errors.Stopping: ErrorCode.SERVER_STOPPING,
    errors.TurnLimitReached: ErrorCode.TURN_LIMIT_REACHED,
    errors.TurnTimeReached: ErrorCode.TURN_LIMIT_REACHED,
    errors.DayLimitReached: ErrorCode.DAY_LIMIT_REACHED,
    errors.ModelFailed: ErrorCode.MODEL_FAILED,
    errors.ModelBusy: ErrorCode.MODEL_BUSY,
    errors.ModelNotFound: ErrorCode.PROVIDER_MODEL_NOT_FOUND,
    errors.ModelRefused: ErrorCode.MODEL_REFUSED,
    errors.ModelTimedOut: ErrorCode.MODEL_TIMED_OUT,
    errors.MemoryProviderFailed: ErrorCode.MEMORY_PROVIDER_FAILED,
    errors.MemoryProviderMissing: ErrorCode.MEMORY_PROVIDER_MISSING,
    errors.MemoryProviderTimedOut: ErrorCode.MEMORY_PROVIDER_TIMED_OUT,
    errors.ToolgroupUnavailable: ErrorCode.TOOLS_UNAVAILABLE,
    errors.AddressForbidden: ErrorCode.TOOLS_UNAVAILABLE,
    errors.CredentialsMissing: ErrorCode.TOOL_CREDENTIALS_MISSING,
    errors.CredentialsRefused: ErrorCode.TOOL_CREDENTIALS_REFUSED,
    errors.LeaseLost: ErrorCode.TURN_TAKEN_OVER,
    errors.ContentLost: ErrorCode.CONTENT_LOST,
    errors.StoreUnavailable: ErrorCode.STORE_UNAVAILABLE,
    errors.RecordTooNew: ErrorCode.RECORD_TOO_NEW,
    errors.IssuerUnavailable: ErrorCode.IDENTITY_UNAVAILABLE,
    # handled where they are raised; one that reaches a client is a server fault
    errors.ToolFailed: ErrorCode.INTERNAL_ERROR,
    errors.FetchFailed: ErrorCode.INTERNAL_ERROR,
    errors.FetchRefused: ErrorCode.INTERNAL_ERROR,
    errors.ShieldFailed: ErrorCode.INTERNAL_ERROR,
    errors.Conflict: ErrorCode.INTERNAL_ERROR,
}
NOT_FOUND: Mapping[str, ErrorCode] = {
    "agent": ErrorCode.AGENT_NOT_FOUND,
    "session": ErrorCode.SESSION_NOT_FOUND,
    "turn": ErrorCode.TURN_NOT_FOUND,
    "open turn": ErrorCode.TURN_NOT_FOUND,
    "step": ErrorCode.STEP_NOT_FOUND,
    "attachment": ErrorCode.ATTACHMENT_NOT_FOUND,
    "chat completion": ErrorCode.COMPLETION_NOT_FOUND,
    "completion": ErrorCode.COMPLETION_NOT_FOUND,
    "memory bank": ErrorCode.BANK_NOT_FOUND,
    "document": ErrorCode.DOCUMENT_NOT_FOUND,
    "file": ErrorCode.FILE_NOT_FOUND,
    "file batch": ErrorCode.FILE_BATCH_NOT_FOUND,
    "upload": ErrorCode.UPLOAD_NOT_FOUND,
    "model": ErrorCode.MODEL_NOT_FOUND,
    "provider": ErrorCode.PROVIDER_NOT_FOUND,
    "shield": ErrorCode.SHIELD_NOT_FOUND,
    "toolgroup": ErrorCode.TOOLGROUP_NOT_FOUND,
    "tool": ErrorCode.TOOL_NOT_FOUND,
    "message": ErrorCode.MESSAGE_NOT_FOUND,
    "run": ErrorCode.RUN_NOT_FOUND,
    "source": ErrorCode.SOURCE_NOT_FOUND,
    "job": ErrorCode.JOB_NOT_FOUND,
    "block": ErrorCode.BLOCK_NOT_FOUND,
    "webhook": ErrorCode.WEBHOOK_NOT_FOUND,
    "delivery": ErrorCode.DELIVERY_NOT_FOUND,
    "API key": ErrorCode.RECORD_NOT_FOUND,  # printed by the operator's command only
    "record": ErrorCode.RECORD_NOT_FOUND,
}


def code_of(error: BaseException) -> ErrorCode:
    """Return the code of an error; for one outside the tree, the code of a server fault."""
    if isinstance(error, errors.NotFound):
        return NOT_FOUND.get(error.kind.removeprefix("registered "), ErrorCode.RECORD_NOT_FOUND)
    return next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), ErrorCode.INTERNAL_ERROR)
