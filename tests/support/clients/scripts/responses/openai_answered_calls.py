"""OpenAI's own client, unmodified: function calls answered in each way, over several rounds, and cut off.

Arguments: base URL up to and including /v1.
"""

import json
import sys

import openai
from reporting import report

PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}}
ADD, SEE, OTHER = ({"type": "function", "name": name, "parameters": PARAMETERS} for name in ("add", "see", "other"))


def output_of(call: object, text: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}


def rounds(client: openai.OpenAI) -> list[object]:
    """Return the arguments of each round as they were streamed, and the last text."""
    given, more, seen = "begin", {}, []
    while True:
        streamed: dict[str, str] = {}
        with client.responses.stream(model="fragments", input=given, tools=[ADD, SEE], **more) as stream:
            for event in stream:
                if event.type == "response.function_call_arguments.delta":
                    streamed[event.item_id] = streamed.get(event.item_id, "") + event.delta
            final = stream.get_final_response()
        read = client.responses.retrieve(final.id)
        calls = [item for item in read.output if item.type == "function_call"]
        if not calls:
            return [seen, read.output_text]
        assert [streamed[call.id] for call in calls] == [call.arguments for call in calls]
        seen.append([json.loads(call.arguments)["text"] for call in calls])
        given, more = [output_of(call, call.name) for call in calls], {"previous_response_id": read.id}


def main(base_url: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    called = client.responses.create(model="calls", input="begin", tools=[ADD, SEE])
    first, second = called.output
    one, two = output_of(first, "one"), output_of(second, "two")
    user = {"role": "user", "content": "and?"}
    ways = {
        "both": [one, two],
        "again": [one, two],
        "reversed": [two, one],
        "part": [two],
        "none": [user],
        "with a message": [one, two, user],
    }
    for way, given in ways.items():
        continued = {"previous_response_id": called.id, "tools": [OTHER] if way == "again" else [ADD, SEE]}
        answered = client.responses.create(model="calls", input=given, **continued)
        report(**{way: answered.output_text})
    report(rounds=rounds(client))
    for model in ("cut text", "cut call", "cut reasoning"):
        cut = client.responses.create(model=model, input="begin", max_output_tokens=16, tools=[ADD])
        with client.responses.stream(model=model, input="begin", max_output_tokens=16, tools=[ADD]) as stream:
            last = [event.type for event in stream][-1]
        kinds = [[item.type, item.status] for item in cut.output]
        report(**{model: [cut.status, cut.incomplete_details.reason, last, kinds]})


main(*sys.argv[1:])
