"""Routes as a Lambda function for API Gateway's events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnstone.edge.cold_start import for_good, undisturbed
from turnstone.settings.config import LambdaSettings, is_function, load_settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from turnstone.http.route import Route
    from turnstone.http.server.hosting import Hosting

Respond = Callable[[dict[str, Any], Any], dict[str, Any]]
MOST_ANSWER_BYTES = 6 * 1024 * 1024 - 10_000
LONGEST_CHARACTER = 4  # bytes of UTF-8; JSON's escapes have fewer, because a body is JSON already
TOO_LARGE = (
    "this answer is larger than the 6 MB that a function can return at once; "
    "read the turn as a part of its session, which is streamed: GET …/session/{session_id}?turn_ids={turn_id}"
)


class LambdaHandler:
    """A function that serves some routes, loaded before the first event if its module is the Lambda's."""

    def __init__(self, module: str, *routes: Route, loads: str | tuple[str, ...] = ()) -> None:
        """Take the module's name, its routes, and the names of the services of `UseCases` that they need."""
        self._routes = routes
        self._loads = loads
        self._respond: Respond | None = None
        if is_function(module):
            with for_good():
                self._respond = self._loaded()

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return the answer to an event of a REST API's proxy integration."""
        if self._respond is None:
            self._respond = self._loaded()
        return self._within_limit(self._respond(_with_identity(event), context), event)

    def app(self, hosting: Hosting) -> ASGIApp:
        """Return the routes as an ASGI app over AWS, with all of their dependencies loaded."""
        with undisturbed():
            from turnstone.bootstrap.places.aws import build_lambda_core
            from turnstone.edge.logs import begin_logging
            from turnstone.edge.stage_prefix import WithoutPrefix
            from turnstone.http.server.app import build_app

            settings = load_settings(LambdaSettings)
            begin_logging(settings.log_level)
            core = build_lambda_core(settings)
            services = {self._loads} if isinstance(self._loads, str) else set(self._loads)
            for service in sorted(services):
                core.load_service(service, for_changes=any(route.method != "GET" for route in self._routes))
            # `http.app` leaves these to the first answer
            if services & {"turns", "events"}:
                import turnstone.http.streams.sse
                import turnstone.http.streams.turn_answers
            if "inferring" in services:
                import turnstone.http.streams.model_answers  # noqa: F401
            return WithoutPrefix(build_app(self._routes, core, settings.max_body_bytes, hosting))

    def _within_limit(self, answer: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
        """Return the answer, or a 500 with the reason if it is too large: Lambda's own error would have no text."""
        if len(answer["body"]) * LONGEST_CHARACTER <= MOST_ANSWER_BYTES:
            return answer
        # as the runtime writes it: characters without escapes
        if len(json.dumps(answer, ensure_ascii=False).encode()) <= MOST_ANSWER_BYTES:
            return answer
        path = str(event.get("path"))
        # the longest match, because a stage may precede the path, and some paths end with others
        matching = max(self._routes, key=lambda route: max(len(each) * path.endswith(each) for each in route.paths))
        from turnstone.domain.errors.codes import ErrorCode  # hardly ever

        headers = {"content-type": "application/json", "x-should-retry": "false"}
        body = matching.dialect.envelope.refusal(500, TOO_LARGE, ErrorCode.ANSWER_TOO_LARGE).decode()
        return {"statusCode": 500, "headers": headers, "multiValueHeaders": {}, "body": body, "isBase64Encoded": False}

    def _loaded(self) -> Respond:
        with undisturbed():
            from mangum import Mangum

            from turnstone.http.server.hosting import BehindGateway

            scheme = load_settings(LambdaSettings).auth_scheme
            # Mangum's type requires a coroutine where ASGI's is an awaitable
            app: Any = self.app(BehindGateway(scheme))
            return Mangum(app, lifespan="off")


def _with_identity(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event with an identity, empty if it has none: Mangum fails without one before the app can refuse."""
    sent = event.get("requestContext")
    context = sent if isinstance(sent, dict) else {}
    identity = context.get("identity")
    completed = {**context, "identity": identity if isinstance(identity, dict) else {}}
    return {**event, "requestContext": completed}
