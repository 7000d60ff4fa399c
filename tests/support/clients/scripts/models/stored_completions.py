"""Stores chat completions and reads them again, with a client of Llama Stack. Arguments: base URL, model."""

import sys
from typing import Any

from llama_stack_client import LlamaStackClient, NotFoundError
from reporting import report


def main(base_url: str, model: str) -> None:
    client = LlamaStackClient(base_url=base_url, max_retries=0)
    ids = [stored(client, model, f"question {number}") for number in range(3)]
    client.chat.completions.create(model=model, messages=[{"role": "user", "content": "kept nowhere"}])
    report(ids=ids, listed=[entry.id for entry in every(client.chat.completions.list(limit=2))])
    report(oldest=[entry.id for entry in every(client.chat.completions.list(order="asc"))])
    report(of_another_model=[entry.id for entry in every(client.chat.completions.list(model="another"))])
    found = client.chat.completions.retrieve(ids[1])
    report(text=found.choices[0].message.content, model=found.model, object=found.object)
    report(asked=[[message.role, message.content] for message in found.input_messages])
    try:
        client.chat.completions.retrieve("chatcmpl-00000000-0000-7000-8000-000000000000")
    except NotFoundError as error:
        report(missing=error.status_code)


def stored(client: LlamaStackClient, model: str, question: str) -> str:
    messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
    if question.endswith("1"):
        chunks = client.chat.completions.create(
            model=model, messages=messages, stream=True, extra_body={"store": True, "metadata": {"topic": "one"}}
        )
        return [chunk.id for chunk in chunks][-1]
    answer: Any = client.chat.completions.create(model=model, messages=messages, extra_body={"store": True})
    return str(answer.id)


def every(page: Any) -> list[Any]:
    """Return all entries: the newer clients page by themselves, 0.2.12 returns the page as it is."""
    if not hasattr(page, "iter_pages"):
        return list(page.data)
    return list(page)


main(*sys.argv[1:])
