"""The root of the API: the server's name, its description and links."""

from html import escape

from pydantic_core import to_json

from turnstone.http.replies import Reply
from turnstone.http.request import Request

NAME = "Turnstone"
DESCRIPTION = "A home for AI agents, which speaks the Llama Stack Agents API and OpenAI's chat completions."
LINKS = {"docs": "/docs", "openapi": "/openapi.json", "health": "/v1/health"}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body>
<h1>{name}</h1><p>{description}</p>
<ul><li><a href="{docs}">The API, to read and to try</a></li>
<li><a href="{openapi}">The API as an OpenAPI document</a></li>
<li><a href="{health}">Whether the server answers</a></li></ul>
</body></html>
"""
CLOSED = {"content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}


def front_reply(request: Request) -> Reply:
    """Return the root as HTML if `Accept` lists HTML before JSON, as browsers do, else as JSON."""
    links = {name: request.base + path for name, path in LINKS.items()}
    if not _prefers_html(request.headers.get("accept", "")):
        body = to_json({"name": NAME, "description": DESCRIPTION, **links})
        return Reply(body, headers={"vary": "accept"})
    page = PAGE.format(name=NAME, description=DESCRIPTION, **{name: escape(path) for name, path in links.items()})
    return Reply(page.encode(), headers={**CLOSED, "vary": "accept"}, content_type="text/html; charset=utf-8")


def _prefers_html(accept: str) -> bool:
    kinds = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    served = (each for each in kinds if each in ("text/html", "application/json"))
    return next(served, None) == "text/html"
