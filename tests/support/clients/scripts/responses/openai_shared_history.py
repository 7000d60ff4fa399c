"""A session whose turns the Agents API and responses take in turns: this script takes those of responses.

Arguments: base URL up to and including /v1; `answer` to answer the calls of a paused turn first, or `respond`; the ids
of agent and session.
"""

import sys

import openai
from reporting import report


def main(base_url: str, act: str, agent_id: str, session_id: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    conversation = client.conversations.create(extra_body={"agent": agent_id, "session": session_id})
    where = {"model": f"agent/{agent_id}", "conversation": conversation.id}
    if act == "answer":
        answer_calls(client, where)
    report(next=client.responses.create(input="by a response", **where).output_text)
    report(items=[item.type for item in client.conversations.items.list(conversation.id, order="asc")])


def answer_calls(client: openai.OpenAI, where: dict[str, str]) -> None:
    waiting = list(client.conversations.items.list(where["conversation"], order="asc"))
    report(waiting=[item.type for item in waiting])
    try:
        client.responses.create(input=[output_of("call_of_nobody")], **where)
    except openai.BadRequestError as error:
        report(refused=error.param)
    answered = client.responses.create(input=[output_of(waiting[-1].call_id)], **where)
    report(answered=answered.output_text)


def output_of(call_id: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call_id, "output": "a tree"}


main(*sys.argv[1:])
