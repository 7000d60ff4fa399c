"""Lazy AWS clients: a function creates only the clients that its request needs."""

from __future__ import annotations

import gzip
from threading import Lock
from typing import TYPE_CHECKING, Any

import botocore.config
import botocore.session
from boto3.session import Session
from botocore.exceptions import BotoCoreError
from botocore.loaders import JSONFileLoader, Loader
from pydantic_core import from_json

from turnstone.domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from turnstone.adapters.aws.sigv4 import SigV4

CONFIG = botocore.config.Config(
    connect_timeout=2,
    read_timeout=10,
    max_pool_connections=16,
    retries={"mode": "standard", "total_max_attempts": 4},
)
SERVICES = (
    "bedrock-agentcore",
    "bedrock-runtime",
    "dynamodb",
    "s3",
    "s3vectors",
    "secretsmanager",
    "sqs",
    "ssm",
    "stepfunctions",
)


class DescriptionFiles(JSONFileLoader):  # type: ignore[misc] # botocore has no types
    """Load service descriptions into plain dicts; botocore's own loader builds ordered ones, several times slower."""

    def load_file(self, file_path: str) -> dict[str, Any] | None:
        """Return the parsed file, compressed or plain, None if missing; the path has no extension."""
        for ending, opened in ((".json", open), (".json.gz", gzip.open)):
            try:
                with opened(file_path + ending, "rb") as file:
                    description: dict[str, Any] = from_json(file.read(), cache_strings="keys")
            except FileNotFoundError:
                continue
            return description
        return None


class OurServices(Loader):  # type: ignore[misc] # botocore has no types
    """Locate the descriptions of our services without scanning all others: a tenth of the time to start."""

    def list_available_services(self, _: str) -> list[str]:
        """Return the names of the services that have a client."""
        return list(SERVICES)


class AwsClients:
    """Creates clients with this process's credentials and region, all from one boto3 session."""

    def __init__(self) -> None:
        core = botocore.session.get_session()
        core.register_component("data_loader", OurServices(file_loader=DescriptionFiles()))
        self._core = core
        self._session = Session(botocore_session=core)
        self._lock = Lock()

    def client(self, service: str, region: str | None = None, config: botocore.config.Config = CONFIG) -> Any:
        """Return a new client. Raises StoreUnavailable if the region or another setting is missing."""
        try:
            with self._lock:  # sessions are not safe to share between threads
                return self._session.client(service, region, config=config)
        except BotoCoreError as error:
            raise StoreUnavailable(f"AWS can't be used: {error}") from error

    def signer(self, service: str, region: str | None) -> SigV4:
        """Return a request signer for a service. Raises StoreUnavailable if the region is not configured."""
        from turnstone.adapters.aws.sigv4 import SigV4  # imported only for requests signed without a client

        region = region or self._core.get_config_variable("region")
        if region is None:
            raise StoreUnavailable("AWS can't be used: no region is set")
        return SigV4(self._core, service, region)

    def lazy_client(self, service: str) -> LazyClient:
        """Return a proxy that creates the client on first use."""
        return LazyClient(self, service)


class LazyClient:
    """Proxy of a client, created on first access to an attribute."""

    def __init__(self, clients: AwsClients, service: str) -> None:
        self._clients = clients
        self._service = service
        self._lock = Lock()
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._made is None:
                self._made = self._clients.client(self._service)
        return getattr(self._made, name)
