"""Letta's own client, unmodified: a turn streamed in fragments, and the same messages whole.

Arguments: base URL up to and including /letta.
"""

import sys

from letta_client import EmbeddingConfig, Letta, LlmConfig, MessageCreate
from reporting import report

LLM = LlmConfig(
    model="words", model_endpoint_type="openai", model_endpoint="http://127.0.0.1:1/v1", context_window=8192
)
EMBEDDING = EmbeddingConfig(
    embedding_model="none", embedding_endpoint_type="openai", embedding_endpoint="http://127.0.0.1:1", embedding_dim=8
)
FIELDS = ("reasoning", "assistant_message", "tool_return", "message")


def parts(each: object) -> dict[str, str]:
    """Return the texts of a message or a fragment."""
    call = getattr(each, "tool_call", None)
    if call is None:
        return {name: getattr(each, name) for name in FIELDS if getattr(each, name, None) is not None}
    fields = call if isinstance(call, dict) else call.dict()  # the client's parsing is lax
    return {name: fields[name] for name in ("name", "arguments", "tool_call_id") if fields.get(name) is not None}


def joined(messages: list[object]) -> list[list[object]]:
    """Return the messages, with fragments of one kind and id joined."""
    rows: list[list[object]] = []
    for each in messages:
        if rows and rows[-1][:2] == [each.id, each.message_type]:
            for name, text in parts(each).items():
                rows[-1][2][name] = rows[-1][2].get(name, "") + text
        else:
            rows.append([each.id, each.message_type, parts(each)])
    return rows


def main(base_url: str) -> None:
    client = Letta(base_url=base_url)
    agent = client.agents.create(name="Sam", llm_config=LLM, embedding_config=EMBEDDING)
    sent = [MessageCreate(role="user", text="remember: tea")]
    *streamed, usage = client.agents.messages.stream(agent_id=agent.id, messages=sent, stream_tokens=True)
    config = {"assistant_message_tool_name": "send_message", "assistant_message_tool_kwarg": "message"}
    listed = client.agents.messages.list(agent_id=agent.id, limit=20, **config)
    report(
        fragments=[[each.message_type, parts(each)] for each in streamed],
        usage=[usage.message_type, usage.step_count],
        streamed=joined(streamed),
        listed=joined([each for each in listed if each.message_type not in ("system_message", "user_message")]),
    )


main(*sys.argv[1:])
