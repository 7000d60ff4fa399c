"""The model server of the benchmarks, in a process of its own: every answer is made before its request.

`python -m tests.benchmarks.model_server [MODEL ...]` prints its port as the first line. Its models are those of the
fake server (`instant`, `words-1000`, `slow-60`) and

- `prose`: one delta, as long as the answer of a plain turn may be;
- `tokens-of-last`: the tokens of the request that came before, by Turnstone's own estimate;
- `messages-of-last`: how many messages that request had;
- those named: each answers as the model named in the user's last message, and is listed first; `sends` is a call of
  Letta's `send_message`.

Every text has a vector of 384 dimensions, always the same.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from random import Random
from typing import Any

from tests.benchmarks.histories import answer
from tests.fakes.models.openai_answers import (
    BUILT_IN_MODELS,
    Answer,
    HttpAnswer,
    Item,
    built_in_answer,
    call_chunk,
    chunk,
    encoded,
    listed,
    text_answer,
    usage_chunk,
)
from tests.fakes.models.openai_server import ModelServer, serve_until_stdin_closes
from turnstone.domain.sessions.context import MESSAGE_TOKENS

DIFFERENT_ANSWERS = 16
SENDS = "sends"
DIMENSIONS = 384
NAMED = tuple(sys.argv[1:]) if __name__ == "__main__" else ()

_numbers = count()


def prepared(body: Mapping[str, Any]) -> Answer:
    """Return the answer to a request, encoded beforehand."""
    match body["model"]:
        case "tokens-of-last":
            return text_answer(str(tokens_in(server.requests[-2]["messages"])))
        case "messages-of-last":
            return text_answer(str(len(server.requests[-2]["messages"])))
        case "prose":
            _forget_all_but_last()
            return _prose(next(_numbers) % DIFFERENT_ANSWERS)
        case model if model in NAMED:
            _forget_all_but_last()
            text = last_user_text(body["messages"])
            if text == SENDS:
                return _sent_message()
            if text.startswith("tool:"):
                return built_in_answer({**body, "model": text})
            return _built_in(text) if "stream_options" in body else _without_usage(text)
        case model:
            return _built_in(model)


def last_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the user's last message, whole or in parts."""
    content = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def tokens_in(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(MESSAGE_TOKENS + -(-len(message["content"].encode()) // 4) for message in messages)


def _forget_all_but_last() -> None:
    # Their questions are large, and only the last is ever queried.
    del server.requests[:-1], server.headers[:-1]


@cache
def _prose(number: int) -> Sequence[Item]:
    return _encoded(text_answer(answer(number)))


@cache
def _sent_message() -> Answer:
    arguments = json.dumps({"inner_thoughts": "A greeting.", "message": "ok"})
    return _encoded((call_chunk(0, "send_message", arguments), chunk({}, "tool_calls"), usage_chunk(10, 5)))


@cache
def _built_in(model: str) -> Answer:
    spoken = built_in_answer({"model": model})
    return _encoded(spoken) if isinstance(spoken, Sequence) else spoken


@cache
def _without_usage(model: str) -> Answer:
    """Return the answer for a client that did not request its usage, as servers of OpenAI's API give it."""
    spoken = built_in_answer({"model": model})
    if not isinstance(spoken, Sequence):
        return spoken
    return _encoded([item for item in spoken if not (isinstance(item, Mapping) and item.get("choices") == [])])


def _encoded(items: Sequence[Item]) -> Sequence[Item]:
    return tuple(encoded(item) if isinstance(item, Mapping) else item for item in items)


def embedded(body: Mapping[str, Any]) -> Answer:
    """Return a vector for each text, which the text alone determines."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = [{"object": "embedding", "index": index, "embedding": _vector(text)} for index, text in enumerate(texts)]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return HttpAnswer(200, {"object": "list", "data": data, "model": body["model"], "usage": usage})


@cache
def _vector(text: str) -> list[float]:
    return [(number - 127) / 128 for number in Random(text).randbytes(DIMENSIONS)]


# Llama Stack 0.2.12 sends no call id with a tool's answer, so the named accept histories that real servers refuse.
server = ModelServer(prepared, strict=not NAMED, listed=listed(*NAMED, *BUILT_IN_MODELS), embed=embedded)

if __name__ == "__main__":
    asyncio.run(serve_until_stdin_closes(server))
