"""The API's document and page as they are served, made when they are first asked for."""

from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from turnstone.edge.catalogue import declared_routes
from turnstone.http.openapi import SCHEMES, openapi_document
from turnstone.http.page import api_page
from turnstone.http.routes import Reply

# the page runs nothing and fetches nothing
CLOSED = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}


def document_reply(family: str, scheme: str | None, max_infer_iters: int) -> Reply:
    """Return the document of the routes beside this family, where requests prove by the scheme who sends them."""
    return Reply(_json(family, scheme, max_infer_iters))


def page_reply(family: str, scheme: str | None, max_infer_iters: int) -> Reply:
    """Return the document as a page of HTML."""
    return Reply(_page(family, scheme, max_infer_iters), headers=CLOSED, content_type="text/html; charset=utf-8")


@lru_cache(maxsize=3)
def _json(family: str, scheme: str | None, max_infer_iters: int) -> bytes:
    return to_json(_document(family, scheme, max_infer_iters))


@lru_cache(maxsize=3)
def _page(family: str, scheme: str | None, max_infer_iters: int) -> bytes:
    return api_page(_document(family, scheme, max_infer_iters)).encode()


def _document(family: str, scheme: str | None, max_infer_iters: int) -> dict[str, Any]:
    return openapi_document(declared_routes(family), SCHEMES[scheme] if scheme else None, max_infer_iters)
