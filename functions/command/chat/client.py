"""Requests to the server, and what can go wrong with them, in words that say what to do.

ChatError
├── NoServer          nobody listens there
├── Untrusted         its certificate is not good
├── ConnectionLost    the line broke before the answer was whole
├── Refused           the server said no
└── NotUnderstood     what came is no answer of this API
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any
from uuid import uuid4

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationParseError, NewConnectionError, SSLError

from turnstone.domain.errors.places import sentence_of
from turnstone.settings.client_settings import ClientSettings

from .wire import Event, Json, events_in

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0  # the server says a word every 15 s, however long the model takes
READ_BYTES = 64 * 1024
CUT_OFF = (502, 503, 504)  # what gateways answer in the place of a server that is gone or slow
NO_KEY = "Name a key with TURNSTONE_API_KEY or --api-key; `turnstone keys create NAME` makes one."
WRONG_KEY = (
    "The server does not accept the key of --api-key or TURNSTONE_API_KEY; `turnstone keys list` tells which there are."
)
NO_CREDENTIALS = "Send credentials of the toolgroup's server with --provider-data."
WHAT_TO_DO = {
    "unauthenticated": NO_KEY,
    "tool_credentials_missing": NO_CREDENTIALS,
    "turn_running": "Wait until it has ended, or end it: `turnstone turns list`, `turnstone turns cancel TURN_ID`.",
    "unsupported_client": "This command and the server are of different versions.",
}


class ChatError(Exception):
    """What was asked for can't be done; the message says why, and what to do."""


class NoServer(ChatError):
    def __init__(self, url: str) -> None:
        super().__init__(
            f"no server answers at {url}. Start one with `make run` in the folder of Turnstone, in another terminal, "
            "or say where it is: --url, or TURNSTONE_URL."
        )


class Untrusted(ChatError):
    def __init__(self, url: str) -> None:
        super().__init__(f"{url} can't be trusted: its certificate can't be verified on this machine.")


class ConnectionLost(ChatError):
    def __init__(self, url: str) -> None:
        super().__init__(f"the connection to {url} was lost before the answer was whole. Try again.")


class Refused(ChatError):
    """Attributes: status: of the answer."""

    def __init__(self, status: int, told: str, advice: str = "") -> None:
        self.status = status
        super().__init__(" ".join([told.rstrip(".") + ".", advice]).strip())


class NotUnderstood(ChatError):
    def __init__(self, url: str, status: int) -> None:
        super().__init__(
            f"the answer of {url} (with status {status}) is not one of Turnstone's API. Is it a Turnstone server?"
        )


class Client:
    """Asks one server, over connections that it keeps. It has to be closed."""

    def __init__(self, settings: ClientSettings, provider_data: Json | None = None) -> None:
        """Prepare requests.

        Args:
            settings: where the server is, and the key to show.
            provider_data: the caller's own keys for models and tools, sent with turns only.
        """
        self.api_key = settings.api_key
        self.url = settings.url.rstrip("/").removesuffix("/v1")
        self._headers = {"accept": "application/json", "content-type": "application/json"}
        if settings.api_key is not None:
            self._headers["authorization"] = f"Bearer {settings.api_key}"
        told = {} if provider_data is None else {"x-llamastack-provider-data": json.dumps(provider_data)}
        self._turn_headers = {"accept": "text/event-stream", **told}
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S)
        self._pool = urllib3.PoolManager(timeout=timeout, retries=False)  # nor does it follow redirects, with the key

    def close(self) -> None:
        self._pool.clear()

    def get(self, path: str) -> tuple[Json, Mapping[str, str]]:
        """Return the answer, and its headers with their names in lower case. Raises ChatError."""
        return self._answer("GET", path, None, {})

    def post(self, path: str, body: Json, key: str | None = None) -> Json:
        """Return the answer to a request that is sent once more if its connection breaks. Raises ChatError.

        The server does what has the same key and body once; without a key the request has one of its own.
        """
        headers = {"idempotency-key": key or uuid4().hex}
        with suppress(ConnectionLost):
            return self._answer("POST", path, body, headers)[0]
        return self._answer("POST", path, body, headers)[0]

    def posted(self, path: str, body: Json, key: str) -> Iterator[Event]:
        """Yield the events of the turn that this begins or goes on with; the key makes it safe to repeat."""
        return self._events("POST", path, {**body, "stream": True}, {"idempotency-key": key})

    def followed(self, path: str, after: int) -> Iterator[Event]:
        """Yield the events of the turn behind a number."""
        return self._events("GET", path, None, {"last-event-id": str(after)})

    def _answer(
        self, method: str, path: str, body: Json | None, headers: Mapping[str, str]
    ) -> tuple[Json, Mapping[str, str]]:
        with self._asked(method, path, body, headers) as response:
            try:
                told = json.loads(response.read())
            except ValueError:
                raise NotUnderstood(self.url, response.status) from None
            if not isinstance(told, dict):
                raise NotUnderstood(self.url, response.status)
            return told, {name.lower(): value for name, value in response.headers.items()}

    def _events(self, method: str, path: str, body: Json | None, headers: Mapping[str, str]) -> Iterator[Event]:
        with self._asked(method, path, body, {**headers, **self._turn_headers}) as response:

            def pieces() -> Iterator[bytes]:
                while piece := response.read1(READ_BYTES):
                    yield piece

            with closing(events_in(pieces())) as events:  # type: ignore[type-var] # a generator can be closed
                try:
                    yield from events
                except ValueError:
                    raise NotUnderstood(self.url, response.status) from None

    @contextmanager
    def _asked(
        self, method: str, path: str, body: Json | None, headers: Mapping[str, str]
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Give the server's answer if it is none of an error, and drop what was not read of it."""
        # as UTF-8, which is shorter than escapes; what it can't hold becomes an escape of JSON
        sent = None if body is None else json.dumps(body, ensure_ascii=False).encode(errors="backslashreplace")
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

    def _refusal(self, response: urllib3.BaseHTTPResponse) -> ChatError:
        """Return what to raise for an answer that is an error, in the server's own words."""
        told: Any = None
        with suppress(ValueError, RecursionError):
            told = json.loads(response.read(READ_BYTES))
        match told:
            case {"detail": str(sentence)}:
                return Refused(response.status, sentence, self._advice(told.get("code")))
            case {"error": {"detail": {"errors": list(problems)}}} if all(map(_is_problem, problems)):
                return Refused(response.status, sentence_of(problems))
            case {"error": {"message": str(sentence)}}:
                return Refused(response.status, sentence, self._advice(told["error"].get("code")))
        # before a stream's first word a gateway speaks for a server that is slow; the turn runs all the same
        return ConnectionLost(self.url) if response.status in CUT_OFF else NotUnderstood(self.url, response.status)

    def _advice(self, code: object) -> str:
        """Return what the user can do about an error of this code; nothing for most."""
        return WRONG_KEY if code == "unauthenticated" and self.api_key is not None else WHAT_TO_DO.get(str(code), "")


def _is_problem(problem: object) -> bool:
    """Tell whether this names a place in the request, and what is wrong there."""
    match problem:
        case {"loc": list(), "msg": str()}:
            return True
    return False
