"""OpenAI's own client, unmodified: responses whole and streamed, function calls, parsing, lists and deletion.

Arguments: base URL up to and including /v1.
"""

import json
import sys

import openai
from pydantic import BaseModel
from reporting import report

ADD = {
    "type": "function",
    "name": "Add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "strict": True,
}


class Place(BaseModel):
    """A place."""

    city: str


def streamed(client: openai.OpenAI, **request: object) -> object:
    """Return how a stream went, and the object that it ended with next to the one that is read."""
    numbers, kinds = [], []
    with client.responses.stream(**request) as stream:
        for event in stream:
            numbers.append(event.sequence_number)
            kinds.append(event.type)
        final = stream.get_final_response()
    read = client.responses.retrieve(final.id)
    same = {name: value for name, value in final.to_dict().items() if name != "output"}
    shown = [without_parsed(item.to_dict()) for item in final.output]
    is_same = {**same, "output": shown} == read.to_dict()
    return {"contiguous": numbers == list(range(len(numbers))), "kinds": kinds, "is_same": is_same, "id": final.id}


def without_parsed(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_parsed(each) for name, each in value.items() if not name.startswith("parsed")}
    return [without_parsed(each) for each in value] if isinstance(value, list) else value


def raised(act: object) -> list[object]:
    try:
        act()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.param, error.message]
    raise AssertionError("nothing was raised")


def main(base_url: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    first = client.responses.create(model="words", input="hello", instructions="Be kind.", metadata={"a": "b"})
    report(first=[first.output_text, first.status, first.usage.total_tokens, first.metadata, first.instructions])
    report(same=client.responses.retrieve(first.id).to_dict() == first.to_dict())
    second = client.responses.create(model="words", input="again", previous_response_id=first.id)
    report(second=[second.previous_response_id == first.id, second.output_text])

    report(text=streamed(client, model="words", input="hello"))
    report(calls=streamed(client, model="calls", input="hello", tools=[ADD]))
    report(thoughts=streamed(client, model="thinks", input="hello"))

    called = client.responses.create(model="calls", input="add", tools=[ADD])
    (call,) = called.output
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "3"}
    answered = client.responses.create(model="words", input=[output], previous_response_id=called.id, tools=[ADD])
    report(call=[call.type, call.name, json.loads(call.arguments)], answered=answered.output_text)
    alone = [{"role": "user", "content": "add"}, *[item.to_dict() for item in called.output], output]
    report(stateless=client.responses.create(model="words", input=alone, tools=[ADD]).output_text)

    parsed = client.responses.parse(model="json", input="where", text_format=Place)
    report(parsed=parsed.output_parsed.city)
    items = client.responses.input_items.list(second.id)
    report(items=[[item.type, item.content[0].text] for item in items])
    whole = [item.id for item in client.responses.input_items.list(answered.id, order="asc", limit=1)]
    report(item_ids=len(whole))

    cut = client.responses.create(model="cut", input="hello", max_output_tokens=16)
    failed = client.responses.create(model="broken", input="hello")
    report(cut=[cut.status, cut.incomplete_details.reason], failed=[failed.status, failed.error.code])

    client.responses.delete(first.id)
    report(raised=[
        raised(lambda: client.responses.retrieve(first.id)),
        raised(lambda: client.responses.create(model="words", input="x", previous_response_id=first.id)),
        raised(lambda: client.responses.create(model="words", input=[{**output, "call_id": "none"}])),
        raised(lambda: client.responses.create(model="words", input="x", tools=[{"type": "shell"}])),
        raised(lambda: client.responses.create(model="words", input="x", prompt={"id": "p"})),
        raised(lambda: client.responses.create(model="agent/none", input="x")),
        raised(lambda: client.responses.retrieve("resp_none")),
    ])  # fmt: skip
    report(kept=client.responses.retrieve(second.id).id == second.id)


main(*sys.argv[1:])
