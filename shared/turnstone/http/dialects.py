"""The dialects of the API: what their routes have in common beside their shapes.

Statuses are in `http/errors.py`; a dialect names only those in which its clients expect another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from turnstone.dialects.letta.errors import LETTA_ENVELOPE
from turnstone.dialects.openai.errors import OPENAI_ENVELOPE, RESPONSES_ENVELOPE, SHARED_ENVELOPE
from turnstone.domain import errors
from turnstone.http.envelopes import DETAIL, ErrorEnvelope

if TYPE_CHECKING:
    from turnstone.http.route import Route

NO_STATUSES: Mapping[type[Exception], int] = MappingProxyType({})
MODEL_IS_A_RESOURCE: Mapping[type[Exception], int] = MappingProxyType(
    {errors.UnknownModel: 404, errors.ModelNotFound: 404}
)


class Dialect(NamedTuple):
    """A dialect.

    Attributes:
        name: of the dialect.
        envelope: JSON shape of its errors.
        prefix: path of the dialect: a path at or below it that no route serves is refused in its envelope, below it
            only if it ends in a slash; empty for none.
        statuses: statuses that differ from the table in `http/errors.py`, by the type of error.
        validation_status: status of a request with invalid fields.
        checks_client: whether unsupported versions of Llama Stack's clients are refused.
        slashes: whether each path is also served with a slash at its end.
        is_in_ids: whether its name precedes the names of its operations in the API's document.
    """

    name: str
    envelope: ErrorEnvelope
    prefix: str = ""
    statuses: Mapping[type[Exception], int] = NO_STATUSES
    validation_status: int = 400
    checks_client: bool = True
    slashes: bool = False
    is_in_ids: bool = False

    def claims(self, path: str) -> bool:
        """Return whether the path is one of the dialect's."""
        below = self.prefix if self.prefix.endswith("/") else f"{self.prefix}/"
        return bool(self.prefix) and (path == self.prefix or path.startswith(below))


LLAMA_STACK = Dialect("llama_stack", DETAIL)
LLAMA_STACK_2024 = Dialect("llama_stack_2024", DETAIL, is_in_ids=True)
OPENAI = Dialect("openai", OPENAI_ENVELOPE, "/v1/openai/", MODEL_IS_A_RESOURCE)
RESPONSES = Dialect("openai_responses", RESPONSES_ENVELOPE, "/v1/openai/", MODEL_IS_A_RESOURCE)
# paths that clients of both APIs use
SHARED = Dialect("shared", SHARED_ENVELOPE, "/v1/", MODEL_IS_A_RESOURCE)
LETTA = Dialect(
    "letta", LETTA_ENVELOPE, "/letta/v1", validation_status=422, checks_client=False, slashes=True, is_in_ids=True
)


def dialect_below(path: str, routes: Iterable[Route]) -> Dialect:
    """Return the dialect for a path without a route: the one of these routes with the longest prefix of the path."""
    claiming = (route.dialect for route in routes if route.dialect.claims(path))
    return max(claiming, key=lambda dialect: len(dialect.prefix), default=LLAMA_STACK)
