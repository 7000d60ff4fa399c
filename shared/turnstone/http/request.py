"""The request that a route's function takes, and the parsing of its body."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors.validation_messages import problems_of
from turnstone.domain.provider_data import ProviderData, provider_data_in
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.frozen import infinity_path
from turnstone.http.clients import is_llama_stack_client

if TYPE_CHECKING:  # a function loads what its own routes need
    from turnstone.http.forms import SentFile, SentForm
    from turnstone.services.use_cases import UseCases

Parsed = TypeVar("Parsed", bound=BaseModel)
_HUGE = re.compile(rb"\d[eE]\+?\d\d|\d{300}")  # a number beyond those of a double is written like this
# fields of bodies, answers and queries whose values are ids; every parameter of a path is one
NAMING = frozenset(
    {"agent_id", "session_id", "turn_id", "step_id", "toolgroup_id", "tool_group_id", "tool_name", "shield_id"}
    | {"model", "model_id", "provider_id", "completion_id", "vector_db_id", "file_id", "upload_id"}
    | {"vector_store_id", "webhook_id", "delivery_id"}
)
CLIENT_TIMEOUT_S = 60.0
LONGEST_BACKOFF_S = 8.0
SLACK_S = 15.0
LONGEST_REPEATED_S = 3_600.0


class Request(NamedTuple):
    """A request with its whole body. Header names are in lower case, query values in the order sent.

    Attributes:
        scheme: how the caller authenticated, `bearer` or `sigv4`; None on a server without authentication.
        base: prefix of the API's paths in the request's own: a stage, or a domain's base path.
        about: fields of the log besides route and caller: ids, added as they are found.
        stop: set when the client disconnects, for a route that `is_cancellable`; None for all others.
        form: the body of a route with a file, whose `body` is empty; None for all others.
    """

    method: str
    path: str
    path_params: Mapping[str, str]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    caller: Caller
    scheme: str | None
    use_cases: "UseCases"
    base: str
    about: dict[str, Any]
    stop: StopSignal | None = None
    form: "SentForm | None" = None

    @property
    def file(self) -> "SentFile":
        """The file of the form, on a route that takes one."""
        if self.form is None:
            raise LookupError("this route takes no file")
        return self.form.file

    @property
    def session_ref(self) -> SessionRef:
        params = self.path_params
        return SessionRef(tenant=self.caller.tenant, agent_id=params["agent_id"], session_id=params["session_id"])

    @property
    def turn_ref(self) -> TurnRef:
        params = self.path_params
        return TurnRef(
            tenant=self.caller.tenant,
            agent_id=params["agent_id"],
            session_id=params["session_id"],
            turn_id=params["turn_id"],
        )

    @property
    def attempt(self) -> Attempt:
        """The marks by which a retry of this request is recognised.

        Source: the official clients count their retries in `x-stainless-retry-count`, send their timeout in
        `x-stainless-read-timeout`, and wait eight seconds at most before a retry.
        """
        retries = _number(self.headers.get("x-stainless-retry-count"), 0)
        timeout_s = _number(self.headers.get("x-stainless-read-timeout"), CLIENT_TIMEOUT_S)
        key = self.headers.get("idempotency-key")
        return Attempt.model_construct(
            fingerprint=self._digest(self.body if self.form is None else self.form.digest),
            is_retry=retries > 0,
            key=self._digest(key.encode()) if key else None,
            repeated_within_s=min(retries * (timeout_s + LONGEST_BACKOFF_S) + SLACK_S, LONGEST_REPEATED_S),
            provider_data=self.provider_data,
        )

    @property
    def is_llama_stacks(self) -> bool:
        """Whether an API of OpenAI is requested in Llama Stack's form: by its path, or by one of its clients."""
        return "/v1/openai/v1/" in self.path or is_llama_stack_client(self.headers)

    @property
    def provider_data(self) -> ProviderData:
        """Return the caller's keys for providers. Raises InvalidRequest."""
        return provider_data_in(self.headers)

    def _digest(self, part: bytes) -> str:
        digest = blake2b(digest_size=16)
        for piece in (self.caller.principal.encode(), self.method.encode(), self.path.encode("utf-8", "replace"), part):
            digest.update(len(piece).to_bytes(8))
            digest.update(piece)
        return digest.hexdigest()


def _number(text: str | None, otherwise: float) -> float:
    """Return the number in a client's header, or the default if the header holds no plain number."""
    is_plain = text is not None and len(text) <= 9 and text.isascii() and text.replace(".", "", 1).isdigit()
    return float(text) if text is not None and is_plain else otherwise


class InvalidBody(Exception):
    """The request's body does not match its model."""

    def __init__(self, problems: list[dict[str, object]]) -> None:
        super().__init__("invalid body")
        self.problems = problems


def parse(request: Request, model: type[Parsed]) -> Parsed:
    """Return the body, or the fields of the form, as the model. Raises InvalidBody."""
    sent = json_of(request.body) if request.form is None else dict(request.form.fields)
    body = checked(sent, model)
    request.about.update(ids_in(body.__dict__))
    return body


def ids_in(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields whose values are ids, which may be logged."""
    return {name: value for name, value in fields.items() if name in NAMING and isinstance(value, str)}


def json_of(body: bytes) -> object:
    """Return the value of the JSON text. Raises InvalidBody, also for NaN, infinity and lone surrogates."""
    try:
        value: object = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidBody([{"loc": (), "msg": f"Invalid JSON: {error}", "type": "json_invalid"}]) from error
    if _HUGE.search(body) and (location := infinity_path(value)) is not None:
        raise InvalidBody([{"loc": location, "msg": "Input should be a finite number", "type": "finite_number"}])
    return value


def checked(value: object, model: type[Parsed]) -> Parsed:
    """Return the value as the model. Raises InvalidBody."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidBody(problems_of(error, value)) from error
