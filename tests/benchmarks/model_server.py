"""The model server of the benchmarks, in a process of its own: every answer is made before it is asked for.

`python -m tests.benchmarks.model_server` prints its port as the first line. Its models are those of the fake server
(`instant`, `words-1000`, `slow-60`) and

- `prose`: one delta, as long as the answer of a plain turn may be;
- `tokens-of-last`: the tokens of the request that came before, by Turnstone's own estimate.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any

from tests.benchmarks.histories import answer
from tests.fakes.openai_answers import Answer, Item, built_in_answer, encoded, text_answer
from tests.fakes.openai_server import ModelServer, serve_until_told
from turnstone.domain.context import MESSAGE_TOKENS

DIFFERENT_ANSWERS = 16

_numbers = count()


def prepared(body: Mapping[str, Any]) -> Answer:
    """Return the answer to a request, encoded beforehand."""
    match body["model"]:
        case "tokens-of-last":
            return text_answer(str(tokens_in(server.requests[-2]["messages"])))
        case "prose":
            # Their questions are large, and only the last is ever asked about.
            del server.requests[:-1], server.headers[:-1]
            return _prose(next(_numbers) % DIFFERENT_ANSWERS)
        case model:
            return _built_in(model)


def tokens_in(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(MESSAGE_TOKENS + -(-len(message["content"].encode()) // 4) for message in messages)


@cache
def _prose(number: int) -> Sequence[Item]:
    return _encoded(text_answer(answer(number)))


@cache
def _built_in(model: str) -> Answer:
    spoken = built_in_answer({"model": model})
    return _encoded(spoken) if isinstance(spoken, Sequence) else spoken


def _encoded(items: Sequence[Item]) -> Sequence[Item]:
    return tuple(encoded(item) if isinstance(item, Mapping) else item for item in items)


server = ModelServer(prepared)

if __name__ == "__main__":
    asyncio.run(serve_until_told(server))
