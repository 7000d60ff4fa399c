"""The functions of the expanded template, started in this process under exactly the variables that it gives them."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from tests.integration.rights.cloud import CREDENTIALS, Cloud
from tests.integration.rights.policies import physical
from tests.support.aws.aws_events import Context, load_event
from tests.support.aws.cloudformation import Template, variables
from tests.support.clients.forms import FORM_TYPE
from turnstone.edge.gateway import LambdaHandler

INTEGRATED = re.compile(r"functions/\$\{(\w+)\.Arn\}/")


class Functions:
    """The functions of a template over one account; each is started once, when it is first used."""

    def __init__(self, made: Template, cloud: Cloud) -> None:
        self._made = made
        self._cloud = cloud
        self._started: dict[str, Any] = {}
        self._routes = dict(_routes(made))

    def invoke(self, name: str, event: dict[str, Any], context: Context | None = None) -> Any:
        """Return the function's result for the event; its calls of AWS are noted as its own."""
        with self._cloud.running(name), environment_of(self._made, name):
            if name not in self._started:
                self._started[name] = started(self._made, name)
            return self._started[name](event, context or Context())

    def answer(
        self, method: str, path: str, body: Any = None, context: Context | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Return status and body of the answer to a request, from the function that serves it."""
        answer = self.invoke(self.function_of(method, path), event_of(method, path, body, headers), context)
        text = answer["body"]
        is_json = text and answer["headers"].get("content-type") == "application/json"
        return answer["statusCode"], json.loads(text) if is_json else text

    def function_of(self, method: str, path: str) -> str:
        """Return the function that serves such a request."""
        bare = path.partition("?")[0]
        fitting = [resource for (verb, resource) in self._routes if verb == method and _takes(resource, bare)]
        # the gateway prefers literal path parts to variable ones, from the left
        chosen = min(fitting, key=lambda resource: ["{" in part for part in resource.split("/")])
        return self._routes[method, chosen]


@contextmanager
def environment_of(made: Template, name: str) -> Iterator[None]:
    """Set the environment of the function within the block, and no other variable of ours."""
    given = {key: physical(value) for key, value in variables(made.functions[name]).items()}
    with pytest.MonkeyPatch.context() as patch:
        for key in [key for key in os.environ if key.startswith(("TURNSTONE_", "AWS_"))]:
            patch.delenv(key)
        for key, value in {**CREDENTIALS, **given}.items():
            patch.setenv(key, value)
        yield


def started(made: Template, name: str) -> Any:
    """Return a new handler of the function, loaded as it is before its first event."""
    handler = made.functions[name]["Handler"]
    module = handler.removesuffix(".handler")
    if handler == "stream.sh":
        module = variables(made.functions[name])["TURNSTONE_ROUTE_MODULE"]
    kept = import_module(f"functions.{module}").handler
    if isinstance(kept, LambdaHandler):
        new = LambdaHandler("another module", *kept.routes, loads=kept._loads, others=kept._others)
        new._loaded = new._load()
        return new
    new = type(kept)("another module")
    if hasattr(new, "core"):
        _ = new.core
    return new


def _routes(made: Template) -> Iterator[tuple[tuple[str, str], str]]:
    for path, methods in made.body["paths"].items():
        for method, operation in methods.items():
            uri = operation["x-amazon-apigateway-integration"]["uri"]
            found = INTEGRATED.search(uri["Fn::Sub"])
            assert found is not None, f"{method} {path} leads to no function"
            yield (method.upper(), path), found[1]


def _takes(resource: str, path: str) -> bool:
    pattern = re.sub(r"\{\w+\}", "[^/]+", re.sub(r"\{\w+\+\}", ".+", resource))
    return re.fullmatch(pattern, path) is not None


def event_of(method: str, path: str, body: Any, headers: Mapping[str, str]) -> dict[str, Any]:
    event = load_event("create_turn")
    bare, _, query = path.partition("?")
    query_fields = dict(part.split("=", 1) for part in query.split("&") if part)
    is_form = isinstance(body, bytes)
    of_form = {"Content-Type": FORM_TYPE} if is_form else {}
    sent = {**event["headers"], **of_form, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        **event,
        "httpMethod": method,
        "path": bare,
        "headers": sent,
        "multiValueHeaders": {name: [value] for name, value in sent.items()},
        "queryStringParameters": query_fields or None,
        "multiValueQueryStringParameters": {name: [value] for name, value in query_fields.items()} or None,
        "body": None if body is None else b64encode(body).decode() if is_form else json.dumps(body),
        "isBase64Encoded": is_form,
        "requestContext": {**event["requestContext"], "httpMethod": method, "path": f"/live{bare}"},
    }
