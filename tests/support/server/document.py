"""The served OpenAPI document, and validators made from it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from openapi_schema_validator import OAS31Validator, oas31_format_checker

from functions.local.server import ROUTES as SERVED
from turnstone.http.document.openapi import SIGV4, openapi_document

ROUTES = [route for route in SERVED if route.reply]
DOCUMENT = openapi_document(ROUTES)
SIGNED = openapi_document(ROUTES, SIGV4)


def closed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with objects closed to undeclared fields, unless declared open; answers are judged by it."""
    shut = copy.deepcopy(dict(document))

    def shut_objects(schema: Any) -> None:
        for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            shut_objects(inner)
        if isinstance(schema, dict) and schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)

    shut_objects(shut["components"])
    return shut


CLOSED, CLOSED_SIGNED = closed(DOCUMENT), closed(SIGNED)


def validator(schema: Mapping[str, Any], document: Mapping[str, Any] = CLOSED) -> Draft202012Validator:
    within = {**schema, "components": document["components"]}
    return OAS31Validator(within, format_checker=oas31_format_checker)


def named_validator(name: str) -> Draft202012Validator:
    return validator({"$ref": f"#/components/schemas/{name}"})
