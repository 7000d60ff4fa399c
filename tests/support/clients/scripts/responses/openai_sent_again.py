"""OpenAI's own client, unmodified: it loses the answer to its first request, and sends it again.

Arguments: base URL up to and including /v1, the model, the client's timeout in seconds.
"""

import sys

import openai
from reporting import report


def main(base_url: str, model: str, timeout_s: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", timeout=float(timeout_s), max_retries=5)
    whole = client.responses.create(model=model, input="whole")
    report(whole=[whole.output_text, client.responses.retrieve(whole.id).output_text])
    patient = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    ids = {patient.responses.create(model="instant", input="equal").id for _ in range(2)}
    report(equal=len(ids), listed=len(list(patient.get("/responses", cast_to=object)["data"])))


main(*sys.argv[1:])
