"""Has models continue texts, through OpenAI's route and Llama Stack's own. Arguments: base URL, model."""

import sys
import warnings
from typing import Any

from llama_stack_client import APIStatusError, LlamaStackClient
from reporting import report


def main(base_url: str, model: str) -> None:
    warnings.simplefilter("ignore")  # later versions of the client deprecate a method that they still have
    client = LlamaStackClient(base_url=base_url, max_retries=0)
    complete_as_openai(client, model)
    if hasattr(client, "inference") and hasattr(client.inference, "completion"):
        complete_as_llama_stack(client, model)


def complete_as_openai(client: LlamaStackClient, model: str) -> None:
    whole = client.completions.create(model=model, prompt="Once upon", max_tokens=50)
    report(whole=whole.choices[0].text, finish=whole.choices[0].finish_reason, object=whole.object)
    chunks = list(client.completions.create(model=model, prompt="Once upon", stream=True))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    report(streamed="".join(choice.text for choice in choices), end=choices[-1].finish_reason)
    several = client.completions.create(model=model, prompt=["One", "Two"], echo=True).choices
    report(several=[[choice.index, choice.text[:3]] for choice in several])
    try:
        client.completions.create(model=model, prompt=[1, 2, 3])
    except APIStatusError as error:
        report(tokens=[error.status_code, error.body["error"]["param"]])


def complete_as_llama_stack(client: LlamaStackClient, model: str) -> None:
    arguments: dict[str, Any] = {"model_id": model, "content": "Once upon", "sampling_params": {"max_tokens": 50}}
    answer = client.inference.completion(**arguments)
    metrics = sorted(metric.metric for metric in answer.metrics or ())
    report(inferred=answer.content, stop_reason=answer.stop_reason, metrics=metrics)
    chunks: list[Any] = list(client.inference.completion(**arguments, stream=True))
    report(inferred_chunks="".join(chunk.delta for chunk in chunks), last_reason=chunks[-1].stop_reason)
    report(inferred_contents="".join(chunk.content for chunk in chunks))


main(*sys.argv[1:])
