"""The API's document and page as they are served, made at their first request."""

from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import to_json

from turnstone.domain.unserved import Unserved
from turnstone.edge.declared_routes import declared_routes
from turnstone.http.document.openapi import SCHEMES, openapi_document
from turnstone.http.document.page import api_page, content_security_policy
from turnstone.http.replies import Reply

FOR_A_PAGE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "x-frame-options": "DENY"}


class Described(NamedTuple):
    """The subject of a document.

    Attributes:
        family: package whose routes, with those of its sibling packages, are described.
        scheme: authentication of requests, None for none.
    """

    family: str
    scheme: str | None
    max_infer_iters: int


def document_reply(described: Described) -> Reply:
    """Return the document."""
    return Reply(_json(described))


def page_reply(described: Described, unserved: tuple[Unserved, ...], base: str) -> Reply:
    """Return the document as a page of HTML, with the methods that are not served at its end."""
    headers = {"content-security-policy": content_security_policy(), **FOR_A_PAGE}
    return Reply(_page(described, unserved, base), headers=headers, content_type="text/html; charset=utf-8")


@lru_cache(maxsize=3)
def _json(described: Described) -> bytes:
    return to_json(_document(described))


@lru_cache(maxsize=3)
def _page(described: Described, unserved: tuple[Unserved, ...], base: str) -> bytes:
    return api_page(_document(described), unserved, base).encode()


def _document(described: Described) -> dict[str, Any]:
    schemes = SCHEMES[described.scheme] if described.scheme else None
    return openapi_document(declared_routes(described.family), schemes, described.max_infer_iters)
