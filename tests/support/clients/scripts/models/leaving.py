"""OpenAI's own client hangs up after the first word of an answer. Arguments: base URL up to and including /v1."""

import sys

from openai import OpenAI
from reporting import report

client = OpenAI(base_url=sys.argv[1], api_key="any", max_retries=0)
messages = [{"role": "user", "content": "tell a story"}]
with client.chat.completions.create(model="m", messages=messages, stream=True) as stream:
    report(first=next(chunk.choices[0].delta.content for chunk in stream if chunk.choices[0].delta.content))
