"""The differences of answers from the recorded ones, each with its reason; `docs/reference/letta.md` has them."""

from __future__ import annotations

from collections.abc import Mapping

# exchanges of routes that this server lacks, or refuses by name
UNSERVED = {
    "101_users",
}
# the recorded status, that of this server, and the reason
BY_STATUS: Mapping[str, tuple[int, int, str]] = {
    "15_list_noslash": (307, 200, "a redirect repeats the request"),
    "37_block_add_dup": (500, 409, "an agent has one block of a label"),
    "38_block_add_over": (422, 400, "one status for a value over its limit, in each route"),
    "41_block_patch_over2": (422, 400, "one status for a value over its limit, in each route"),
    "54_arch_list_after_int": (400, 404, "a cursor is the id of a passage"),
    "55_arch_list_after_id": (422, 200, "a cursor is the id of a passage"),
    "68_send_llm500": (500, 502, "the model server failed, not this one"),
    "73_send_empty": (200, 422, "a turn without messages has nothing to answer"),
    "74_send_404": (500, 404, "the agent is missing"),
    "79_stream_404": (500, 404, "the agent is missing"),
    "88_async_fail": (200, 404, "the agent is missing"),
    "89_run_failed": (200, 404, "no run begins for a missing agent"),
    "94_msgs_bad_before": (500, 404, "the message is missing"),
    "97_reset_init": (200, 422, "an agent begins without messages"),
}
BY_SHAPE: Mapping[str, str] = {
    "[object].model_endpoint: text is null": "the addresses of model servers are the operator's data",
    ".code: more": "programs need not compare texts",
    ".detail[object].ctx: missing": "the message has the reason",
    ".detail[object].input: missing": "an answer repeats no content of the request",
    "[object].embedding: list is null": "clients show the text",
    ".summary_memory: text is null": "the context of the recording had overflowed, and was summarised",
}
