"""OpenAI's own client, unmodified: responses that are not stored.

Arguments: base URL up to and including /v1, a word.
"""

import sys

import openai
from reporting import report


def raised(act: object) -> list[object]:
    try:
        act()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.param]
    raise AssertionError("nothing was raised")


def main(base_url: str, word: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    request = {"model": "repeats", "instructions": f"Never tell {word}.", "metadata": {"word": word}, "store": False}
    whole = client.responses.create(input=f"Is it {word}?", **request)
    with client.responses.stream(input=f"Is it {word}?", **request) as stream:
        numbers = [event.sequence_number for event in stream]
        final = stream.get_final_response()
    report(whole=[whole.output_text, whole.store], streamed=[final.output_text, numbers])
    missing = [raised(lambda act=act: act(whole.id)) for act in (client.responses.retrieve, client.responses.delete)]
    missing.append(raised(lambda: client.responses.create(model="repeats", input="on", previous_response_id=whole.id)))
    report(missing=missing)
    stored = client.responses.create(model="repeats", input="earlier")
    after = client.responses.create(input=f"Is it {word}?", previous_response_id=stored.id, **request)
    report(after=after.output_text)
    conversation = client.conversations.create()
    refused = [{"conversation": conversation.id}, {"background": True}]
    report(
        refused=[
            raised(lambda more=more: client.responses.create(input="hello", **request, **more)) for more in refused
        ]
    )
    listed = client.get("/responses?limit=100", cast_to=object)
    report(listed=[each["id"] == stored.id for each in listed["data"]])


main(*sys.argv[1:])
