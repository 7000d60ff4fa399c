"""The rows of the table for LangChain's OpenAI integration. Arguments: see `scenario.py`."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from scenario import BASE_URL, EMBEDDING, KEY, MODEL, PREFIXES, raised_by, row, run

GIVEN: dict[str, Any] = {"base_url": BASE_URL + PREFIXES[0], "api_key": KEY, "max_retries": 0}
ADDS = 'call add {"a": 3, "b": 4}'


class Place(BaseModel):
    """A place."""

    city: str


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def model(**given: Any) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, **GIVEN, **given)


@row
def chat_is_invoked() -> Any:
    answer = model(temperature=0, max_tokens=64, n=1, seed=3).invoke([("system", "Be brief."), ("human", "hello")])
    return [answer.content, answer.usage_metadata and answer.usage_metadata["total_tokens"]]


@row
def chat_is_streamed() -> Any:
    chunks = list(model(stream_usage=True).stream("hello"))
    usage = [chunk.usage_metadata["total_tokens"] for chunk in chunks if chunk.usage_metadata]
    return ["".join(str(chunk.content) for chunk in chunks), usage]


@row
def chat_is_invoked_asynchronously_and_in_batches() -> Any:
    return [asyncio.run(model().ainvoke("hello")).content, [each.content for each in model().batch(["hello", "x"])]]


@row
def strict_tools_are_bound() -> Any:
    bound = model().bind_tools([add], strict=True)
    messages: list[Any] = [HumanMessage(ADDS, name="ann")]
    called: Any = bound.invoke(messages)
    answers = [ToolMessage(str(add.invoke(call["args"])), tool_call_id=call["id"]) for call in called.tool_calls]
    ended = bound.invoke([*messages, called, *answers])
    return [[[call["name"], call["args"]] for call in called.tool_calls], ended.content]


@row
def strict_tools_are_streamed() -> Any:
    whole: Any = None
    for chunk in model().bind_tools([add], strict=True, tool_choice="any").stream(ADDS):
        whole = chunk if whole is None else whole + chunk
    return [[call["name"], call["args"]] for call in whole.tool_calls]


@row
def structured_output() -> Any:
    by_schema: Any = model().with_structured_output(Place, method="json_schema").invoke("json")
    by_tool: Any = model().with_structured_output(Place, method="function_calling", strict=True)
    return [by_schema.city, by_tool.invoke('call Place {"city": "Oslo"}').city]


@row
def log_probabilities_are_requested() -> Any:
    return model(logprobs=True, top_logprobs=1, extra_body={"top_k": 5}).invoke("hello").content


@row
def completion() -> Any:
    complete = OpenAI(model=MODEL, **GIVEN)
    whole = complete.invoke("Once upon")
    return [bool(whole), "".join(complete.stream("Once upon")) == whole]


@row
def embeddings() -> Any:
    embedder = OpenAIEmbeddings(model=EMBEDDING, check_embedding_ctx_length=False, **GIVEN)
    return [embedder.embed_documents(["one", "three"]), embedder.embed_query("one")]


@row
def refused() -> Any:
    return {
        "busy": raised_by(lambda: model().invoke("fail 429"))[:2],
        "no_key": raised_by(lambda: ChatOpenAI(model=MODEL, **{**GIVEN, "api_key": "wrong"}).invoke("hello"))[:2],
    }


run()
