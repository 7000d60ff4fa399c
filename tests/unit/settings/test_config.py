"""Settings: an error stops the start and names its variable, and on AWS nothing stands in for a model by default.

Covers: settings, bootstrap/places/aws, adapters/aws/secrets
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

import turnstone.bootstrap.places.aws
from functions.agents import get_agent
from functions.models import list_models
from functions.server import health
from functions.turns import create_turn, get_turn, resume_turn
from tests.support.aws.cloudformation import ROOT
from tests.support.aws.sam_expansion import load_source
from turnstone.adapters.aws.secrets import secret_text
from turnstone.adapters.fetching.allowing import Allowed
from turnstone.adapters.fetching.targets import to_target
from turnstone.adapters.models.offline.offline import OfflineInference
from turnstone.adapters.models.openai.openai_compatible import OpenAICompatibleInference
from turnstone.adapters.models.prompted.prompted_tools import PromptedTools
from turnstone.adapters.models.routed import RoutedInference
from turnstone.bootstrap.places.aws import AwsPorts
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.edge.gateway import LambdaHandler
from turnstone.edge.worker import TurnWorker
from turnstone.ports.models import Inference
from turnstone.settings.config import InvalidSettings, LambdaSettings, Settings, is_function, load_settings
from turnstone.settings.local_settings import LocalSettings

KEY = "sk-0123456789abcdef"
MODEL = "https://models.example/v1"
REQUIRED = {"TURNSTONE_TABLE": "turns", "TURNSTONE_BUCKET": "payloads"}
MACHINE = {"TURNSTONE_STATE_MACHINE_ARN": "arn:aws:states:eu-central-1:123456789012:stateMachine:s"}

SetEnvironment = Callable[..., None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> SetEnvironment:
    """Make these variables the only ones of ours."""
    for name in list(os.environ):
        if name.startswith(("TURNSTONE_", "AWS_")) or name == "_HANDLER":
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }.items():
        monkeypatch.setenv(name, value)

    def set_variables(*groups: dict[str, str], **more: str) -> None:
        for group in (*groups, more):
            for name, value in group.items():
                monkeypatch.setenv(name, value)

    return set_variables


# ---- reading


def test_a_lambda_needs_its_table_and_its_bucket_and_nothing_else(environment: SetEnvironment) -> None:
    environment(REQUIRED)
    settings = load_settings(LambdaSettings)
    assert (settings.table, settings.bucket) == ("turns", "payloads")
    assert (settings.model_url, settings.model_api_key_secret, settings.state_machine_arn) == (None, None, None)


@pytest.mark.parametrize("missing", REQUIRED)
@pytest.mark.parametrize("how", ["unset", "empty"])
def test_a_missing_variable_is_named(environment: SetEnvironment, missing: str, how: str) -> None:
    environment({name: value for name, value in REQUIRED.items() if name != missing})
    if how == "empty":
        environment({missing: ""})
    with pytest.raises(InvalidSettings) as raised:
        load_settings(LambdaSettings)
    assert str(raised.value) == f"{missing}: must be set"


@pytest.mark.parametrize("kind", [LocalSettings, LambdaSettings])
def test_every_problem_is_named_and_no_value_is_shown(environment: SetEnvironment, kind: type[Settings]) -> None:
    environment(REQUIRED if kind is LambdaSettings else {})
    environment(TURNSTONE_LEASE_SECONDS="soon-abc", TURNSTONE_MODEL_URL="ftp://secret-abc", TURNSTONE_TABEL="typo-abc")
    with pytest.raises(InvalidSettings) as raised:
        load_settings(kind)
    message = str(raised.value)
    assert [name for name in ("LEASE_SECONDS", "MODEL_URL", "TABEL") if f"TURNSTONE_{name}: " in message] == [
        "LEASE_SECONDS",
        "MODEL_URL",
        "TABEL",
    ]
    assert "TURNSTONE_TABEL: there is no such setting" in message
    assert "abc" not in message


def test_a_tenant_has_three_quarters_of_the_slots_by_default_and_all_without_authentication(
    environment: SetEnvironment,
) -> None:
    environment(REQUIRED)
    assert load_settings(LambdaSettings).tenant_turns == 48
    environment(TURNSTONE_MAX_TENANT_TURNS="64")
    assert load_settings(LambdaSettings).tenant_turns == 64
    for slots, share in ((1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (100, 75)):
        assert LocalSettings(auth="api_keys", max_running_turns=slots).tenant_turns == share
        assert LocalSettings(max_running_turns=slots).tenant_turns == slots


def test_a_share_without_an_effect_is_refused(environment: SetEnvironment) -> None:
    environment(TURNSTONE_MAX_TENANT_TURNS="9", TURNSTONE_MAX_RUNNING_TURNS="8")
    with pytest.raises(InvalidSettings) as refused:
        load_settings(LocalSettings)
    message = "TURNSTONE_MAX_TENANT_TURNS: must not be above TURNSTONE_MAX_RUNNING_TURNS, which is 8"
    assert str(refused.value).split("; ") == [
        message,
        "TURNSTONE_MAX_TENANT_TURNS: has no effect while TURNSTONE_AUTH is off",
    ]


def test_a_tenant_has_a_quarter_of_the_queue_by_default_and_all_without_authentication() -> None:
    assert LocalSettings().place_wait_seconds == 5
    for requests, of_tenant in ((1, 1), (4, 1), (1_000, 250)):
        assert LocalSettings(auth="api_keys", max_waiting_requests=requests).tenant_waiting_requests == of_tenant
        assert LocalSettings(max_waiting_requests=requests).tenant_waiting_requests == requests
    assert LocalSettings(auth="api_keys", max_tenant_waiting_requests=900).tenant_waiting_requests == 900


def test_a_part_of_the_queue_without_an_effect_is_refused(environment: SetEnvironment) -> None:
    environment(TURNSTONE_MAX_TENANT_WAITING_REQUESTS="9", TURNSTONE_MAX_WAITING_REQUESTS="8")
    with pytest.raises(InvalidSettings) as refused:
        load_settings(LocalSettings)
    assert str(refused.value).split("; ") == [
        "TURNSTONE_MAX_TENANT_WAITING_REQUESTS: has no effect while TURNSTONE_AUTH is off",
        "TURNSTONE_MAX_TENANT_WAITING_REQUESTS: must not be above TURNSTONE_MAX_WAITING_REQUESTS, which is 8",
    ]


def test_limits_of_turns_have_defaults_that_none_turns_off(environment: SetEnvironment) -> None:
    limits = ("max_turn_tokens", "max_turn_seconds", "max_day_tokens")
    assert [getattr(load_settings(LocalSettings), name) for name in limits] == [5_000_000, 3_600, None]
    environment({f"TURNSTONE_{name.upper()}": "none" for name in limits})
    assert [getattr(load_settings(LocalSettings), name) for name in limits] == [None, None, None]
    environment({f"TURNSTONE_{name.upper()}": "0" for name in limits}, TURNSTONE_MAX_INFER_ITERS="9")
    with pytest.raises(InvalidSettings) as refused:
        load_settings(LocalSettings)
    assert all(f"TURNSTONE_{name.upper()}: " in str(refused.value) for name in (*limits, "max_infer_iters"))


@pytest.mark.parametrize("name", ["TABLE", "BUCKET", "STATE_MACHINE_ARN", "MODEL_API_KEY_SECRET", "ROUTE_MODULE"])
def test_a_server_on_one_machine_refuses_what_only_a_lambda_has(environment: SetEnvironment, name: str) -> None:
    environment({f"TURNSTONE_{name}": "x"})
    with pytest.raises(InvalidSettings, match=f"TURNSTONE_{name}: there is no such setting"):
        load_settings(LocalSettings)


@pytest.mark.parametrize("name", ["PORT", "DATA_DIR", "MODEL_API_KEY", "DRAIN_SECONDS"])
def test_a_lambda_refuses_what_only_a_server_on_one_machine_has(environment: SetEnvironment, name: str) -> None:
    """A model's key above all: every reader of a function's configuration sees its environment."""
    environment(REQUIRED, {f"TURNSTONE_{name}": "1"})
    with pytest.raises(InvalidSettings, match=f"TURNSTONE_{name}: there is no such setting"):
        load_settings(LambdaSettings)


@pytest.mark.parametrize("kind", [LocalSettings, LambdaSettings])
def test_an_empty_variable_is_an_unset_one(environment: SetEnvironment, kind: type[Settings]) -> None:
    environment(REQUIRED if kind is LambdaSettings else {})
    unset = load_settings(kind)
    fields = [f"TURNSTONE_{field.upper()}" for field in kind.model_fields if field not in ("table", "bucket")]
    environment({name: "" for name in (*fields, "TURNSTONE_NO_SUCH_THING")})
    assert unset == load_settings(kind)


def test_a_function_is_the_one_that_lambda_was_configured_to_run(environment: SetEnvironment) -> None:
    assert not is_function("turns.create_turn")
    environment(_HANDLER="turns.create_turn.handler")
    assert is_function("turns.create_turn")
    assert not is_function("turns.create")
    assert not is_function("turns.create_turn.handler")
    assert not is_function("functions.turns.create_turn")


# ---- requirements of a function before its first event


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("turnstone.edge.logs.begin_logging", lambda *_: None)
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    asyncio.set_event_loop(None)
    made.close()


MODULES = {module.__name__: module for module in (create_turn, resume_turn, get_turn, get_agent, list_models, health)}


def start(environment: SetEnvironment, module: str) -> LambdaHandler:
    """Return the handler as the Lambda has it, whose module is imported before the first event."""
    environment(_HANDLER=f"{module}.handler")
    declared: Any = MODULES[module].handler
    return LambdaHandler(module, *declared.routes, loads=declared._loads)


@pytest.mark.parametrize("module", ["functions.turns.create_turn", "functions.turns.resume_turn"])
def test_a_function_that_runs_turns_does_not_start_without_a_model(
    environment: SetEnvironment, loop: None, module: str
) -> None:
    environment(REQUIRED, MACHINE)
    with pytest.raises(InvalidSettings) as raised:
        start(environment, module)
    assert str(raised.value) == "TURNSTONE_MODEL_URL: must be set; the offline model is named offline"


def test_neither_do_the_worker_and_the_list_of_models(environment: SetEnvironment, loop: None) -> None:
    environment(REQUIRED, MACHINE, _HANDLER="turn_supervisor.run_turn.handler")
    with pytest.raises(InvalidSettings, match="TURNSTONE_MODEL_URL"):
        TurnWorker("turn_supervisor.run_turn")
    with pytest.raises(InvalidSettings, match="TURNSTONE_MODEL_URL"):
        start(environment, "functions.models.list_models")


def test_the_offline_model_runs_turns_where_it_is_configured_by_name(environment: SetEnvironment, loop: None) -> None:
    environment(REQUIRED, MACHINE, TURNSTONE_MODEL_URL="offline")
    start(environment, "functions.turns.create_turn")
    model = AwsPorts(load_settings(LambdaSettings)).inference
    assert isinstance(model, RoutedInference)
    assert isinstance(model.provider("default"), OfflineInference)


@pytest.mark.parametrize(
    "module", ["functions.turns.get_turn", "functions.agents.get_agent", "functions.server.health"]
)
def test_a_function_that_only_reads_starts_without_a_model(
    environment: SetEnvironment, loop: None, module: str
) -> None:
    environment(REQUIRED, MACHINE)
    start(environment, module)


@pytest.mark.parametrize("module", ["functions.turns.create_turn", "functions.turns.get_turn"])
def test_a_function_whose_turns_are_supervised_does_not_start_without_a_state_machine(
    environment: SetEnvironment, loop: None, module: str
) -> None:
    environment(REQUIRED, TURNSTONE_MODEL_URL="offline")
    with pytest.raises(InvalidSettings, match="TURNSTONE_STATE_MACHINE_ARN: must be set"):
        start(environment, module)


def test_a_function_with_a_setting_that_does_not_exist_does_not_start(environment: SetEnvironment, loop: None) -> None:
    environment(REQUIRED, TURNSTONE_TABEL="x")
    with pytest.raises(InvalidSettings, match="TURNSTONE_TABEL"):
        start(environment, "functions.server.health")


def test_a_module_that_is_not_the_function_loads_nothing(environment: SetEnvironment) -> None:
    environment(_HANDLER="another.handler")
    LambdaHandler("functions.turns.create_turn", create_turn.ROUTE, loads="turns")
    TurnWorker("turn_supervisor.run_turn")


# ---- the model's key


class Secrets:
    """A Secrets Manager with one answer."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self._answer = answer
        self.read: list[str] = []

    def get_secret_value(self, SecretId: str) -> dict[str, Any]:
        self.read.append(SecretId)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def ports_with(secrets: Secrets, monkeypatch: pytest.MonkeyPatch) -> AwsPorts:
    class Clients:
        def client(self, service: str) -> Any:
            return secrets if service == "secretsmanager" else None

        def lazy_client(self, service: str) -> Any:
            return None

    monkeypatch.setattr(turnstone.bootstrap.places.aws, "AwsClients", Clients)
    return AwsPorts(load_settings(LambdaSettings))


def key_of(model: Inference) -> str:
    assert isinstance(model, RoutedInference)
    provider = model.provider("default")
    assert isinstance(provider, PromptedTools)
    assert isinstance(provider._inference, OpenAICompatibleInference)
    return provider._inference._access.key(NO_PROVIDER_DATA)


@pytest.fixture
def with_key(environment: SetEnvironment) -> None:
    environment(REQUIRED, TURNSTONE_MODEL_URL=MODEL, TURNSTONE_MODEL_API_KEY_SECRET="model-key")


@pytest.mark.parametrize("stored", [KEY, f"{KEY}\n", f"  {KEY}\r\n\t"])
def test_the_key_is_read_once_by_its_name_and_stripped(
    with_key: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stored: str
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = Secrets({"SecretString": stored})
    ports = ports_with(secrets, monkeypatch)
    assert secrets.read == [], "a function whose route uses no model reads no key"
    model = ports.inference
    assert model is ports.inference
    assert secrets.read == ["model-key"]
    assert key_of(model) == KEY
    assert KEY not in caplog.text + repr(model) + repr(ports)


def test_without_the_name_of_a_secret_none_is_read(
    environment: SetEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(REQUIRED, TURNSTONE_MODEL_URL=MODEL)
    secrets = Secrets({"SecretString": KEY})
    model = ports_with(secrets, monkeypatch).inference
    assert (secrets.read, key_of(model)) == ([], "")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ClientError({"Error": {"Code": "AccessDeniedException", "Message": KEY}}, "GetSecretValue"), "AccessDenied"),
        (ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "GetSecretValue"), "ResourceNotFound"),
        (NoCredentialsError(), "credentials"),
    ],
    ids=["forbidden", "missing", "unreachable"],
)
def test_a_secret_that_can_not_be_read_is_a_clear_failure(
    with_key: None, monkeypatch: pytest.MonkeyPatch, answer: Exception, message: str
) -> None:
    with pytest.raises(StoreUnavailable, match=f"the secret 'model-key' can't be read: .*{message}") as raised:
        _ = ports_with(Secrets(answer), monkeypatch).inference
    assert KEY not in str(raised.value)


def test_a_secret_that_no_header_can_carry_is_refused_at_the_start_without_being_shown(
    with_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret of several fields, for example: an error of the connection would quote it."""
    with pytest.raises(ValueError, match="key") as raised:
        _ = ports_with(Secrets({"SecretString": f'{{\n"key": "{KEY}"\n}}'}), monkeypatch).inference
    assert KEY not in str(raised.value)


def test_the_text_of_a_secret_is_all_that_is_taken_of_it() -> None:
    assert secret_text(Secrets({"SecretString": f" {KEY} ", "Name": "model-key"}), "model-key") == KEY


@pytest.mark.parametrize("url", ["http://h:99999/v1", "http://:80/v1", "http://h:port/v1", "http://[::1/v1"])
def test_a_model_url_must_name_a_host_and_a_port_that_can_be(url: str, environment: SetEnvironment) -> None:
    environment(TURNSTONE_MODEL_URL=url)
    with pytest.raises(InvalidSettings, match="TURNSTONE_MODEL_URL: "):
        load_settings(LocalSettings)


def test_targets_that_may_be_fetched_are_hosts_with_ports(environment: SetEnvironment) -> None:
    environment(TURNSTONE_FETCH_ALLOW="Intranet.example:8443, 10.0.0.5:80,[::1]:8080,mcp:1")
    assert load_settings(LocalSettings).fetch_allow == (
        ("intranet.example", 8443), ("10.0.0.5", 80), ("[::1]", 8080), ("mcp", 1)
    )  # fmt: skip
    assert Allowed.of(load_settings(LocalSettings).fetch_allow).has(to_target("http://0xA.5:80/"))


@pytest.mark.parametrize(
    "targets",
    [
        "intranet.example", "intranet.example:", ":80", "intranet.example:0", "intranet.example:65536", "*:80",
        "http://intranet.example:80", "intranet.example:80/path", "user@intranet.example:80", "10.0.0.0/8:80",
        "10.0.0.256:80", "0x7f.1:80", "127.1:80", "::1:80", "[::1%lo]:80", "[10.0.0.5]:80", "büro.example:80",
        "a:1,,b:2", "a:1,", "a:1;b:2", "a b:1", "-a:1", "a..b:1", f"{'a' * 64}:1", "a:٨٠",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [LocalSettings, LambdaSettings])
def test_any_other_form_of_a_target_stops_the_start(
    environment: SetEnvironment, targets: str, kind: type[Settings]
) -> None:
    environment(REQUIRED if kind is LambdaSettings else {}, TURNSTONE_FETCH_ALLOW=targets)
    with pytest.raises(InvalidSettings, match="TURNSTONE_FETCH_ALLOW: must be host:port pairs"):
        load_settings(kind)


ORIGINS = [
    "https://app.example",
    "http://localhost:5173",
    "http://127.0.0.1",
    "https://[::1]:8443",
    "https://xn--bro-hoa.example",
]
NOT_ORIGINS = [
    "*", "null", "https://*", "https://*.example", "app.example", "//app.example", "https://", "https://app.example/",
    "https://app.example/path", "https://app.example?q", "https://app.example#f", "https://me:secret@app.example",
    "https://app.example:443", "http://app.example:80", "https://app.example:0", "https://app.example:65536",
    "https://app.example:", "https://app.example:08443", "ftp://app.example", "file://", "https://b\u00fcro.example",
    "https://a..b", "https://app.example.", "http://127.1", "http://0x7f.0.0.1", "http://[0:0::1]", "http://[::1",
    "https://app.example https://b.example", "https://a.example,,https://b.example", "https://a.example,", ",",
    "https://a.example;https://b.example", "https://a.example,*", "https://app.example\n.evil",
]  # fmt: skip


@pytest.mark.parametrize("kind", [LocalSettings, LambdaSettings])
def test_origins_are_exact_and_in_lower_case_as_browsers_send_them(
    environment: SetEnvironment, kind: type[Settings]
) -> None:
    environment(REQUIRED if kind is LambdaSettings else {})
    assert load_settings(kind).cors_origins == ()
    text = ", ".join([*ORIGINS, "HTTPS://App.Example"])
    environment(REQUIRED if kind is LambdaSettings else {}, TURNSTONE_CORS_ORIGINS=text)
    assert load_settings(kind).cors_origins == tuple(ORIGINS)


@pytest.mark.parametrize("text", NOT_ORIGINS)
def test_anything_but_an_exact_origin_stops_the_start(environment: SetEnvironment, text: str) -> None:
    environment(TURNSTONE_CORS_ORIGINS=text)
    with pytest.raises(InvalidSettings) as raised:
        load_settings(LocalSettings)
    message = str(raised.value)
    assert message.startswith("TURNSTONE_CORS_ORIGINS: must be exact origins")
    assert message.endswith(" is none")
    assert message.isprintable()
    assert "secret" not in message


def test_the_wrong_one_of_several_origins_is_named(environment: SetEnvironment) -> None:
    environment(TURNSTONE_CORS_ORIGINS="https://a.example,https://b.example/")
    with pytest.raises(InvalidSettings, match=r"; 'https://b\.example/' is none$"):
        load_settings(LocalSettings)


def test_the_parameter_of_origins_takes_what_a_function_takes() -> None:
    pattern = re.compile(load_source(ROOT / "template.yaml")["Parameters"]["CorsOrigins"]["AllowedPattern"])
    for text in ("", *ORIGINS, ",".join(ORIGINS)):
        assert pattern.fullmatch(text), text
    # numbers out of range and long forms of an address are left to the functions
    beyond = {"https://app.example:65536", "http://127.1", "http://0x7f.0.0.1", "http://[0:0::1]"}
    taken = {text for text in NOT_ORIGINS if pattern.fullmatch(text)}
    assert taken == beyond


# ---- messages of errors


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"AUHT": "x"}, "AUHT: there is no such setting; did you mean TURNSTONE_AUTH?"),
        ({"DATADIR": "x"}, "DATADIR: there is no such setting; did you mean TURNSTONE_DATA_DIR?"),
        ({"COLOUR": "x"}, "COLOUR: there is no such setting"),
        (
            {"TABLE": "x"},
            "TABLE: there is no such setting of a server on one machine, only of functions on AWS; unset it",
        ),
        ({"AUTH": "on"}, "AUTH: must be off, api_keys or jwt"),
        ({"PORT": "70000"}, "PORT: must be a whole number from 0 to 65,535"),
        ({"HOST": "localhost"}, "HOST: must be an IP address, such as 127.0.0.1"),
        ({"ALLOW_OPEN": "maybe"}, "ALLOW_OPEN: must be true or false"),
        ({"AWAIT_SECONDS": "inf"}, "AWAIT_SECONDS: must be a number above 0 and at most 31,536,000"),
        ({"LEASE_SECONDS": "x"}, "LEASE_SECONDS: must be a number from 0.3 to 3,600"),
        ({"MAX_TENANT_TURNS": "0", "AUTH": "jwt"}, "MAX_TENANT_TURNS: must be a whole number from 1 to 4,096"),
        (
            {"MAX_DAY_TOKENS": "0"},
            "MAX_DAY_TOKENS: must be a whole number from 1 to 1,000,000,000,000, or the word none",
        ),
        (
            {"MODEL_URL": "localhost:1"},
            "MODEL_URL: must be a URL that begins with http:// or https:// and names a host, or the word offline",
        ),
        (
            {"PUBLIC_URL": "https://h/?q"},
            "PUBLIC_URL: must be a URL that begins with http:// or https:// and names a host, without a query",
        ),
        ({"MODEL_API_KEY": "a b"}, "MODEL_API_KEY: must be a key of visible ASCII characters without spaces"),
    ],
)
def test_an_error_names_the_values_that_are_valid(
    environment: SetEnvironment, given: dict[str, str], expected: str
) -> None:
    environment({f"TURNSTONE_{name}": value for name, value in given.items()})
    with pytest.raises(InvalidSettings) as raised:
        load_settings(LocalSettings)
    assert str(raised.value) == f"TURNSTONE_{expected}"


def test_every_setting_that_a_text_can_violate_names_its_valid_values(environment: SetEnvironment) -> None:
    """A field that is added without a description of its values is noticed here."""
    free = {"model_url", "config", "data_dir", "jwt_issuer", "jwt_audience", "jwt_tenant"}
    environment({f"TURNSTONE_{name.upper()}": "\u00e4 ?" for name in LocalSettings.model_fields})
    with pytest.raises(InvalidSettings) as raised:
        load_settings(LocalSettings)
    messages = dict(problem.split(": ", 1) for problem in str(raised.value).split("; TURNSTONE_"))
    named = {name.removeprefix("TURNSTONE_").lower() for name in messages}
    assert LocalSettings.model_fields.keys() - free <= named | {"model_url"}
    assert all(words.startswith("must be ") for words in messages.values()), messages


@pytest.mark.parametrize("url", ["https://h.example", "https://h.example/", "https://h.example/a//"])
def test_slashes_at_the_end_of_the_public_address_are_dropped(environment: SetEnvironment, url: str) -> None:
    environment(TURNSTONE_PUBLIC_URL=url)
    assert load_settings(LocalSettings).public_url == url.rstrip("/")


def test_a_clients_key_stops_the_start_of_a_server_without_authentication_only(environment: SetEnvironment) -> None:
    environment(TURNSTONE_API_KEY=KEY, TURNSTONE_URL="https://agents.example")
    with pytest.raises(InvalidSettings, match=r"TURNSTONE_API_KEY: is set, but TURNSTONE_AUTH is off") as raised:
        load_settings(LocalSettings).refuse_unused_key()
    assert KEY not in str(raised.value)
    environment(TURNSTONE_AUTH="api_keys")
    load_settings(LocalSettings).refuse_unused_key()
