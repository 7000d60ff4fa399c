"""Routes as a Lambda function for API Gateway's events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from turnstone.edge.cold_start import for_good, undisturbed
from turnstone.http.family_routes import FamilyRoutes
from turnstone.settings.config import LambdaSettings, is_function, load_settings

if TYPE_CHECKING:
    from turnstone.edge.stage_prefix import WithoutPrefix
    from turnstone.http.route import Route
    from turnstone.http.server.hosting import Hosting
    from turnstone.http.server.other_paths import OtherPath

Respond = Callable[[dict[str, Any], Any], dict[str, Any]]
OF_ORIGIN = ("access-control-allow-origin", "access-control-expose-headers", "vary")
MOST_ANSWER_BYTES = 6 * 1024 * 1024 - 10_000
LONGEST_CHARACTER = 4  # bytes of UTF-8; JSON's escapes have fewer, because a body is JSON already
TOO_LARGE = (
    "this answer is larger than the 6 MB that a function can return at once; "
    "read the turn as a part of its session, which is streamed: GET …/session/{session_id}?turn_ids={turn_id}"
)


class LambdaHandler:
    """A function that serves some routes, loaded before the first event if its module is the Lambda's."""

    def __init__(
        self,
        module: str,
        *routes: Route,
        family: FamilyRoutes | None = None,
        loads: str | tuple[str, ...] = (),
        others: tuple[OtherPath, ...] = (),
    ) -> None:
        """Take the module's name, its routes, and the names of the services of `UseCases` that they need.

        Args:
            family: the routes of a family in place of `routes`.
            others: paths of other functions; the gateway passes the methods that these lack to this one.
        """
        self.routes: Sequence[Route] = routes if family is None else family
        self._loads = loads
        self._others = others
        self._loaded: Loaded | None = None
        if is_function(module):
            with for_good():
                self._loaded = self._load()

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return the answer to an event of a REST API's proxy integration."""
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded.within_limit(self._loaded.respond(_with_identity(event), context), event)

    def app(self, hosting: Hosting) -> WithoutPrefix:
        """Return the routes as an ASGI app over AWS, with all of their dependencies loaded."""
        with undisturbed():
            from turnstone.bootstrap.places.aws import build_lambda_core
            from turnstone.edge.logs import begin_logging
            from turnstone.edge.stage_prefix import WithoutPrefix
            from turnstone.http.server.app import build_app
            from turnstone.http.server.endpoint import BodyLimits

            settings = load_settings(LambdaSettings)
            begin_logging(settings.log_level)
            core = build_lambda_core(settings)
            services = {self._loads} if isinstance(self._loads, str) else set(self._loads)
            for service in sorted(services):
                core.load_service(service, for_changes=self._methods != {"GET"})
            # `http.app` leaves these to the first answer
            if services & {"turns", "events"}:
                import turnstone.http.streams.sse
                import turnstone.http.streams.turn_answers
            if "inferring" in services:
                import turnstone.http.streams.model_answers  # noqa: F401
            limits = BodyLimits(settings.max_body_bytes, settings.max_file_bytes)
            app = build_app(self.routes, core, limits, hosting, others=self._others)
            if not settings.cors_origins:
                return WithoutPrefix(app)
            from turnstone.http.origins.cross_origin import CrossOrigin  # only where origins are listed

            return WithoutPrefix(app, CrossOrigin(app, settings.cors_origins))

    @property
    def _methods(self) -> set[str]:
        declared = self.routes.named if isinstance(self.routes, FamilyRoutes) else self.routes
        return {route.method for route in declared}

    def _load(self) -> Loaded:
        with undisturbed():
            from mangum import Mangum

            from turnstone.http.server.hosting import BehindGateway

            scheme = load_settings(LambdaSettings).auth_scheme
            app = self.app(BehindGateway(scheme))
            untyped: Any = app  # Mangum's type requires a coroutine where ASGI's is an awaitable
            return Loaded(Mangum(untyped, lifespan="off"), app)


class Loaded(NamedTuple):
    """A function that is ready for events."""

    respond: Respond
    app: WithoutPrefix

    def within_limit(self, answer: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
        """Return the answer, or a 500 with the reason if it is too large: Lambda's own error would have no text."""
        if len(answer["body"]) * LONGEST_CHARACTER <= MOST_ANSWER_BYTES:
            return answer
        # as the runtime writes it: characters without escapes
        if len(json.dumps(answer, ensure_ascii=False).encode()) <= MOST_ANSWER_BYTES:
            return answer
        from turnstone.domain.errors.codes import ErrorCode  # hardly ever
        from turnstone.edge.stage_prefix import without_prefix

        path = unquote(str(event.get("path")))
        scope = {"type": "http", "method": event.get("httpMethod"), "path": path, "aws.event": event}
        envelope = self.app.app.dialect_of(without_prefix(scope)).envelope
        of_origin = {name: answer["headers"][name] for name in OF_ORIGIN if name in answer["headers"]}
        headers = {"content-type": "application/json", "x-should-retry": "false", **of_origin}
        body = envelope.refusal(500, TOO_LARGE, ErrorCode.ANSWER_TOO_LARGE).decode()
        return {"statusCode": 500, "headers": headers, "multiValueHeaders": {}, "body": body, "isBase64Encoded": False}


def _with_identity(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event with an identity, empty if it has none: Mangum fails without one before the app can refuse."""
    sent = event.get("requestContext")
    context = sent if isinstance(sent, dict) else {}
    identity = context.get("identity")
    completed = {**context, "identity": identity if isinstance(identity, dict) else {}}
    return {**event, "requestContext": completed}
