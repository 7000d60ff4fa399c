"""Error codes: the code next to an error's text, its occasion, and the remedy.

`domain/errors/code_table.py` has them by error class; `docs/reference/errors.md` prints both.
"""

from enum import StrEnum


class ErrorCode(StrEnum):
    """An error code for programs: stable while the text next to it may change.

    Attributes:
        when: the occasion.
        remedy: the action of the caller or the operator.
    """

    when: str
    remedy: str

    def __new__(cls, code: str, when: str, remedy: str) -> "ErrorCode":
        member = str.__new__(cls, code)
        member._value_ = code
        member.when = when
        member.remedy = remedy
        return member

    # the request
    INVALID_REQUEST = (
        "invalid_request",
        "A field, a parameter or a header is missing or has a value that can't be accepted, or the body is not JSON.",
        "Correct what the text names.",
    )
    NOT_SUPPORTED = (
        "not_supported",
        "A field requests a function that this server does not offer.",
        "Leave the field out, or follow the text.",
    )
    TOOL_RESPONSES_MISMATCH = (
        "tool_responses_mismatch",
        "The tool responses are not exactly those that the turn awaits.",
        "Read the turn, and answer each pending call once.",
    )
    MALFORMED_HTTP = (
        "malformed_http",
        "The received bytes are not an HTTP request.",
        "Check the client, and any proxy before the server.",
    )
    BODY_TOO_LARGE = (
        "body_too_large",
        "The request body has more bytes than the server or its gateway takes.",
        "Send less, or have the operator raise `TURNSTONE_MAX_BODY_BYTES`.",
    )
    HEAD_TOO_LARGE = (
        "head_too_large",
        "The request's header fields or trailers are too many or too long.",
        "Send fewer or shorter headers.",
    )
    REQUEST_TIMED_OUT = ("request_timed_out", "The request did not arrive in time.", "Use a faster connection.")
    IDEMPOTENCY_KEY_REUSED = (
        "idempotency_key_reused",
        "The `Idempotency-Key` was used before, with another body.",
        "Use a new key for a new request.",
    )
    UNSUPPORTED_CLIENT = (
        "unsupported_client",
        "`X-LlamaStack-Client-Version` names a version whose API this server does not speak.",
        "Install a client of version 0.1, 0.2 or 0.3.",
    )
    # the caller
    UNAUTHENTICATED = (
        "unauthenticated",
        "The request carries no key, token or signature that this server accepts.",
        "Send a valid one, as the text describes.",
    )
    FORBIDDEN = (
        "forbidden",
        "The caller may not do this.",
        "Have the owner or an administrator do it, or use another identity.",
    )
    NOT_LOCAL = (
        "not_local",
        "The server has no authentication, and the request came from a web page or host name of another machine.",
        "Use `localhost`, or set `TURNSTONE_AUTH`.",
    )
    IDENTITY_UNAVAILABLE = (
        "identity_unavailable",
        "The caller can't be identified now: the token issuer's keys or the key store can't be reached.",
        "Send the request again after `retry-after`.",
    )
    # missing resources
    PATH_NOT_FOUND = ("path_not_found", "No route has this path.", "Check the URL; `GET /v1/openapi.json` lists all.")
    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        "The path has no such method.",
        "Use one of those in the header `allow`.",
    )
    NOT_IMPLEMENTED = (
        "not_implemented",
        "A method of the official clients, or of HTTP, that this server does not have.",
        "Follow the text where it names an alternative.",
    )
    AGENT_NOT_FOUND = ("agent_not_found", "No such agent, or it is not visible to the caller.", "Check the id.")
    SESSION_NOT_FOUND = (
        "session_not_found",
        "No such session, or it is not visible to the caller; it may have been deleted.",
        "Check the id, or create a session.",
    )
    TURN_NOT_FOUND = (
        "turn_not_found",
        "No such turn, or it is not visible to the caller; it may have been deleted with its session.",
        "Check the id.",
    )
    STEP_NOT_FOUND = ("step_not_found", "The turn has no such step.", "Read the turn, which lists its steps.")
    ATTACHMENT_NOT_FOUND = ("attachment_not_found", "The session has no such attachment.", "Check the id.")
    COMPLETION_NOT_FOUND = (
        "completion_not_found",
        "No such stored chat completion, or it is not visible to the caller.",
        "Check the id; only completions sent with `store: true` are kept.",
    )
    BANK_NOT_FOUND = (
        "bank_not_found",
        "No such memory bank, vector database or vector store, or it is not visible to the caller.",
        "Choose one that `GET /v1/memory-banks` lists, or register it.",
    )
    DOCUMENT_NOT_FOUND = (
        "document_not_found",
        "The memory bank has no such document.",
        "Check the id; `GET /v1/memory-banks/{memory_bank_id}/documents` lists them.",
    )
    FILE_BATCH_NOT_FOUND = ("file_batch_not_found", "The vector store has no such batch of files.", "Check the id.")
    CONTEXT_LENGTH_EXCEEDED = (
        "context_length_exceeded",
        "The history of a response does not fit the model's context, and its `truncation` is `disabled`.",
        "Send `truncation` as `auto`, so that the oldest messages are left out, or begin a new conversation.",
    )
    MEMORY_UNUSABLE = (
        "memory_unusable",
        "A memory bank that a turn reads is missing, not visible or of another kind, or its query can't be made.",
        "Correct the agent's memory as the text describes, or register the bank.",
    )
    FILE_NOT_FOUND = (
        "file_not_found",
        "No such file, or it is not visible to the caller; it may have expired.",
        "Choose one that `GET /v1/files` lists, or send it.",
    )
    UPLOAD_NOT_FOUND = (
        "upload_not_found",
        "No such upload, or it is not visible to the caller; it is forgotten a day after its end.",
        "Check the id, or create an upload.",
    )
    MODEL_NOT_FOUND = (
        "model_not_found",
        "This server has no such model.",
        "Choose one that `GET /v1/models` lists, or register it.",
    )
    PROVIDER_NOT_FOUND = ("provider_not_found", "This server has no such provider.", "See `GET /v1/providers`.")
    SHIELD_NOT_FOUND = ("shield_not_found", "No such shield.", "Choose one that `GET /v1/shields` lists.")
    TOOLGROUP_NOT_FOUND = ("toolgroup_not_found", "No such toolgroup.", "See `GET /v1/toolgroups`.")
    TOOL_NOT_FOUND = ("tool_not_found", "No toolgroup has such a tool.", "See `GET /v1/tools`.")
    MESSAGE_NOT_FOUND = (
        "message_not_found",
        "The agent has no such message.",
        "Choose one that its list of messages shows.",
    )
    RUN_NOT_FOUND = ("run_not_found", "The tenant has no such run.", "See `GET /letta/v1/runs`.")
    SOURCE_NOT_FOUND = (
        "source_not_found",
        "No such source, or it is not visible to the caller.",
        "See `GET /letta/v1/sources`.",
    )
    JOB_NOT_FOUND = ("job_not_found", "The tenant has no such job.", "See `GET /letta/v1/jobs`.")
    BLOCK_NOT_FOUND = (
        "block_not_found",
        "No such memory block, or it is not visible to the caller.",
        "Choose one that `GET /letta/v1/blocks` lists.",
    )
    WEBHOOK_NOT_FOUND = ("webhook_not_found", "The tenant has no such webhook.", "See `GET /v1/webhooks`.")
    DELIVERY_NOT_FOUND = (
        "delivery_not_found",
        "The webhook has no such delivery, or it has expired.",
        "Choose one that `GET /v1/webhooks/{webhook_id}/deliveries` lists.",
    )
    RECORD_NOT_FOUND = (
        "record_not_found",
        "A stored record was removed while it was read.",
        "Send the request again; list the existing ones.",
    )
    CONTENT_LOST = (
        "content_lost",
        "The server's stored copy is missing or damaged; no retry brings it back.",
        "Have the operator restore a backup, or delete what lost its content.",
    )
    RECORD_TOO_NEW = (
        "record_too_new",
        "A newer version of the server stored the record in a format that this one cannot read.",
        "Have the operator run the newer version; the record is unchanged.",
    )
    ALREADY_REGISTERED = (
        "already_registered",
        "The name is registered with another definition.",
        "Unregister it first, or choose another name.",
    )
    LABEL_TAKEN = (
        "label_taken",
        "The agent has another memory block with this label.",
        "Choose another label, or change that block.",
    )
    TOOL_NAME_TAKEN = (
        "tool_name_taken",
        "The tenant has another tool with this name.",
        "Change that tool, or give the function another name.",
    )
    # turns
    TURN_RUNNING = ("turn_running", "Another turn of the session is running.", "Wait for it to end, or cancel it.")
    TURN_NOT_AWAITING_INPUT = (
        "turn_not_awaiting_input",
        "A resume of a turn that awaits no tool responses.",
        "Read the turn to see its state, and start a new turn.",
    )
    TURN_ENDED = (
        "turn_ended",
        "The turn has ended, with an answer or without: it can't be cancelled, and sends no more events.",
        "Read the turn; start a new one if its answer is still needed.",
    )
    TURN_CONTINUES = (
        "turn_continues",
        "The turn continues without this connection, in the background or after a restart.",
        "Read it: `GET /v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}`, or follow its events.",
    )
    TURN_TAKEN_OVER = (
        "turn_taken_over",
        "Another process took the turn over, or ended it.",
        "Read the turn to see how it continues.",
    )
    # limits
    OVERLOADED = ("overloaded", "The server runs as many turns as it takes.", "Send it again after `retry-after`.")
    TENANT_OVERLOADED = (
        "tenant_overloaded",
        "The tenant runs as many turns as the server grants one tenant.",
        "Wait until one of them has ended.",
    )
    SERVER_STOPPING = ("server_stopping", "The server is shutting down.", "Send the request again.")
    CLIENT_DISCONNECTED = (
        "client_disconnected",
        "The client closed the connection before its request was served.",
        "Nothing: only proxies see it.",
    )
    TOO_MANY_CONNECTIONS = (
        "too_many_connections",
        "The server has no room for another connection.",
        "Close idle connections, or try again shortly.",
    )
    TOO_MANY_REQUESTS = (
        "too_many_requests",
        "More requests than the gateway takes in a second, or than a connection may send ahead of their answers.",
        "Send fewer at once.",
    )
    TURN_LIMIT_REACHED = (
        "turn_limit_reached",
        "The turn used all the tokens or all the time that a turn may use; its finished steps are kept.",
        "Request less in one turn, or have the operator raise the limit that the text names.",
    )
    DAY_LIMIT_REACHED = (
        "day_limit_reached",
        "The tenant used all its tokens of the day.",
        "Send the request again after `retry-after`: the day begins at midnight UTC.",
    )
    # models and tools
    MODEL_FAILED = (
        "model_failed",
        "The model's provider refused the request, or its answer broke off or can't be read.",
        "The text has the provider's reason; send the request again if it seems temporary.",
    )
    MODEL_BUSY = (
        "model_busy",
        "The model's provider takes no more requests now.",
        "Send the request again after `retry-after`.",
    )
    MODEL_REFUSED = (
        "model_refused",
        "The model's provider does not accept the request, and would not accept it again.",
        "Correct what the text names.",
    )
    PROVIDER_MODEL_NOT_FOUND = (
        "provider_model_not_found",
        "The model is registered here, but its provider does not have it.",
        "Choose another model, or have the operator correct the provider's model id.",
    )
    MODEL_TIMED_OUT = (
        "model_timed_out",
        "The model was silent for too long.",
        "Send the request again, or choose a faster model.",
    )
    MEMORY_PROVIDER_FAILED = (
        "memory_provider_failed",
        "The provider of a memory bank can't be reached, refuses the server's credentials, or failed.",
        "Send the request again; if that does not help, check the provider with `turnstone doctor`.",
    )
    MEMORY_PROVIDER_MISSING = (
        "memory_provider_missing",
        "The operator's file has the provider of a memory bank no longer, or the server lacks its package.",
        "Have the operator restore the provider; the bank's content is still there.",
    )
    MEMORY_PROVIDER_TIMED_OUT = (
        "memory_provider_timed_out",
        "The provider of a memory bank did not answer in time.",
        "Send the request again; if that does not help, check the provider with `turnstone doctor`.",
    )
    TOOLS_UNAVAILABLE = (
        "tools_unavailable",
        "The server of a toolgroup can't be reached, or its list of tools can't be used.",
        "Check that server; leave the toolgroup out to go without it.",
    )
    TOOL_CREDENTIALS_MISSING = (
        "tool_credentials_missing",
        "A toolgroup's server requires credentials that the request did not pass on.",
        "Send them as `mcp_headers` in `X-LlamaStack-Provider-Data`.",
    )
    TOOL_CREDENTIALS_REFUSED = (
        "tool_credentials_refused",
        "A toolgroup's server does not accept the credentials of the request for this.",
        "Send other credentials, or leave the toolgroup out.",
    )
    # the server
    STORE_UNAVAILABLE = (
        "store_unavailable",
        "The store can't be read or written now.",
        "Send the request again after `retry-after`.",
    )
    ANSWER_TOO_LARGE = (
        "answer_too_large",
        "The answer is larger than a Lambda function can return at once.",
        "Read it as the text describes.",
    )
    GATEWAY_REFUSED = (
        "gateway_refused",
        "API Gateway refused the request before it reached the server.",
        "The text is the gateway's own.",
    )
    FUNCTION_UNAVAILABLE = (
        "function_unavailable",
        "API Gateway could not reach the function that serves the request.",
        "Send the request again after `retry-after`.",
    )
    GATEWAY_TIMED_OUT = (
        "gateway_timed_out",
        "The answer took longer than API Gateway waits; a turn continues all the same.",
        "Read the turn, or stream it.",
    )
    INTERNAL_ERROR = (
        "internal_error",
        "A fault of the server.",
        "Report it with the request id; the server's log has the cause.",
    )
