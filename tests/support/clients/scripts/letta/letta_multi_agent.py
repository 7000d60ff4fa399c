"""Letta's own client, unmodified: agents that send messages to each other.

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


def main(base_url: str) -> None:
    client = Letta(base_url=base_url)
    ann, bob = (
        client.agents.create(
            name=name,
            system=f"You are {name}.",
            llm_config=LLM,
            embedding_config=EMBEDDING,
            tags=[name],
            include_multi_agent_tools=True,
        )
        for name in ("Ann", "Bob")
    )
    report(kinds={tool.name: tool.tool_type for tool in ann.tools if tool.name.startswith("send_message_")}, bob=bob.id)
    answers = []
    for text in (f"call {bob.id}", "tags Bob", "call agent-00000000-0000-0000-0000-000000000000"):
        sent = client.agents.messages.send(agent_id=ann.id, messages=[MessageCreate(role="user", text=text)])
        answers.append(next(each.tool_return for each in sent.messages if each.message_type == "tool_return_message"))
    report(
        answers=answers,
        received=[
            each.message
            for each in client.agents.messages.list(agent_id=bob.id, limit=100)
            if each.message_type == "user_message"
        ],
        ann=ann.id,
    )


main(*sys.argv[1:])
