"""OpenAI's own client, unmodified: strict tools, names, log probabilities, models, and its classes of errors.

Arguments: base URL up to and including /v1, model.
"""

import sys

import openai
from pydantic import BaseModel
from reporting import report


class Add(BaseModel):
    """Add two numbers."""

    a: int
    b: int = 0


def main(base_url: str, model: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    messages = [{"role": "user", "name": "ann", "content": "hello"}]
    with client.chat.completions.stream(
        model=model, messages=messages, tools=[openai.pydantic_function_tool(Add)]
    ) as stream:
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    report(parsed=call.function.parsed_arguments.model_dump())
    rated = client.chat.completions.create(
        model="words", messages=messages, logprobs=True, top_logprobs=1, metadata={"a": "b"}
    )
    chunks = client.chat.completions.create(
        model="words",
        messages=messages,
        logprobs=True,
        stream=True,
        extra_body={"top_k": 3, "chat_template_kwargs": {"x": 1}},
    )
    report(
        logprobs=[entry.token for entry in rated.choices[0].logprobs.content],
        streamed=[
            e.token for c in chunks if c.choices and c.choices[0].logprobs for e in c.choices[0].logprobs.content
        ],
    )
    listed = client.models.list()
    report(models=[[each.id, each.object, each.created, each.owned_by] for each in listed])
    report(retrieved=client.models.retrieve("meta-llama/big").id)
    report(raised=[raised(act) for act in (
        lambda: client.models.retrieve("none"),
        lambda: client.chat.completions.create(model="gone", messages=messages),
        lambda: client.chat.completions.create(model="busy", messages=messages),
        lambda: client.chat.completions.create(model=model, messages=messages, n=2),
        lambda: client.fine_tuning.jobs.list(),
        lambda: client.videos.list(),
        lambda: list(client.chat.completions.create(model="breaks", messages=messages, stream=True)),
    )])  # fmt: skip


def raised(act: object) -> list[object]:
    try:
        act()
    except openai.APIError as error:
        wait = error.response.headers.get("retry-after") if isinstance(error, openai.APIStatusError) else None
        return [type(error).__name__, error.type, error.code, wait, error.message]
    return []


main(*sys.argv[1:])
