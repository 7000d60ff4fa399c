"""Asks models directly, chats and embeddings, in both of the client's ways. Arguments: base URL, model."""

import sys
from typing import Any

from llama_stack_client import APIStatusError, LlamaStackClient
from told import tell

TOOL = {"tool_name": "add", "parameters": {"a": {"param_type": "int", "required": True}}}
OPENAI_TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


def main(base_url: str, model: str) -> None:
    client = LlamaStackClient(base_url=base_url, max_retries=0)
    if hasattr(client, "inference"):
        ask_as_llama_stack(client, model)
    ask_as_openai(client, model)


def ask_as_llama_stack(client: LlamaStackClient, model: str) -> None:
    asked: dict[str, Any] = {"model_id": model, "messages": [{"role": "user", "content": "please add(a=1)"}]}
    whole = client.inference.chat_completion(**asked)
    tell(whole=whole.completion_message.content, metrics=sorted(metric.metric for metric in whole.metrics or ()))
    chunks = [chunk.event for chunk in client.inference.chat_completion(**asked, stream=True)]
    tell(
        streamed="".join(getattr(chunk.delta, "text", "") for chunk in chunks),
        kinds=sorted({chunk.event_type for chunk in chunks}),
    )
    tell(first=chunks[0].event_type, last=[chunks[-1].event_type, chunks[-1].stop_reason])
    called = client.inference.chat_completion(**asked, tools=[TOOL]).completion_message
    tell(called=[[call.tool_name, call.arguments] for call in called.tool_calls], stop_reason=called.stop_reason)
    deltas = [chunk.event.delta for chunk in client.inference.chat_completion(**asked, tools=[TOOL], stream=True)]
    calls = [delta for delta in deltas if delta.type == "tool_call"]
    tell(called_in_stream=[[call.tool_call.tool_name, call.parse_status] for call in calls])
    vectors = client.inference.embeddings(model_id=model, contents=["one", "three"]).embeddings
    tell(vectors=vectors)


def ask_as_openai(client: LlamaStackClient, model: str) -> None:
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "please add(a=1)"}]}
    whole = client.chat.completions.create(**asked).choices[0]
    tell(openai_whole=whole.message.content, openai_finish=whole.finish_reason)
    chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**asked, stream=True)]
    tell(openai_streamed="".join(chunk.delta.content or "" for chunk in chunks), openai_end=chunks[-1].finish_reason)
    called = client.chat.completions.create(**asked, tools=[OPENAI_TOOL]).choices[0]
    tell(
        openai_called=[call.function.name for call in called.message.tool_calls or ()], openai_stop=called.finish_reason
    )
    embedded = client.embeddings.create(model=model, input=["one", "three"])
    tell(openai_vectors=[entry.embedding for entry in embedded.data], openai_tokens=embedded.usage.total_tokens)
    try:
        client.chat.completions.create(**asked, n=2)
    except APIStatusError as error:
        tell(refused=[error.status_code, error.body["error"]["param"]])


main(*sys.argv[1:])
