"""Requests to the server, and their errors; each message names a remedy.

CommandFailed
├── NoServer          no connection to the address
├── Untrusted         the certificate can't be verified
├── ConnectionLost    the connection ended before the response did
├── Refused           the server responded with an error
└── NotUnderstood     the response is not one of this API
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeAlias
from uuid import uuid4

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationParseError, NewConnectionError, SSLError
from urllib3.filepost import encode_multipart_formdata

from turnstone.domain.errors.problem_sentences import sentence_of
from turnstone.settings.client_settings import ClientSettings

from .wire import Json, StreamEvent, events_in

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0  # the server sends a comment every 15 s while the model works
READ_BYTES = 64 * 1024
CUT_OFF = (502, 503, 504)  # statuses of gateways for a server that is gone or slow
NO_KEY = "Name a key with TURNSTONE_API_KEY or --api-key; `turnstone keys create NAME` creates one."
WRONG_KEY = (
    "The server does not accept the key of --api-key or TURNSTONE_API_KEY; `turnstone keys list` lists the valid ones."
)
NO_CREDENTIALS = "Send credentials of the toolgroup's server with --provider-data."
REMEDIES = {
    "unauthenticated": NO_KEY,
    "tool_credentials_missing": NO_CREDENTIALS,
    "turn_running": "Wait until it has ended, or end it: `turnstone turns list`, `turnstone turns cancel TURN_ID`.",
    "unsupported_client": "This command and the server are of different versions.",
}

Form: TypeAlias = Mapping[str, str | tuple[str, bytes, str]]  # texts, and files with name, bytes and media type


class CommandFailed(Exception):
    """A command failed; the message has the reason and the remedy."""


class NoServer(CommandFailed):
    def __init__(self, url: str) -> None:
        super().__init__(
            f"no server answers at {url}. Start one with `turnstone serve` in another terminal, "
            "or name another with --url or TURNSTONE_URL."
        )


class Untrusted(CommandFailed):
    def __init__(self, url: str) -> None:
        super().__init__(f"{url} can't be trusted: its certificate can't be verified on this machine.")


class ConnectionLost(CommandFailed):
    def __init__(self, url: str) -> None:
        super().__init__(f"the connection to {url} was lost before the response was complete. Try again.")


class Refused(CommandFailed):
    """An error response.

    Attributes:
        status: its status.
    """

    def __init__(self, status: int, message: str, advice: str = "") -> None:
        self.status = status
        super().__init__(" ".join([message.rstrip(".") + ".", advice]).strip())


class NotUnderstood(CommandFailed):
    def __init__(self, url: str, status: int) -> None:
        super().__init__(
            f"the response of {url} (status {status}) is not one of Turnstone's API. Is it a Turnstone server?"
        )


class Client:
    """Requests to one server over kept connections. It must be closed."""

    def __init__(self, settings: ClientSettings, provider_data: Json | None = None) -> None:
        """Prepare requests.

        Args:
            settings: address of the server, and API key.
            provider_data: the caller's own keys for models and tools, sent with turns only.
        """
        self.api_key = settings.api_key
        self.url = settings.url.rstrip("/").removesuffix("/v1")
        self._headers = {"accept": "application/json", "content-type": "application/json"}
        if settings.api_key is not None:
            self._headers["authorization"] = f"Bearer {settings.api_key}"
        more = {} if provider_data is None else {"x-llamastack-provider-data": json.dumps(provider_data)}
        self._turn_headers = {"accept": "text/event-stream", **more}
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S)
        self._pool = urllib3.PoolManager(
            timeout=timeout, retries=False
        )  # nor follows redirects, which would get the key

    def close(self) -> None:
        self._pool.clear()

    def get(self, path: str) -> tuple[Json, Mapping[str, str]]:
        """Return the response, and its headers with names in lower case. Raises CommandFailed."""
        return self._answer("GET", path, None, {})

    def post(self, path: str, body: Json, key: str | None = None) -> Json:
        """Return the response to a request that is repeated once if its connection ends. Raises CommandFailed.

        The server processes requests with the same idempotency key and body once; the default is a new key.
        """
        headers = {"idempotency-key": key or uuid4().hex}
        with suppress(ConnectionLost):
            return self._answer("POST", path, body, headers)[0]
        return self._answer("POST", path, body, headers)[0]

    def send_form(self, path: str, fields: Form, key: str | None = None) -> Json:
        """Return the response to a form, sent as `post` sends JSON. Raises CommandFailed."""
        form, content_type = encode_multipart_formdata(fields)
        headers = {"idempotency-key": key or uuid4().hex, "content-type": content_type}
        with suppress(ConnectionLost):
            return self._answer("POST", path, form, headers)[0]
        return self._answer("POST", path, form, headers)[0]

    def delete(self, path: str) -> bool:
        """Delete the resource; return whether it was there. Raises CommandFailed."""
        try:
            self._answer("DELETE", path, None, {})
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return False
        return True

    def posted(self, path: str, body: Json, key: str) -> Iterator[StreamEvent]:
        """Yield the events of the turn that the request starts or resumes; the key makes it safe to repeat."""
        return self._events("POST", path, {**body, "stream": True}, {"idempotency-key": key})

    def followed(self, path: str, after: int) -> Iterator[StreamEvent]:
        """Yield the events of the turn after a number."""
        return self._events("GET", path, None, {"last-event-id": str(after)})

    def _answer(
        self, method: str, path: str, body: Json | bytes | None, headers: Mapping[str, str]
    ) -> tuple[Json, Mapping[str, str]]:
        with self._response(method, path, body, headers) as response:
            try:
                answer = json.loads(response.read())
            except ValueError:
                raise NotUnderstood(self.url, response.status) from None
            if not isinstance(answer, dict):
                raise NotUnderstood(self.url, response.status)
            return answer, {name.lower(): value for name, value in response.headers.items()}

    def _events(self, method: str, path: str, body: Json | None, headers: Mapping[str, str]) -> Iterator[StreamEvent]:
        with self._response(method, path, body, {**headers, **self._turn_headers}) as response:

            def pieces() -> Iterator[bytes]:
                while piece := response.read1(READ_BYTES):
                    yield piece

            with closing(events_in(pieces())) as events:  # type: ignore[type-var] # a generator can be closed
                try:
                    yield from events
                except ValueError:
                    raise NotUnderstood(self.url, response.status) from None

    @contextmanager
    def _response(
        self, method: str, path: str, body: Json | bytes | None, headers: Mapping[str, str]
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Yield a successful response, and discard the unread rest of it. Raises CommandFailed."""
        sent = _encoded(body) if isinstance(body, dict) else body
        try:
            response = self._pool.request(
                method,
                f"{self.url}/v1{path}",
                body=sent,
                headers={**self._headers, **headers},
                preload_content=False,
            )
        except (NewConnectionError, LocationParseError, ConnectTimeoutError) as exc:
            raise NoServer(self.url) from exc
        except SSLError as exc:
            raise Untrusted(self.url) from exc
        except HTTPError as exc:
            raise ConnectionLost(self.url) from exc
        try:
            if response.status != 200:
                raise self._refusal(response)
            yield response
        except HTTPError as exc:
            raise ConnectionLost(self.url) from exc
        finally:
            response.close()
            response.release_conn()

    def _refusal(self, response: urllib3.BaseHTTPResponse) -> CommandFailed:
        """Return the exception for an error response, with the server's message."""
        body: Any = None
        with suppress(ValueError, RecursionError):
            body = json.loads(response.read(READ_BYTES))
        match body:
            case {"detail": str(sentence)}:
                return Refused(response.status, sentence, self._advice(body.get("code")))
            case {"error": {"detail": {"errors": list(problems)}}} if all(map(_is_problem, problems)):
                return Refused(response.status, sentence_of(problems))
            case {"error": {"message": str(sentence)}}:
                return Refused(response.status, sentence, self._advice(body["error"].get("code")))
        # before the first event a gateway answers for a slow server, while the turn runs
        return ConnectionLost(self.url) if response.status in CUT_OFF else NotUnderstood(self.url, response.status)

    def _advice(self, code: object) -> str:
        """Return the remedy for an error of this code, empty for most."""
        return WRONG_KEY if code == "unauthenticated" and self.api_key is not None else REMEDIES.get(str(code), "")


def _encoded(body: Json) -> bytes:
    """Return JSON in UTF-8, which is shorter than escapes; lone surrogates become JSON escapes."""
    return json.dumps(body, ensure_ascii=False).encode(errors="backslashreplace")


def _is_problem(problem: object) -> bool:
    """Return whether this is a location in the request with its error."""
    match problem:
        case {"loc": list(), "msg": str()}:
            return True
    return False
