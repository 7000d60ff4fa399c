"""OpenAI's own client, unmodified. Arguments: base URL up to and including /v1, model, mode.

With the mode `leave` it hangs up after the first word.
"""

import sys

from openai import BadRequestError, OpenAI
from told import tell


def main(base_url: str, model: str, mode: str) -> None:
    client = OpenAI(base_url=base_url, api_key="any", max_retries=0)
    said = [{"role": "user", "content": "please add(a=1)"}]
    if mode == "leave":
        with client.chat.completions.create(model=model, messages=said, stream=True) as stream:
            first = next(chunk.choices[0].delta.content for chunk in stream if chunk.choices[0].delta.content)
        tell(first=first)
        return
    whole = client.chat.completions.create(model=model, messages=said)
    tell(whole=whole.choices[0].message.content, total=whole.usage.total_tokens, object=whole.object)
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model=model, messages=said, stream=True, stream_options=options))
    told = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    tell(streamed="".join(told), last=[chunks[-1].choices, chunks[-1].usage.total_tokens])
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
    with client.chat.completions.stream(model=model, messages=said, tools=[tool]) as stream:
        message = stream.get_final_completion().choices[0].message
    tell(called=[call.function.name for call in message.tool_calls or ()])
    embedded = client.embeddings.create(model=model, input=["one", "three"])  # which it asks for in base64
    tell(vectors=[entry.embedding for entry in embedded.data])
    try:
        client.chat.completions.create(model=model, messages=said, n=2)
    except BadRequestError as error:
        tell(refused=[error.status_code, error.param, error.type, error.body["message"]])


main(*sys.argv[1:])
