"""An account with every function of the template in it, and the parts of scenarios."""

from __future__ import annotations

import random
import string
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.integration.rights.calls import BUCKET, TABLE, Call, guardrail_arn, interpreter_arn, model_arn
from tests.integration.rights.cloud import Cloud
from tests.integration.rights.functions import Functions
from tests.support.aws.aws_events import ACCOUNT, load_event
from tests.support.aws.cloudformation import Template, template
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.dynamodb_items import encoded_key
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.domain.errors import TurnstoneError
from turnstone.domain.jobs import Job
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.turns import InferenceStep, Turn, TurnState, silent_output
from turnstone.services.turns.transitions import opened, paused
from turnstone.store.cleanup.jobs import JobStore, put_job
from turnstone.store.layout import oversize
from turnstone.store.layout.keys import turn_key_of
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.sessions.sessions import SessionStore
from turnstone.store.sessions.turns import TurnStore

SECRET = f"arn:aws:secretsmanager:eu-central-1:{ACCOUNT}:secret:"
MODEL_KEY, PROVIDER_KEY = SECRET + "model-key", SECRET + "provider-key"
GUARDRAIL, CLAUDE, NOVA = "gr1", "anthropic.claude-x-v1:0", "amazon.nova-canvas-v1:0"
TITAN = "amazon.titan-embed-text-v2:0"
OWN_INTERPRETER = "ours-0123456789"
PARAMETERS = {
    "ModelApiKeySecretArn": MODEL_KEY,
    "ModelsParameter": "/turnstone/models",
    "ProviderSecretArns": PROVIDER_KEY,
    "BedrockModelArns": model_arn("*"),
    "GuardrailArns": guardrail_arn("*"),
    "CodeInterpreterArns": interpreter_arn("aws.codeinterpreter.v1"),
    "MaxDayTokens": "1000000000",
    "StreamingMode": "buffered",
}
FILE = """
[providers.local]
type = "openai"
url = "{url}"
api_key_secret = "{provider_key}"
[providers.bedrock]
type = "bedrock"
guardrail = {{identifier = "{guardrail}"}}
[providers.whole]
type = "bedrock"
streams = false
[providers.signed]
type = "openai"
auth = "sigv4"
url = "{url}"
[providers.none]
type = "offline"
[models.calls]
provider = "none"
[models.local]
provider = "local"
[models.claude]
provider = "bedrock"
model = "{claude}"
[models.titan]
provider = "bedrock"
model = "{titan}"
embedding_dimension = 256
[models.whole]
provider = "whole"
model = "{claude}"
[models.signed]
provider = "signed"
[tools.websearch]
api_key_secret = "{provider_key}"
url = "{url}/search"
[tools.photogen]
provider = "bedrock"
model = "{nova}"
[tools.code_interpreter]
runs = "agentcore"
[shields.guardrail]
provider = "bedrock"
shield = "{guardrail}"
[shields.checks]
provider = "bedrock"
params = {{checks = {{content_filter = ["HATE"]}}}}
[shields.asked]
provider = "llama-guard"
shield = "claude"
[shields.whole]
provider = "llama-guard"
shield = "whole"
[shields.local]
provider = "llama-guard"
shield = "local"
[shields.default]
provider = "llama-guard"
shield = "default-model"
"""
OF_DEFAULT = FILE.replace('[tools.photogen]\nprovider = "bedrock"', '[tools.photogen]\nprovider = "default"')
OTHER_FILES = ('default_provider = "local"' + OF_DEFAULT, 'registry = "closed"' + FILE)
CLIENT_TOOL = {"name": "get_weather", "parameters": [{"name": "city", "parameter_type": "string", "description": ""}]}
CALL = "please get_weather(city=Oslo)"
MAKE = 'please code_interpreter(code="x") and photogen(query="a cat")'
SHIELDS = ["guardrail", "checks", "asked"]
OTHER_SHIELDS = ["whole", "local", "default"]
MODELS = ("calls", "default-model", "local", "claude", "whole", "signed")
PAST, FUTURE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2126, 1, 1, tzinfo=UTC)
LARGE_BYTES = 20_000  # in place of the 350 KB that a record holds
NOISE = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=40_000))
# the failures of a function whose payload is lost or whose write is throttled
MISHAPS = (TurnstoneError, AssertionError)
Act = Callable[[], object]
Calls = defaultdict[str, set[Call]]


def full_template(**parameters: str) -> Template:
    """Return the template with every option that an operator can choose."""
    return template(**{"ModelUrl": "http://127.0.0.1/v1", **PARAMETERS, **parameters})


class Session(NamedTuple):
    """A session and its path."""

    agent_id: str
    session_id: str

    @property
    def ref(self) -> SessionRef:
        return SessionRef(tenant=ACCOUNT, agent_id=self.agent_id, session_id=self.session_id)

    @property
    def path(self) -> str:
        return f"/v1/agents/{self.agent_id}/session/{self.session_id}"


class Stage:
    """The functions over an account, and the parts of scenarios.

    Attributes:
        plays: the calls of each play, by function.
        is_chosen: whether the play of a name is to run.
    """

    def __init__(self, cloud: Cloud, url: str) -> None:
        """Take the account, and the address of a server of models."""
        self._url = url
        functions = self._started(FILE, cloud)
        self.cloud = cloud
        self.functions = functions
        self._numbers = count(1)
        self.plays: dict[str, Calls] = {}
        self.is_chosen: Callable[[str], bool] = lambda _: True
        records = DynamoRangeStore(cloud.dynamo, TABLE)
        self.store = OversizeStore(records, S3BlobStore(cloud.s3, BUCKET))

    def restart(self, file: str) -> None:
        """Start the functions with another file of models, over the same account."""
        self.functions = self._started(file, self.cloud)

    def _started(self, file: str, cloud: Cloud) -> Functions:
        names = {"guardrail": GUARDRAIL, "claude": CLAUDE, "nova": NOVA, "titan": TITAN, "provider_key": PROVIDER_KEY}
        cloud.texts[PARAMETERS["ModelsParameter"]] = file.format(url=self._url, **names)
        return Functions(full_template(ModelUrl=self._url), cloud)

    def every_way(self, name: str, scenario: Callable[[], Act]) -> None:
        """Play the scenario, and again for each of its conditional writes, which is refused or throttled."""
        writes, large_writes = self.play(name, scenario)
        for number in range(writes):
            if self.is_chosen(refused := f"{name}, write {number} refused"):
                self.play(refused, scenario, refused=number)
        for number in range(large_writes):
            if self.is_chosen(throttled := f"{name}, large write {number} throttled"):
                self.play(throttled, scenario, failing=number)

    def play(
        self, name: str, scenario: Callable[[], Act], refused: int | None = None, failing: int | None = None
    ) -> tuple[int, int]:
        """Run the scenario over an empty table, with that write refused, or that write of a payload throttled.

        Returns the number of writes that were tried, and of those that had payloads.
        """
        self.cloud.empty()  # otherwise every later sweep reads the records that a refused write leaves open
        with self._recorded(name):
            act = scenario()
            self.cloud.refuse(refused)
            self.cloud.fail(failing)
            with nullcontext() if failing is None else suppress(*MISHAPS):
                act()
        writes = self.cloud.writes, self.cloud.large_writes
        self.cloud.refuse(None)
        self.cloud.fail(None)
        return writes

    def play_with_lost_payloads(self, name: str, scenario: Callable[[], Act]) -> None:
        """Run the scenario over an empty table, and lose every payload before it acts."""
        self.cloud.empty()
        with self._recorded(name):
            act = scenario()
            self.cloud.is_losing = True
            with suppress(*MISHAPS):
                act()
        self.cloud.is_losing = False

    @contextmanager
    def _recorded(self, name: str) -> Iterator[None]:
        """Record the calls within the block as those of the play."""
        self.cloud.calls = self.plays[name] = defaultdict(set)
        yield

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the answer to a request that succeeds, unless payloads are lost."""
        status, answer = self.functions.answer(method, path, body, **headers)
        assert status in (200, 204) or self.cloud.is_losing, (status, answer)
        return answer

    def agent(self, model: str = "calls", **config: Any) -> str:
        config_body = {"model": model, "instructions": "", "client_tools": [CLIENT_TOOL], **config}
        agent_id: str = self.request("POST", "/v1/agents", {"agent_config": config_body})["agent_id"]
        return agent_id

    def session(self, agent_id: str | None = None, name: str = "s", **config: Any) -> Session:
        agent_id = agent_id or self.agent(**config)
        answer = self.request("POST", f"/v1/agents/{agent_id}/session", {"session_name": name})
        return Session(agent_id, answer["session_id"])

    def turn(self, session: Session, text: str = "hello", **more: Any) -> Any:
        return self.request("POST", f"{session.path}/turn", turn_body(text, **more))

    def key(self) -> str:
        return f"key-{next(self._numbers)}"

    def turns(self) -> TurnStore:
        return TurnStore(self.store)

    def abandoned(self, text: str = "hello", **config: Any) -> TurnRef:
        """Return a turn whose process is gone."""
        return self._opened(self.session(**config), text, PAST)[0]

    def overdue(
        self, until: datetime = PAST, settings: Mapping[str, Any] = MappingProxyType({}), **config: Any
    ) -> TurnRef:
        """Return a turn, with such settings, whose state machine waits for its client until that time."""
        session = self.session(**config)
        ref, state = self._opened(session, CALL, FUTURE, **settings)
        call = ToolCall(call_id="c", tool_name="get_weather", arguments={})
        calling = CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(call,))
        step = InferenceStep(
            turn_id=ref.turn_id, step_id="s", started_at=PAST, completed_at=PAST, model_response=calling
        )
        header = SessionStore(self.store).header(ref)
        assert header is not None
        self.turns().commit(ref, paused(header, state.with_step(step), calling, until))
        self.wait_with(ref)
        return ref

    def over(self, agent_id: str) -> Session:
        """Return a session whose end has been overdue for long."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SystemClock, "now", lambda _: PAST)
            return self.session(agent_id)

    def wait_with(self, ref: TurnRef) -> None:
        """Store a task token, as the state machine does when it waits for a client."""
        self.cloud.dynamo.update_item(
            TableName=TABLE,
            Key=encoded_key(turn_key_of(ref)),
            UpdateExpression="SET #token = :token",
            ExpressionAttributeNames={"#token": "token"},
            ExpressionAttributeValues={":token": {"S": "a token"}},
        )

    def _opened(self, session: Session, text: str, lease_until: datetime, **settings: Any) -> tuple[TurnRef, TurnState]:
        turn_id = RandomIds().new_id()
        turn = Turn(
            turn_id=turn_id,
            session_id=session.session_id,
            input_messages=(UserMessage(content=text),),
            output_message=silent_output(),
            started_at=PAST,
        )
        header = SessionStore(self.store).header(session.ref)
        assert header is not None
        state = TurnState(turn=turn, order=turn_id, **settings)
        committed = self.turns().commit(session.ref, opened(header, state, lease_until, "request"))
        return TurnRef(**session.ref.model_dump(), turn_id=turn_id), committed.turns[0]

    def job(self, kind: str, session: Session, at: datetime, order: str = "") -> Job:
        """Store a job and return it."""
        ids = {"agent_id": session.agent_id, "session_id": session.session_id, "order": order or session.session_id}
        job = Job.model_validate({"kind": kind, "tenant": ACCOUNT, "since": at, "due_at": at, **ids})
        self.store.write([put_job(job)])
        return job

    def deliveries(self) -> list[Job]:
        """Return the jobs of events and deliveries that are due now."""
        return [
            job for job in JobStore(self.store).due(datetime.now(UTC)) if job.kind in ("send_event", "send_webhook")
        ]

    def clean(self, *jobs: Job) -> Any:
        (record,) = load_event("jobs")["Records"]
        records = [{**record, "messageId": job.order + job.name, "body": job.to_json()} for job in jobs]
        if not records:
            return {"batchItemFailures": []}
        answer = self.functions.invoke("CleanUp", {"Records": records})
        assert answer == {"batchItemFailures": []}, answer
        return answer


def turn_body(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "stream": False, **more}


@contextmanager
def stage() -> Iterator[Stage]:
    """Yield an account with the functions of the full template in it."""
    with ModelServer() as server, Cloud() as cloud, pytest.MonkeyPatch.context() as patch:
        patch.setattr(oversize, "RECORD_BYTES", LARGE_BYTES)
        cloud.texts |= {MODEL_KEY: "a-key", PROVIDER_KEY: "another-key"}
        yield Stage(cloud, server.url)
