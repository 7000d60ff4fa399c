"""OpenAI's own client, unmodified: it leaves a response that is not stored before its end.

Arguments: base URL up to and including /v1; `whole` or `streamed`.
"""

import sys

import openai
from reporting import report

PATIENCE_S = 1.5


def main(base_url: str, way: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0, timeout=PATIENCE_S)
    request = {"model": "endless", "input": "Go on.", "store": False}
    if way == "whole":
        try:
            client.responses.create(**request)
        except openai.APITimeoutError:
            report(left="without an answer")
        return
    with client.responses.create(**request, stream=True) as events:
        report(left=next(event.delta for event in events if event.type == "response.output_text.delta"))


main(*sys.argv[1:])
