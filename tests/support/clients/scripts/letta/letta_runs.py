"""Letta's own client, unmodified: runs in the background, also one whose process is killed.

Arguments: base URL up to and including /letta, an act, and its model or id.
"""

import sys
import time

from letta_client import EmbeddingConfig, Letta, LlmConfig, MessageCreate
from letta_client.core.api_error import ApiError
from reporting import report

EMBEDDING = EmbeddingConfig(
    embedding_model="none", embedding_endpoint_type="openai", embedding_endpoint="http://127.0.0.1:1", embedding_dim=8
)


def begin(client: Letta, model: str) -> str:
    llm = LlmConfig(model=model, model_endpoint_type="openai", model_endpoint="http://127.0.0.1:1", context_window=8192)
    agent = client.agents.create(name="Sam", llm_config=llm, embedding_config=EMBEDDING)
    run = client.agents.messages.send_async(agent_id=agent.id, messages=[MessageCreate(role="user", text="hi")])
    report(id=run.id, status=run.status, metadata=run.metadata, agent=agent.id)
    report(
        active=[each.id for each in client.runs.list_active_runs()],
        listed=[each.id for each in client.runs.list_runs()],
    )
    return str(run.id)


def cancel(client: Letta, model: str) -> None:
    delete(client, begin(client, model))


def wait(client: Letta, run_id: str) -> None:
    while (run := client.runs.get_run(run_id)).status in ("created", "running"):
        time.sleep(0.05)
    messages = client.runs.get_run_messages(run_id)
    report(
        status=run.status,
        result=[each["message_type"] for each in run.metadata["result"]["messages"]],
        messages=[each.message_type for each in messages],
        of_user=[each.message for each in client.runs.get_run_messages(run_id, role="user")],
        rest=[each.message_type for each in client.runs.get_run_messages(run_id, cursor=messages[0].id, limit=1)],
        usage=client.runs.get_run_usage(run_id).total_tokens,
        steps=run.metadata["result"]["usage"]["step_count"],
        active=[each.id for each in client.runs.list_active_runs()],
    )
    delete(client, run_id)


def delete(client: Letta, run_id: str) -> None:
    deleted = client.runs.delete_run(run_id)
    report(deleted=[deleted.id, deleted.status], left=[each.id for each in client.runs.list_runs()])
    try:
        client.runs.get_run(run_id)
    except ApiError as error:
        report(gone=[error.status_code, error.body["code"]])


def main(base_url: str, act: str, text: str) -> None:
    {"begin": begin, "wait": wait, "cancel": cancel}[act](Letta(base_url=base_url), text)


main(*sys.argv[1:])
