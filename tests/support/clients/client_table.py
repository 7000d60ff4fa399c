"""The table of clients: the actions of a user, and the results in the client, equal for all clients that have them.

The rows themselves are in `scripts/rows/`, one function each; those of Llama Stack in Python and in TypeScript.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OVER = {"content": "Hello.", "stop_reason": "end_of_turn", "calls": [], "is_over": True}
TURN_START = ["turn_start"]
INFERENCE = ["step_start inference", "step_progress inference text", "step_complete inference"]
CALLING = ["step_start inference", "step_progress inference tool_call", "step_complete inference"]
TOOL = ["step_start tool_execution", "step_progress tool_execution tool_call", "step_complete tool_execution"]
SHIELD = ["step_start shield_call", "step_complete shield_call"]
RESUMED = ["step_complete tool_execution", *INFERENCE, "turn_complete"]
WITH_TOOL = ["inference", "tool_execution", "inference"]
WEATHER = [["get_weather", {"city": "Oslo"}]]
HELLO = {
    "events": [*TURN_START, *INFERENCE, "turn_complete"],
    "text": "Hello.",
    "turn": {"steps": ["inference"], **OVER},
}
IT_IS_7 = {"steps": WITH_TOOL, **OVER, "content": "It is 7."}
AGENT_CLASS = {
    "events": [*TURN_START, *CALLING, "turn_awaiting_input", *RESUMED],
    "text": "It is 7.",
    "turn": IT_IS_7,
}
PAUSED = {"steps": ["inference"], "content": "", "stop_reason": "end_of_message", "calls": WEATHER, "is_over": False}
IT_IS_RAIN = {"steps": WITH_TOOL, **OVER, "content": "It is rain."}
READ = {
    "waiting": PAUSED,
    "read": IT_IS_RAIN,
    "same_turn": True,
    "steps": WITH_TOOL,
    "tool_responses": ["rain"],
    "step_ids": 3,
    "a_step_begins_after_the_one_before": True,
}
THOUGHT = (
    '{"thought": "A tool helps.", "action": {"tool_name": "add", "tool_params": '
    '[{"name": "a", "value": 3}, {"name": "b", "value": 4}]}, "answer": null}'
)
ANSWER = '{"thought": "Done.", "action": null, "answer": "It is 7."}'
OUT_OF_TEXT = [*TURN_START, *INFERENCE, "turn_complete", *RESUMED]
REACT = {
    "events": OUT_OF_TEXT,
    "text": THOUGHT + ANSWER,
    "turn": {**IT_IS_7, "content": ANSWER},
    "kept": [WITH_TOOL],
}
NOT_FOUND, BAD, CONFLICT = ["NotFoundError", 404], ["BadRequestError", 400], ["ConflictError", 409]
BUSY, BROKEN, NO_KEY = ["RateLimitError", 429], ["InternalServerError", 502], ["AuthenticationError", 401]
UNSERVED = ["InternalServerError", 501]
VECTORS = [[3.0, 0.0, 0.0], [5.0, 1.0, 0.0]]
STRICT_CALL = [["add", '{"city": "Oslo"}']]
CURRENT_TIME = ["current_time", "builtin::clock", True]
JUDGED = ["shield_call", "inference", "shield_call"]

LLAMA_STACK: Mapping[str, Any] = {
    "health_and_version": ["OK", True],
    "health_without_key": "OK",
    "agent_and_session_come_and_go": ["table", [], True, NOT_FOUND, NOT_FOUND],
    "agents_and_sessions_are_listed": {
        "name": "listed",
        "listed": ["listed"],
        "page": [1, []],
        "sessions": [["table", []]],
    },
    "turn_streamed": HELLO,
    "turn_whole": HELLO["turn"],
    "turns_are_remembered_in_order": [["hello", "and now?", "bye"], ["and now?"]],
    "client_tool_streamed": {
        "first": {"events": [*TURN_START, *CALLING, "turn_awaiting_input"], "text": "", "turn": PAUSED},
        "second": {"events": RESUMED, "text": "It is rain.", "turn": IT_IS_RAIN},
        **READ,
    },
    "client_tool_whole": {"first": PAUSED, "second": IT_IS_RAIN, **READ},
    "completed_turn_is_resumed": {
        "events": RESUMED,
        "text": "It is 7.",
        "turn": IT_IS_7,
        "same_turn": True,
        "tool_steps": [[0, ["7"]]],
    },
    "older_turn_is_not_resumed": CONFLICT,
    "server_tool": [*TURN_START, *CALLING, *TOOL, *INFERENCE, "turn_complete"],
    "tool_prompt_format_sent_out_of_habit": [WEATHER, WEATHER],
    "instructions_replace_the_prompt": ["Only this.", WEATHER],
    "response_format_of_an_agent": '{"city": "Oslo"}',
    "sampling_of_an_agent": "Hello.",
    "max_infer_iters_ends_a_turn": {
        "events": [*TURN_START, *CALLING, "turn_complete"],
        "text": "",
        "turn": {"steps": ["inference"], **OVER, "content": ""},
    },
    "documents_of_a_turn": "ok",
    "image_in_a_message": "Hello.",
    "shields_judge_a_turn": {
        "clean": {
            "events": [*TURN_START, *SHIELD, *INFERENCE, *SHIELD, "turn_complete"],
            "text": "Hello.",
            "turn": {"steps": JUDGED, **OVER},
        },
        "refused": {
            "events": [*TURN_START, *SHIELD, "turn_complete"],
            "text": "",
            "turn": {"steps": ["shield_call"], "stop_reason": "end_of_turn", "calls": [], "is_over": True},
        },
        "refusal": "I can't",
    },
    "shields_judge_what_a_client_tool_answers": [
        [[*JUDGED, "tool_execution", *JUDGED], "It is r"],
        [[*JUDGED, "tool_execution", "shield_call"], "I can't"],
    ],
    "unknown_things": dict.fromkeys(
        ("agent", "session", "session_streaming", "turn", "turn_resumed", "step", "model"), NOT_FOUND
    ),
    "refused_things": dict.fromkeys(("no_messages", "no_model", "unknown_shield"), BAD),
    "no_key": NO_KEY,
    "second_turn_while_one_runs": CONFLICT,
    "model_that_fails": [BROKEN, True],
    "toolgroups_and_tools_are_listed": {
        "group": "builtin::clock",
        "groups": True,
        "tools": [CURRENT_TIME],
        "tool": CURRENT_TIME,
        "same": True,
    },
    "tool_is_invoked": ["str", None, None],
    "mcp_server": {
        "listed": True,
        "content": [{"type": "text", "text": "7"}],
        "error_code": 0,
        "steps": WITH_TOOL,
        "text": "It is 7.",
        "gone": NOT_FOUND,
    },
    "shields_are_registered_and_run": {
        "shield": ["meta-llama/Llama-Guard-3-8B", "llama-guard"],
        "listed": True,
        "clean": None,
        "found": ["error", "I can't"],
    },
    "shield_is_deleted": False,
    "documents_are_found_for_retrieval": {
        "shown": '1: Knots probe the mud. {"document_id":"knots","page":1}',
        "ids": ["knots"],
        "scores": 1,
        "nothing": None,
        "chunks": ["Terns dive for fish."],
    },
    "providers_are_listed": [True, True],
    "set_up_script": True,
    "models_are_listed": [True, "llm", "stub-llm"],
    "models_are_listed_in_openais_words": ["stub-llm", "model", True, True],
    "model_comes_and_goes": [True, NOT_FOUND],
    "inference_chat": {
        "whole": ["Hello.", "end_of_turn"],
        "metrics": ["completion_tokens", "prompt_tokens", "total_tokens"],
        "kinds": ["start", "complete"],
        "text": "Hello.",
        "stop_reason": "end_of_turn",
    },
    "inference_chat_with_tools": [[["add", {"a": 3}]], [["add", {"a": 3}]]],
    "inference_chat_with_a_schema": {"city": "Oslo"},
    "inference_completion": [True, True, "end_of_turn", "end_of_turn"],
    "inference_embeddings": VECTORS,
    "openai_chat": {"whole": ["Hello.", "stop"], "text": "Hello.", "finish": "stop"},
    "openai_chat_with_strict_tools": [STRICT_CALL, STRICT_CALL],
    "openai_chat_with_a_schema": {"city": "Oslo"},
    "openai_chat_with_what_a_provider_knows": "Hello.",
    "openai_chat_refused": {"n": BAD, "no_messages": BAD, "busy": BUSY, "broken": BROKEN},
    "openai_completion": [True, True, "stop", "stop"],
    "openai_embeddings": [VECTORS, 7],
    "stored_chat_completions": [True, "Hello.", "hello", False],
}
AGENT_CLASSES: Mapping[str, Any] = {
    "agent_class_runs_its_tool": {
        **AGENT_CLASS,
        "printed": ["tool_execution> Tool:add", "inference> It is 7."],
        "whole": IT_IS_7,
    },
    "agent_class_of_deprecated_arguments": IT_IS_7,
    "asynchronous_agent_class_runs_its_tool": AGENT_CLASS,
    "agent_class_with_a_server_tool": [{"current_time": {}}, WITH_TOOL],
    "react_agent": REACT,
    "react_agent_in_json": REACT,
    "react_agent_with_a_server_tool": WITH_TOOL,
    "tool_parser_of_our_own": {
        "events": OUT_OF_TEXT,
        "text": "CALL add 3 4It is 7.",
        "turn": IT_IS_7,
        "second": IT_IS_7,
    },
    "agent_class_over_responses": {
        "events": [
            "turn_started",
            "step_started inference",
            "step_progress inference tool_call_issued",
            "step_completed inference",
            "step_started tool_execution",
            "step_completed tool_execution",
            "step_started inference",
            "step_progress inference text",
            "step_completed inference",
            "turn_completed",
        ],
        "final": ["It is 7.", 2],
        "printed": True,
        "whole": "Hello.",
        "kept": ["message", "function_call", "function_call_output", "message", "message", "message"],
    },
}
OPENAI: Mapping[str, Any] = {
    "models_are_listed": ["stub-llm", "model", True, True],
    "model_is_retrieved": ["stub-llm", NOT_FOUND],
    "chat": {
        "whole": ["Hello.", "stop", "chat.completion"],
        "tokens": 12,
        "text": "Hello.",
        "finish": "stop",
        "last": [[], 12],
    },
    "chat_with_strict_tools": [STRICT_CALL, "tool_calls", ["add"]],
    "tool_loop": "It is 7.",
    "pydantic_function_tool": ["Oslo"],
    "structured_output": ["Oslo", {"city": "Oslo"}],
    "chat_with_what_a_provider_knows": "Hello.",
    "image_with_detail": "Hello.",
    "embeddings": [VECTORS, [[3.0, 0.0, 0.0]]],
    "completion": [True, True, "stop", "stop"],
    "stored_chat_completions": [True, False, "Hello.", NOT_FOUND],
    "responses": ["Hello.", "Hello.", "Hello.", True, [*NOT_FOUND, True]],
    "response_parsed": "Oslo",
    "refused": {
        "n": [*BAD, True],
        "no_messages": [*BAD, True],
        "busy": [*BUSY, True],
        "broken": [*BROKEN, True],
        "no_key": [*NO_KEY, True],
    },
    "unserved_methods_are_named": {
        "assistants": [*UNSERVED, True],
        "videos": [*UNSERVED, True],
    },
    "asynchronous_client": ["Hello.", True],
}
TOOL_ITEMS = ["tool_call_item", "tool_call_output_item", "message_output_item"]
OPENAI_AGENTS: Mapping[str, Any] = {
    "agent_runs": "Hello.",
    "agent_runs_its_tool": ["It is 7.", TOOL_ITEMS],
    "agent_runs_its_tool_streamed": ["It is 7.", TOOL_ITEMS],
    "agent_with_an_output_type": "Oslo",
    "agent_with_settings": "Hello.",
    "agent_hands_off": "other",
    "agent_with_a_session": [["Hello.", "ok"], 4],
}
ADDED = [["add", {"a": 3, "b": 4}]]
LANGCHAIN: Mapping[str, Any] = {
    "chat_is_invoked": ["Hello.", 12],
    "chat_is_streamed": ["Hello.", [12]],
    "chat_is_invoked_asynchronously_and_in_batches": ["Hello.", ["Hello.", "ok"]],
    "strict_tools_are_bound": [ADDED, "It is 7."],
    "strict_tools_are_streamed": ADDED,
    "structured_output": ["Oslo", "Oslo"],
    "log_probabilities_are_requested": "Hello.",
    "completion": [True, True],
    "embeddings": [VECTORS, VECTORS[0]],
    "refused": {"busy": ["OpenAIRateLimitError", 429], "no_key": ["OpenAIAuthenticationError", 401]},
}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "llama_stack.py": {**LLAMA_STACK, **AGENT_CLASSES},
    "llama_stack.mjs": LLAMA_STACK,
    "openai_sdk.py": OPENAI,
    "openai_agents_sdk.py": OPENAI_AGENTS,
    "langchain_sdk.py": LANGCHAIN,
}

OLDEST = ("python-0.1.9", "python-0.2.0")
BEFORE_LISTS = (*OLDEST, "python-0.2.12")
NEWEST = ("python-0.3.5",)
OLDER = ("python-0.1.9", "python-0.2.0", "python-0.2.12", "python-0.2.23")
# the rows for which a client has no method; each client is checked for that
LACKING: Mapping[str, tuple[str, ...]] = {
    "agents_and_sessions_are_listed": BEFORE_LISTS,
    "models_are_listed_in_openais_words": BEFORE_LISTS,
    "shield_is_deleted": BEFORE_LISTS,
    **{name: OLDEST for name in LLAMA_STACK if name.startswith("openai_")},
    "stored_chat_completions": OLDEST,
    **{name: NEWEST for name in LLAMA_STACK if name.startswith("inference_")},
    **dict.fromkeys(AGENT_CLASSES, NEWEST),  # its Agent class speaks the Responses API
    "agent_class_over_responses": OLDER,
}
