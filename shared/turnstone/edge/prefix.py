"""Paths behind a gateway."""

from starlette.types import ASGIApp, Receive, Scope, Send

VERSION = "/v1/"


class WithoutPrefix:
    """Lets paths begin where the API's version does: a stage, or a domain's base path, may come before it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            begin = scope["path"].find(VERSION)
            while scope["path"].startswith(VERSION, begin + len(VERSION) - 1):
                begin += len(VERSION) - 1  # a stage may have the version's name
            if begin > 0:
                scope = {**scope, "path": scope["path"][begin:]}
        await self._app(scope, receive, send)
