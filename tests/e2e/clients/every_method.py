"""Calls every method of the client that makes a request, once, with whatever arguments. Arguments: base URL.

Tells of each method, by its name in the client: the request it made and what was answered.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
from llama_stack_client import LlamaStackClient
from llama_stack_client._resource import SyncAPIResource

VIEWS = ("with_raw_response", "with_streaming_response")


def main() -> None:
    answers: list[httpx.Response] = []

    def note(response: httpx.Response) -> None:
        response.read()
        answers.append(response)

    http_client = httpx.Client(base_url=sys.argv[1], event_hooks={"response": [note]})
    client = LlamaStackClient(base_url=sys.argv[1], max_retries=0, http_client=http_client)
    for name, method in sorted(methods_of(client)):
        answers.clear()
        with suppress(Exception):  # what comes of the answer is the test's to say, not the client's
            method(**arguments_of(method))
        told = [{"method": a.request.method, "path": a.request.url.path, "status": a.status_code} for a in answers]
        print(json.dumps({name: {"requests": told, "body": answers[-1].text if answers else None}}))


def methods_of(holder: Any, before: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of every resource within, by the names that lead there."""
    for name in dir(holder):
        if name.startswith("_") or name in VIEWS:
            continue
        value = getattr(holder, name)
        if isinstance(value, SyncAPIResource):
            yield from methods_of(value, f"{before}{name}.")
        elif before and inspect.ismethod(value) and "extra_headers" in inspect.signature(value).parameters:
            yield before + name, value


def arguments_of(method: Callable[..., Any]) -> dict[str, Any]:
    """Return something for each argument that the method can't do without."""
    needed = [p for p in inspect.signature(method).parameters.values() if p.default is inspect.Parameter.empty]
    return {parameter.name: something(str(parameter.annotation)) for parameter in needed}


def something(annotation: str) -> Any:
    if annotation.startswith(("str", "Literal", "Union[str")):
        return "some-name"
    if annotation.startswith(("bool", "int", "float")):
        return 1
    if annotation.startswith("FileTypes"):
        return b"some bytes"
    return [] if annotation.startswith(("Iterable", "List", "SequenceNotStr")) else {}


main()
