"""Calls every method of the client that makes a request, once, with whatever arguments. Arguments: base URL, package.

Reports of each method, by its name in the client: its requests and the last answer.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from typing import Any

import httpx

VIEWS = ("with_raw_response", "with_streaming_response")
CLIENTS = {"llama_stack_client": "LlamaStackClient", "openai": "OpenAI"}
# arguments of the methods that can't be made up from the names of types
FILE = b"some bytes"
NEEDED: dict[str, dict[str, Any]] = {
    "images.edit": {"image": FILE},
    "responses.stream": {"input": "some text", "model": "some-name"},
    "vector_dbs.register": {"embedding_model": "offline"},
    "videos.edit": {"video": FILE},
    "videos.extend": {"video": FILE},
}


def main() -> None:
    package = sys.argv[2]
    answers: list[httpx.Response] = []

    def note(response: httpx.Response) -> None:
        response.read()
        answers.append(response)

    http_client = httpx.Client(base_url=sys.argv[1], event_hooks={"response": [note]})
    make = getattr(import_module(package), CLIENTS[package])
    keys = {"api_key": "any", "admin_api_key": "any"} if package == "openai" else {}
    client = make(base_url=sys.argv[1], max_retries=0, http_client=http_client, **keys)
    resource = import_module(f"{package}._resource").SyncAPIResource
    for name, method in sorted(methods_of(client, resource)):
        answers.clear()
        with suppress(Exception):  # the test judges the answer, not the client
            made = method(**arguments_of(method) | NEEDED.get(name, {}))
            if isinstance(made, AbstractContextManager):  # such as a stream, which is requested when it is entered
                with made:
                    pass
        requests = [{"method": a.request.method, "path": a.request.url.path, "status": a.status_code} for a in answers]
        print(json.dumps({name: {"requests": requests, "body": answers[-1].text if answers else None}}))


def methods_of(holder: Any, resource: type, before: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of every resource within, by the names that lead there."""
    for name in dir(holder):
        if name.startswith("_") or name in VIEWS:
            continue
        value = getattr(holder, name)
        if isinstance(value, resource):
            yield from methods_of(value, resource, f"{before}{name}.")
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
        return FILE
    return [] if annotation.startswith(("Iterable", "List", "SequenceNotStr")) else {}


main()
