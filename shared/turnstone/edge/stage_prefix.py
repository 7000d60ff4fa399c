"""Removal of a gateway's prefix from the paths of requests."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

# the last alternative is the paths of September 2024, without a version, later with the prefix alpha
BEGIN = re.compile(
    r"/(v1(alpha|beta)?|alpha)/|/(docs|openapi\.json)\Z"
    r"|/agents/(create|delete|session/(create|get|delete)|turn/(create|get)|step/get)\Z"
)


class WithoutPrefix:
    """An app behind a gateway: removes a stage or a domain's base path in front of the API's paths."""

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
