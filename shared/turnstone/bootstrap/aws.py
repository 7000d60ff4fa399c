"""The services as a Lambda has them: over DynamoDB, S3 and Step Functions."""

from functools import cached_property

from turnstone.adapters.aws_clients import AwsClients
from turnstone.adapters.dynamodb import DynamoRangeStore
from turnstone.adapters.s3 import S3BlobStore
from turnstone.adapters.system import RandomIds, SystemClock
from turnstone.bootstrap.core import Core
from turnstone.config import InvalidSettings, LambdaSettings
from turnstone.ports import Inference, Jobs, ShieldKinds, Supervisor, ToolRuntime
from turnstone.store.oversize import OversizeStore


def build_lambda_core(settings: LambdaSettings) -> Core:
    """Return the services of this Lambda."""
    return Core(AwsPorts(settings), settings, is_on_lambda=True)


class AwsPorts:
    """The adapters of AWS. The table's client is made at once, everything else when a route asks for it."""

    def __init__(self, settings: LambdaSettings) -> None:
        self._settings = settings
        self._clients = AwsClients()
        table = DynamoRangeStore(self._clients.client("dynamodb"), settings.table)
        self.store = OversizeStore(table, S3BlobStore(self._clients.lazy_client("s3"), settings.bucket))
        self.clock = SystemClock()
        self.ids = RandomIds()

    @cached_property
    def inference(self) -> Inference:
        """The model. Raises InvalidSettings if none is named: nothing stands in for it unasked."""
        from turnstone.bootstrap.models import build_inference

        settings = self._settings
        if settings.model_url is None:
            raise InvalidSettings("TURNSTONE_MODEL_URL: must be set; the offline model is named offline")
        api_key = None
        if settings.model_api_key_secret is not None:
            from turnstone.adapters.secrets import secret_text

            api_key = secret_text(self._clients.client("secretsmanager"), settings.model_api_key_secret)
        return build_inference(settings.model_url, api_key, settings.model_timeout_seconds)

    @cached_property
    def tools(self) -> ToolRuntime:
        from turnstone.adapters.tools.builtin import BuiltinTools

        return BuiltinTools(self.clock)

    @cached_property
    def shields(self) -> ShieldKinds:
        from turnstone.adapters.shields.kinds import EveryShieldKind

        bedrock = self._clients.lazy_client("bedrock-runtime")
        return EveryShieldKind(lambda: self.inference, lambda: bedrock)

    @cached_property
    def supervisor(self) -> Supervisor:
        """The state machine. Raises InvalidSettings if none is named."""
        from turnstone.adapters.step_functions import StepFunctionsSupervisor
        from turnstone.store.keys import turn_key_of

        if self._settings.state_machine_arn is None:
            raise InvalidSettings("TURNSTONE_STATE_MACHINE_ARN: must be set where turns run or are read")
        client = self._clients.lazy_client("stepfunctions")
        return StepFunctionsSupervisor(client, self._settings.state_machine_arn, self.clock, turn_key_of)

    @cached_property
    def jobs(self) -> Jobs:
        """The queue of clean-up jobs. Raises InvalidSettings if none is named."""
        from turnstone.adapters.sqs import SqsJobs

        if self._settings.jobs_queue_url is None:
            raise InvalidSettings("TURNSTONE_JOBS_QUEUE_URL: must be set where something is deleted or cleaned up")
        return SqsJobs(self._clients.lazy_client("sqs"), self._settings.jobs_queue_url, self.clock)
