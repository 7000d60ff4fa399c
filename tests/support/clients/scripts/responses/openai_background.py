"""OpenAI's own client, unmodified: responses in the background are begun, waited for and cancelled.

Arguments: base URL up to and including /v1; `begin MODEL`, `wait ID` or `cancel MODEL`.
"""

import sys
import time

import openai
from reporting import report


def begin(client: openai.OpenAI, model: str) -> None:
    response = client.responses.create(model=model, input="a story", background=True)
    report(id=response.id, status=response.status)


def wait(client: openai.OpenAI, response_id: str) -> None:
    response = client.responses.retrieve(response_id)
    while response.status in ("queued", "in_progress"):
        time.sleep(0.1)
        response = client.responses.retrieve(response_id)
    events = list(client.responses.retrieve(response_id, stream=True))
    numbers, kinds = [event.sequence_number for event in events], [event.type for event in events]
    report(status=response.status, text=response.output_text, numbers=numbers, kinds=kinds)


def cancel(client: openai.OpenAI, model: str) -> None:
    kinds = []
    with client.responses.create(model=model, input="a story", background=True, stream=True) as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.created":
                response_id = event.response.id
            if event.type == "response.in_progress":
                break
    cancelled = [client.responses.cancel(response_id).status for _ in range(2)]
    report(kinds=kinds, cancelled=[*cancelled, client.responses.retrieve(response_id).status])
    plain = client.responses.create(model="words-1", input="hello")
    try:
        client.responses.cancel(plain.id)
    except openai.APIStatusError as error:
        report(refused=[type(error).__name__, error.param])


def main(base_url: str, act: str, name: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    {"begin": begin, "wait": wait, "cancel": cancel}[act](client, name)


main(*sys.argv[1:])
