"""Paths behind a gateway."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

# the last are the paths of September 2024, which had no version, and later the prefix alpha
BEGIN = re.compile(
    r"/(v1(alpha|beta)?|alpha)/|/(docs|openapi\.json)\Z"
    r"|/agents/(create|delete|session/(create|get|delete)|turn/(create|get)|step/get)\Z"
)


class WithoutPrefix:
    """Lets paths begin where the API's do: a stage, or a domain's base path, may come before that."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            if scope.get("aws.event", {}).get("resource") == "/":
                path = "/"
                scope = {**scope, "path": path}
            found = BEGIN.search(path)
            while found and (later := BEGIN.match(path, found.end() - 1)):
                found = later  # a stage may have the version's name
            if found and found.start() > 0:
                scope = {**scope, "path": path[found.start() :]}
        await self._app(scope, receive, send)
