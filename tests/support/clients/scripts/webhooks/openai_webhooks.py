"""OpenAI's own client, unmodified, verifies requests to a webhook.

Arguments: the secret, another secret, and a file with the requests as JSON: of each headers and body.
"""

import json
import sys
from pathlib import Path

import openai
from reporting import report

secret, other = sys.argv[1:3]
requests = json.loads(Path(sys.argv[3]).read_text())
client = openai.OpenAI(api_key="unused", webhook_secret=secret)
stranger = openai.OpenAI(api_key="unused", webhook_secret=other)


def refused(receiver: openai.OpenAI, body: str, headers: dict[str, str]) -> bool:
    try:
        receiver.webhooks.unwrap(body, headers)
    except openai.InvalidWebhookSignatureError:
        return True
    return False


events = [client.webhooks.unwrap(request["body"], request["headers"]) for request in requests]
first = requests[0]
report(
    events=[[type(event).__name__, event.type, event.id, event.data.to_dict()] for event in events],
    refused=[
        refused(stranger, first["body"], first["headers"]),
        refused(client, first["body"] + " ", first["headers"]),
        refused(client, first["body"], {**first["headers"], "webhook-id": "evt_other"}),
        refused(client, first["body"], {**first["headers"], "webhook-timestamp": "1"}),
    ],
)
