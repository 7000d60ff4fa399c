"""OpenAI's own client, unmodified: deleted items of a conversation, and a deleted response in a chain.

Arguments: base URL up to and including /v1.
"""

import sys

import openai
from reporting import report

ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}


def raised(act: object) -> str:
    try:
        act()
    except openai.APIStatusError as error:
        return type(error).__name__
    raise AssertionError("nothing was raised")


def texts(client: openai.OpenAI, conversation: str) -> list[str]:
    items = client.conversations.items.list(conversation, order="asc")
    return [item.content[0].text if item.type == "message" else item.type for item in items]


def items(client: openai.OpenAI) -> None:
    conversation = client.conversations.create().id
    where = {"model": "shows", "conversation": conversation, "tools": [ADD]}
    client.responses.create(input="hello", **where)
    (call,) = client.responses.create(input="call", **where).output
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "sum"}
    client.responses.create(input=[output], **where)
    report(before=texts(client, conversation))
    listed = list(client.conversations.items.list(conversation, order="asc"))
    for item in listed[1:4:2]:  # the first answer, and the call
        client.conversations.items.delete(item.id, conversation_id=conversation)
        assert raised(lambda item=item: client.conversations.items.retrieve(item.id, conversation_id=conversation))
    report(after=texts(client, conversation))
    report(seen=client.responses.create(input="and?", **where).output_text)


def chain(client: openai.OpenAI) -> None:
    first = client.responses.create(model="shows", input="one")
    second = client.responses.create(model="shows", input="two", previous_response_id=first.id)
    third = client.responses.create(model="shows", input="three", previous_response_id=second.id)
    client.responses.delete(second.id)
    acts = (
        lambda: client.responses.retrieve(second.id),
        lambda: client.responses.input_items.list(second.id),
        lambda: client.responses.delete(second.id),
        lambda: client.responses.create(model="shows", input="x", previous_response_id=second.id),
    )
    report(missing=[raised(act) for act in acts])
    listed = [each["id"] for each in client.get("/responses?limit=100", cast_to=object)["data"]]
    report(listed=[each.id in listed for each in (first, second, third)])
    for name, previous in (("child", third), ("parent", first)):
        continued = client.responses.create(model="shows", input="four", previous_response_id=previous.id)
        report(**{name: continued.output_text})


def main(base_url: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    items(client)
    chain(client)


main(*sys.argv[1:])
