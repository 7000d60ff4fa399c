"""Letta's own client, unmodified: messages are edited, and the next turn has them.

Arguments: base URL up to and including /letta.
"""

import sys

from letta_client import EmbeddingConfig, Letta, LlmConfig, MessageCreate
from letta_client.core.api_error import ApiError
from reporting import report

LLM = LlmConfig(
    model="words", model_endpoint_type="openai", model_endpoint="http://127.0.0.1:1/v1", context_window=8192
)
EMBEDDING = EmbeddingConfig(
    embedding_model="none", embedding_endpoint_type="openai", embedding_endpoint="http://127.0.0.1:1", embedding_dim=8
)


def refused(client: Letta, agent_id: str, message_id: str, **fields: object) -> int:
    try:
        client.agents.messages.update(agent_id=agent_id, message_id=message_id, **fields)
    except ApiError as error:
        return int(error.status_code or 0)
    raise AssertionError("nothing was refused")


def main(base_url: str) -> None:
    client = Letta(base_url=base_url)
    messages = client.agents.messages
    agent_id = client.agents.create(name="Sam", llm_config=LLM, embedding_config=EMBEDDING).id
    messages.send(agent_id=agent_id, messages=[MessageCreate(role="user", text="hi")])
    user, thoughts, called, returned = messages.list(agent_id=agent_id, limit=3)
    edited = messages.update(agent_id=agent_id, message_id=user.id, text="edited input")
    result = messages.update(agent_id=agent_id, message_id=returned.id, text="edited result")
    report(
        edited=[edited.id == user.id, edited.role, edited.text, edited.agent_id == agent_id, edited.step_id],
        result=[result.role, result.text, result.name, result.tool_call_id == returned.tool_call_id],
        refused=[
            refused(client, agent_id, "message-0", text="x"),
            refused(client, agent_id, user.id, tool_call_id="x"),
        ],
        same=thoughts.id == called.id,
    )
    messages.send(agent_id=agent_id, messages=[MessageCreate(role="user", text="again")])
    report(listed=[each.message for each in messages.list(agent_id=agent_id, limit=6) if hasattr(each, "message")])


main(*sys.argv[1:])
