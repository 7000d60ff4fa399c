"""The line of a request in the log, written when its answer is complete or aborted.

The line names the caller and ids of the request, never contents.
"""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import Any

from starlette.requests import ClientDisconnect

from turnstone.domain.access.caller import Caller
from turnstone.http.errors import reason_of

log = logging.getLogger(__name__)
CLIENT_LEFT = 499  # the status in logs of web servers for a client that left before its answer began


class RequestLine:
    """A request's line: collected in the `with` block, from the request's first byte to its answer's last.

    Attributes:
        caller: the identified caller, None before.
        about: further fields for programs, by name: ids, and the error.
        status: status of the answer, None before it has one.
    """

    __slots__ = ("_began_s", "_method", "_route", "about", "caller", "request_id", "status")

    def __init__(self, method: str, route: str | None, request_id: str | None, about: dict[str, Any]) -> None:
        """Begin the line of a request; `route` is None for a path without a route."""
        self._method = method
        self._route = route
        self._began_s = time.perf_counter()
        self.request_id = request_id
        self.about = about
        self.caller: Caller | None = None
        self.status: int | None = None

    def __enter__(self) -> RequestLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Write the line; a client that leaves while it sends its request is not an error."""
        if problem is None:
            self._write(logging.INFO, "")
        elif isinstance(problem, ClientDisconnect):
            self.status = CLIENT_LEFT
            self._write(logging.INFO, "")
            return True
        else:
            self._write(logging.WARNING, f", the answer was aborted: {reason_of(problem)}")
        return False

    def _write(self, level: int, ending: str) -> None:
        if not log.isEnabledFor(level):
            return
        took_ms = round((time.perf_counter() - self._began_s) * 1_000, 1)
        caller = self.caller
        fields: dict[str, Any] = {"request_id": self.request_id}
        if caller is not None:
            fields["tenant"], fields["principal"] = caller.tenant, caller.principal
            if caller.key_id:
                fields["key_id"] = caller.key_id
        fields.update(self.about)
        in_message = {"method": self._method, "route": self._route, "status": self.status, "took_ms": took_ms}
        route = self._route or "(no route)"
        status = "-" if self.status is None else self.status
        extra = {"fields": fields, "in_message": in_message}
        log.log(level, "%s %s %s %.1f ms%s", self._method, route, status, took_ms, ending, extra=extra)
