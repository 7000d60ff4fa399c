"""The API's document and page as they are served, made when they are first asked for."""

from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from turnstone.edge.catalogue import declared_routes
from turnstone.http.openapi import SIGV4, openapi_document
from turnstone.http.page import api_page
from turnstone.http.routes import Reply

# the page runs nothing and fetches nothing
CLOSED = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}


def document_reply(family: str, *, is_open: bool) -> Reply:
    """Return the document of the routes beside this family; `is_open` tells that requests need no credentials."""
    return Reply(_json(family, is_open))


def page_reply(family: str, *, is_open: bool) -> Reply:
    """Return the document as a page of HTML."""
    return Reply(_page(family, is_open), headers=CLOSED, content_type="text/html; charset=utf-8")


@lru_cache(maxsize=2)
def _json(family: str, is_open: bool) -> bytes:
    return to_json(_document(family, is_open))


@lru_cache(maxsize=2)
def _page(family: str, is_open: bool) -> bytes:
    return api_page(_document(family, is_open)).encode()


def _document(family: str, is_open: bool) -> dict[str, Any]:
    return openapi_document(declared_routes(family), None if is_open else SIGV4)
