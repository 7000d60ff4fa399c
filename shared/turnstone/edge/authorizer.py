"""The API's authorizer: returns the caller of a token to the gateway, which passes it to the functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnstone.domain.errors import Unauthenticated
from turnstone.edge.cold_start import for_good, undisturbed
from turnstone.settings.config import chosen_log_level, is_function

if TYPE_CHECKING:
    from turnstone.domain.access.caller import Caller

    Identify = Callable[[str | None], Caller]

Event = dict[str, Any]


class Authorizer:
    """A function that API Gateway calls to authorize a request before it forwards the request."""

    def __init__(self, module: str) -> None:
        self._identify: Identify | None = None
        if is_function(module):
            with for_good():
                self._identify = _loaded()

    def __call__(self, event: Event, _: Any) -> dict[str, Any]:
        """Return the caller, with a policy that allows the API.

        Raises:
            Exception: The token names no caller; the text makes the gateway answer 401.
            StoreUnavailable, IssuerUnavailable: The caller can't be identified now; the gateway answers 503, as
                configured in the template, and the function's log has the reason.
        """
        from turnstone.http.server.hosting import context_of

        if self._identify is None:
            self._identify = _loaded()
        try:
            caller = self._identify(_authorization(event))
        except Unauthenticated:
            # Source: API Gateway's Lambda authorizers; any other text is a failure of the authorizer
            raise Exception("Unauthorized") from None
        return {
            "principalId": caller.principal,
            "policyDocument": {
                "Version": "2012-10-17",
                "Statement": [
                    {"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": _whole_stage(event["methodArn"])}
                ],
            },
            "context": context_of(caller),
        }


def _authorization(event: Event) -> str | None:
    """Return the only `Authorization` header, None if there is none or several."""
    several, single = event.get("multiValueHeaders"), event.get("headers")
    sent: list[Any] = []
    if isinstance(several, dict):
        lists = [values for name, values in several.items() if name.lower() == "authorization"]
        sent = [value for values in lists for value in (values if isinstance(values, list) else [None])]
    elif isinstance(single, dict):
        sent = [value for name, value in single.items() if name.lower() == "authorization"]
    return sent[0] if len(sent) == 1 and isinstance(sent[0], str) else None


def _whole_stage(method_arn: str) -> str:
    """Return the ARN of all methods of the stage: the gateway caches the answer and uses it for other methods, too."""
    api, stage, *_ = method_arn.split("/")
    return f"{api}/{stage}/*"


def _loaded() -> Identify:
    with undisturbed():
        from turnstone.bootstrap.callers import build_authorizer
        from turnstone.edge.logs import begin_logging
        from turnstone.http.server import hosting  # noqa: F401 - loaded before the first request

        identify = build_authorizer().identify
        begin_logging(chosen_log_level())
        return identify
