"""A model directed by the user's last message, so that any server in front of it gives the same answers.

`hello` · `call TOOL JSON` calls a tool and then repeats its answer · `react`, `react clock` and `parse` write calls as
text · `json` writes JSON if it has a schema to follow · `what system?` repeats the system message · `wait SECONDS` ·
`fail STATUS`. The guard model finds every bomb unsafe. All else is answered "ok".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.fakes.models.openai_answers import Answer, HttpAnswer, Pause, call_answer, error_answer, listed, text_answer

MODELS = (
    "stub-llm",
    "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "meta-llama/Llama-Guard-3-8B",
    "all-MiniLM-L6-v2",
)
LISTED: HttpAnswer = listed(*MODELS)
CITY = {"city": "Oslo"}
REACT_CALLS = {
    "react": {"tool_name": "add", "tool_params": [{"name": "a", "value": 3}, {"name": "b", "value": 4}]},
    "react clock": {"tool_name": "current_time", "tool_params": [{"name": "timezone", "value": "UTC"}]},
}


def answer_by_words(body: Mapping[str, Any]) -> Answer:
    """Return the answer that the user's last message directs."""
    messages = body["messages"]
    if "Guard" in body["model"]:
        return text_answer("unsafe\nS9" if "bomb" in text_of(messages[-1]) else "safe")
    question = next((text_of(message) for message in reversed(messages) if message["role"] == "user"), "")
    words = question.split(maxsplit=2)
    result = text_of(messages[-1]) if messages[-1]["role"] == "tool" else None
    match words:
        case ["hello", *_]:
            return text_answer("Hello", ".")
        case ["call", name, arguments]:
            return called(body, name, arguments) if result is None else text_answer("It ", "is ", f"{result}.")
        case ["parse"]:
            return text_answer("CALL add 3 4" if result is None else f"It is {result}.")
        case ["react", *_]:
            return text_answer(reaction(question, result))
        case ["json"]:
            return text_answer(json.dumps(CITY) if {"response_format", "guided_json"} & body.keys() else "no schema")
        case ["what", "system?"]:
            return text_answer(text_of(messages[0]) if messages[0]["role"] == "system" else "none")
        case ["wait", seconds]:
            return (Pause(float(seconds)), *text_answer("ok"))
        case ["fail", status]:
            return error_answer(int(status), "out of order")
    return text_answer("ok")


def called(body: Mapping[str, Any], name: str, arguments: str) -> Answer:
    """Return a call, or a text if the request offers no such tool."""
    offered = {tool["function"]["name"] for tool in body.get("tools") or ()}
    return call_answer((name, arguments)) if name in offered else text_answer(f"There is no {name}.")


def reaction(question: str, result: str | None) -> str:
    if result is None:
        return json.dumps({"thought": "A tool helps.", "action": REACT_CALLS[question], "answer": None})
    return json.dumps({"thought": "Done.", "action": None, "answer": f"It is {result}."})


def text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
