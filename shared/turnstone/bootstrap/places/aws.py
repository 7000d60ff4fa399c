"""The services of a Lambda, over DynamoDB, S3 and Step Functions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.bootstrap.core import Core
from turnstone.settings.config import InvalidSettings, LambdaSettings
from turnstone.store.layout.oversize import AHEAD_BYTES, OversizeStore

if TYPE_CHECKING:
    from turnstone.bootstrap.models import ProviderDeps
    from turnstone.domain.registry.catalogue import Catalogue, OpenAIProvider
    from turnstone.ports.memory import Segments
    from turnstone.ports.memory_providers import BankProviders
    from turnstone.ports.models import Embeddings, Inference
    from turnstone.ports.objects import Objects
    from turnstone.ports.shields import ShieldKinds
    from turnstone.ports.supervision import Jobs, Supervisor
    from turnstone.ports.tools import ToolKinds
    from turnstone.ports.webhooks import WebhookSender


def build_lambda_core(settings: LambdaSettings) -> Core:
    """Return the services of this Lambda."""
    return Core(AwsPorts(settings), settings, is_on_lambda=True)


class AwsPorts:
    """The adapters of AWS; the table's client is made at once, every other at its first use."""

    def __init__(self, settings: LambdaSettings) -> None:
        self._settings = settings
        self._clients = AwsClients()
        table = DynamoRangeStore(self._clients.client("dynamodb"), settings.table)
        self.store = OversizeStore(table, S3BlobStore(self._clients.lazy_client("s3"), settings.bucket), AHEAD_BYTES)
        self.clock = SystemClock()
        self.ids = RandomIds()

    @cached_property
    def catalogue(self) -> Catalogue | None:
        """The operator's file, None if there is none. Raises InvalidSettings, StoreUnavailable."""
        if self._settings.config is None:
            return None
        from turnstone.adapters.aws.secrets import parameter_text
        from turnstone.bootstrap.catalogue import build_catalogue

        text = parameter_text(self._clients.client("ssm"), self._settings.config)
        return build_catalogue(text, self._settings.model_url, "api_key_secret")

    @cached_property
    def inference(self) -> Inference:
        """The models. Raises InvalidSettings if none is configured: there is no default.

        Each of several providers is made, and its key read, at its first call.
        """
        from turnstone.bootstrap.models import build_inference, build_only_inference

        if self.catalogue is not None:
            return build_inference(self.catalogue, self._provider_deps)
        timeout_s = self._settings.model_timeout_seconds
        return build_only_inference(self._model_url(), lambda: self._model_key, timeout_s)

    @cached_property
    def embeddings(self) -> Embeddings:
        """The embeddings, made as the models are. Raises InvalidSettings."""
        from turnstone.bootstrap.embeddings import build_embeddings, build_only_embeddings

        if self.catalogue is not None:
            return build_embeddings(self.catalogue, self._provider_deps)
        timeout_s = self._settings.model_timeout_seconds
        return build_only_embeddings(self._model_url(), lambda: self._model_key, timeout_s)

    @cached_property
    def segments(self) -> Segments:
        """The indexes of memory banks."""
        from turnstone.adapters.retrieval.segments import NumpySegments

        return NumpySegments()

    @cached_property
    def bank_providers(self) -> BankProviders:
        """The stores of memory banks, each made, and the URL of its database read, at its first call."""
        from turnstone.bootstrap.memory_providers import MemoryProviderDeps, build_bank_providers

        deps = MemoryProviderDeps(lambda entry: self._secret(entry.url_secret), self._aws)
        return build_bank_providers(self.catalogue, deps)

    @property
    def _provider_deps(self) -> ProviderDeps:
        from turnstone.bootstrap.models import ProviderDeps

        has_variables = self._settings.model_url is not None
        timeout_s = self._settings.model_timeout_seconds
        return ProviderDeps(timeout_s, self._key, self._aws, "api_key_secret", has_variables=has_variables)

    def _model_url(self) -> str:
        if self._settings.model_url is None:
            raise InvalidSettings("TURNSTONE_MODEL_URL: must be set; the offline model is named offline")
        return self._settings.model_url

    def _aws(self) -> AwsClients:
        return self._clients

    def _key(self, name: str, provider: OpenAIProvider) -> str | None:
        """Return the key of a provider, None if it has none. Raises StoreUnavailable."""
        from turnstone.domain.models.routing import DEFAULT_PROVIDER

        is_named_by_environment = name == DEFAULT_PROVIDER and self._settings.model_url is not None
        return self._model_key if is_named_by_environment else self._secret(provider.api_key_secret)

    @cached_property
    def _model_key(self) -> str | None:
        return self._secret(self._settings.model_api_key_secret)

    def _secret(self, name: str | None) -> str | None:
        if name is None:
            return None
        from turnstone.adapters.aws.secrets import secret_text

        return secret_text(self._clients.client("secretsmanager"), name)

    @cached_property
    def tools(self) -> ToolKinds:
        """Every kind of tools. Raises InvalidSettings."""
        from turnstone.bootstrap.tools import lambda_tool_kinds

        return lambda_tool_kinds(self._settings, self.catalogue, self.clock, self._provider_deps, self._secret)

    @cached_property
    def shields(self) -> ShieldKinds:
        from turnstone.adapters.shields.factory import EveryShieldKind

        bedrock = self._clients.lazy_client("bedrock-runtime")
        return EveryShieldKind(lambda: self.inference, lambda: bedrock)

    @cached_property
    def supervisor(self) -> Supervisor:
        """The state machine. Raises InvalidSettings if none is named."""
        from turnstone.adapters.aws.step_functions import StepFunctionsSupervisor
        from turnstone.store.layout.keys import turn_key_of

        if self._settings.state_machine_arn is None:
            raise InvalidSettings("TURNSTONE_STATE_MACHINE_ARN: must be set where turns run or are read")
        client = self._clients.lazy_client("stepfunctions")
        return StepFunctionsSupervisor(client, self._settings.state_machine_arn, self.clock, turn_key_of)

    @cached_property
    def jobs(self) -> Jobs:
        """The queues of jobs and of insertions. Raises InvalidSettings if none is named."""
        from turnstone.adapters.aws.sqs import SqsJobs

        if self._settings.jobs_queue_url is None:
            raise InvalidSettings("TURNSTONE_JOBS_QUEUE_URL: must be set where jobs begin or are done")
        from turnstone.adapters.machine.jobs_by_kind import JobsByKind

        sqs, settings = self._clients.lazy_client("sqs"), self._settings
        return JobsByKind(
            SqsJobs(sqs, settings.jobs_queue_url, self.clock),
            {"ingest_document": SqsJobs(sqs, settings.ingest_queue_url, self.clock)},
        )

    @cached_property
    def webhook_sender(self) -> WebhookSender:
        from turnstone.adapters.webhooks.guarded_sender import GuardedSender

        return GuardedSender(self._settings.fetch_allow)

    @cached_property
    def objects(self) -> Objects:
        """The objects that the operator puts into the bucket."""
        from turnstone.adapters.aws.s3_objects import S3Objects

        return S3Objects(self._clients.lazy_client("s3"), self._settings.bucket)
