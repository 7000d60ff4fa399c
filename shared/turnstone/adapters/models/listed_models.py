"""List a model server's models with one request; explain failures to the operator."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError, NewConnectionError, SSLError, TimeoutError
from urllib3.util import parse_url

from turnstone.adapters.models.openai.model_access import ModelAccess
from turnstone.domain.provider_data import NO_PROVIDER_DATA

TIMEOUT_S = 5.0
MAX_BYTES = 16 * 1024 * 1024
VERSION = "/v1"


class Listed(NamedTuple):
    """The result of the request.

    Attributes:
        models: the listed ids, None without a list.
        problem: the reason and the remedy; empty if there are models.
    """

    models: frozenset[str] | None
    problem: str = ""


@dataclass(frozen=True)
class ModelServer:
    """An OpenAI-compatible server of the operator.

    Attributes:
        url: its address up to, and without, `/models`.
        access: the credentials.
        url_name: the setting of the address, for example a variable.
        key_name: the setting of the key.
    """

    url: str
    access: ModelAccess
    url_name: str
    key_name: str

    @property
    def shown(self) -> str:
        """The address without possible secrets."""
        return str(parse_url(self.url.strip())._replace(auth=None, query=None, fragment=None).url).rstrip("/")

    def listed(self) -> Listed:
        """Return the server's list from one request; retry with /v1 where the address seems to lack it."""
        with PoolManager(timeout=Timeout(TIMEOUT_S), retries=False) as pool:
            try:
                status, models = self._requested(pool, "")
                if models is not None:
                    return Listed(models)
                if status not in (401, 403) and not self.shown.endswith(VERSION):
                    status_below, below = self._requested(pool, VERSION)
                    if below is not None or status_below in (401, 403):
                        return Listed(None, f"its API is at {self.shown}{VERSION}: set {self.url_name} to that")
            except NewConnectionError:
                return Listed(None, f"nothing answers there; is it running, and is {self.url_name} right?")
            except TimeoutError:
                return Listed(None, f"no answer came within {TIMEOUT_S:g} s")
            except SSLError:
                return Listed(None, "its certificate can't be verified")
            except (HTTPError, OSError) as exc:
                return Listed(None, f"the request failed ({type(exc).__name__})")
        return Listed(None, self._problem(status))

    def _problem(self, status: int) -> str:
        if status in (401, 403):
            has_key = bool(self.access.key(NO_PROVIDER_DATA))
            return (
                f"it refuses the key; check {self.key_name}" if has_key else f"it requires a key; set {self.key_name}"
            )
        if 300 <= status < 400:
            return f"it redirects; set {self.url_name} to the final URL"
        if status == 200:
            return f"it does not answer as an OpenAI-compatible API; check {self.url_name}"
        return f"it answers status {status} to a request for its models; check {self.url_name}"

    def _requested(self, pool: PoolManager, below: str) -> tuple[int, frozenset[str] | None]:
        url = parse_url(self.url.strip().rstrip("/"))
        path = f"{url.request_uri.rstrip('/')}{below}/models"
        address = f"{url.scheme}://{url.netloc}{path}"
        headers: Mapping[str, str] = self.access.headers(self.access.key(NO_PROVIDER_DATA), "GET", address, None)
        response = pool.request("GET", address, headers=headers, redirect=False, preload_content=False)
        try:
            body = response.read(MAX_BYTES)
        finally:
            response.close()
        return response.status, _models_in(body) if response.status == 200 else None


def _models_in(body: bytes) -> frozenset[str] | None:
    try:
        return frozenset(str(model["id"]) for model in json.loads(body)["data"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
