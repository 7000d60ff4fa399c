"""Has models continue texts with OpenAI's own client. Arguments: base URL up to and including /v1, model, mode.

With the mode `leave` it hangs up after the first word.
"""

import sys

from openai import BadRequestError, OpenAI
from reporting import report


def main(base_url: str, model: str, mode: str) -> None:
    client = OpenAI(base_url=base_url, api_key="any", max_retries=0)
    if mode == "leave":
        with client.completions.create(model=model, prompt="Once upon", stream=True) as stream:
            first = next(chunk.choices[0].text for chunk in stream if chunk.choices[0].text)
        report(first=first)
        return
    whole = client.completions.create(model=model, prompt="Once upon")
    report(whole=whole.choices[0].text, total=whole.usage.total_tokens, object=whole.object)
    options = {"include_usage": True}
    chunks = list(client.completions.create(model=model, prompt=["One", "Two"], stream=True, stream_options=options))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    texts = ["".join(choice.text for choice in choices if choice.index == index) for index in (0, 1)]
    report(streamed=texts, ends=[choice.finish_reason for choice in choices if choice.finish_reason])
    report(last=[chunks[-1].choices, chunks[-1].usage.total_tokens])
    refused = {"n": 2, "best_of": 2, "logprobs": 1, "prompt": [1, 2]}
    for name, value in refused.items():
        try:
            client.completions.create(**{"model": model, "prompt": "Once upon", name: value})
        except BadRequestError as error:
            refused[name] = [error.status_code, error.param]
    report(refused=refused)


main(*sys.argv[1:])
