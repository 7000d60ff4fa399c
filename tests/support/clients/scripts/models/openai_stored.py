"""Stores chat completions and manages them with OpenAI's own client. Arguments: base URL with /v1, model."""

import sys

from openai import NotFoundError, OpenAI
from reporting import report


def main(base_url: str, model: str) -> None:
    client = OpenAI(base_url=base_url, api_key="any", max_retries=0)
    completions = client.chat.completions
    ids = []
    for number in range(3):
        question = [{"role": "user", "content": [{"type": "text", "text": f"question {number}"}]}]
        kept = completions.create(model=model, messages=question, store=True, metadata={"number": str(number)})
        ids.append(kept.id)
    report(ids=ids, listed=[entry.id for entry in completions.list(limit=2)])
    report(oldest=[entry.id for entry in completions.list(limit=1, order="asc")])
    report(with_metadata=[entry.id for entry in completions.list(metadata={"number": "1"})])
    found = completions.retrieve(ids[0])
    report(text=found.choices[0].message.content, metadata=found.metadata, total=found.usage.total_tokens)
    updated = completions.update(ids[0], metadata={"topic": "new"})
    report(updated=updated.metadata, reread=completions.retrieve(ids[0]).metadata)
    messages = list(completions.messages.list(ids[0], limit=1))
    report(messages=[[entry.id, entry.role, entry.content, entry.content_parts[0].text] for entry in messages])
    with completions.stream(
        model=model, messages=[{"role": "user", "content": "streamed"}], store=True, metadata={"how": "streamed"}
    ) as stream:
        streamed = stream.get_final_completion()
    report(streamed=completions.retrieve(streamed.id).choices[0].message.content == streamed.choices[0].message.content)
    deleted = completions.delete(ids[0])
    report(deleted=[deleted.id == ids[0], deleted.deleted, deleted.object])
    for act in (completions.retrieve, completions.delete, lambda i: list(completions.messages.list(i))):
        try:
            act(ids[0])
        except NotFoundError as error:
            report(gone=error.status_code)
    report(left=[entry.id for entry in completions.list()][1:])


main(*sys.argv[1:])
