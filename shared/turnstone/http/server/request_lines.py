"""The one line that the log has of each request, written when it has been answered, or is not answered any more.

It names who sent the request and the ids that it is about, never what it says.
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
CLIENT_LEFT = 499  # as web servers write it of a client that left before its answer began


class RequestLine:
    """A request's line, from the request's first byte to its answer's last; within the `with` block it is collected.

    Attributes:
        caller: who sent it, once that is known.
        about: what else a program may look for, by name: ids, and what went wrong.
        status: of the answer, once it has one.
    """

    __slots__ = ("_began_s", "_method", "_route", "about", "caller", "request_id", "status")

    def __init__(self, method: str, route: str | None, request_id: str | None, about: dict[str, Any]) -> None:
        """Begin the line of a request to a route, or to a path that is none."""
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
        """Write the line; a client that leaves while it sends its request is no error."""
        if problem is None:
            self._write(logging.INFO, "")
        elif isinstance(problem, ClientDisconnect):
            self.status = CLIENT_LEFT
            self._write(logging.INFO, "")
            return True
        else:
            self._write(logging.WARNING, f", an answer broke off: {reason_of(problem)}")
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
        told = {"method": self._method, "route": self._route, "status": self.status, "took_ms": took_ms}
        route = self._route or "(no route)"
        status = "-" if self.status is None else self.status
        extra = {"fields": fields, "in_message": told}
        log.log(level, "%s %s %s %.1f ms%s", self._method, route, status, took_ms, ending, extra=extra)
