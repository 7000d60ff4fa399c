"""Letta's own client, unmodified: a conversation longer than the window of its model, and across a killed server.

Arguments: base URL up to and including /letta, an act, and its model or agent.
"""

import sys

import httpx
from letta_client import EmbeddingConfig, Letta, LlmConfig, MessageCreate
from reporting import report

EMBEDDING = EmbeddingConfig(
    embedding_model="none", embedding_endpoint_type="openai", embedding_endpoint="http://127.0.0.1:1", embedding_dim=8
)
MOST = 60


def texts(text: str) -> list[MessageCreate]:
    return [MessageCreate(role="user", text=text)]


def fill(client: Letta, model: str) -> None:
    """Send long messages until the server is killed."""
    llm = LlmConfig(model=model, model_endpoint_type="openai", model_endpoint="http://127.0.0.1:1", context_window=6000)
    agent = client.agents.create(name="Sam", system="Be brief.", llm_config=llm, embedding_config=EMBEDDING)
    report(agent=agent.id)
    for number in range(MOST):
        try:
            client.agents.messages.send(agent_id=agent.id, messages=texts(f"{number:03}" + "q" * 400))
        except httpx.HTTPError:
            report(killed_at=number)
            return


def go_on(client: Letta, agent_id: str) -> None:
    """Send one more message, which waits for the turn that another process completes."""
    answer = client.agents.messages.send(agent_id=agent_id, messages=texts("What do I like?"))
    listed = client.agents.messages.list(agent_id=agent_id, limit=1000)
    objects = client.agents.messages.list(agent_id=agent_id, limit=1000, msg_object=True)
    alerts = [each for each in listed if each.message_type == "user_message" and "context window" in each.message]
    context = client.agents.context.get(agent_id)
    report(
        answer=[each.assistant_message for each in answer.messages if each.message_type == "assistant_message"],
        questions=[
            each.message[:3] for each in listed if each.message_type == "user_message" and "qqq" in each.message
        ],
        alerts=[each.id for each in alerts],
        roles=[each.role for each in objects if each.id in {alert.id for alert in alerts}],
        summary=context.summary_memory,
        counted=context.num_recall_memory == len({each.id for each in listed}),
    )


def main(base_url: str, act: str, text: str) -> None:
    {"fill": fill, "go_on": go_on}[act](Letta(base_url=base_url), text)


main(*sys.argv[1:])
