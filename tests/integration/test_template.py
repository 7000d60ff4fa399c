"""The template says what the code needs: every route, every setting, no right too many."""

import importlib
import json
import os
import re
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from functions.local import ROUTES as LOCAL_ROUTES
from tests.cloudformation import ROOT, Template, template, variables
from tests.contract.dynamo_table import TABLE
from turnstone.auth_settings import AuthorizerSettings
from turnstone.config import PREFIX, LambdaSettings, load_settings
from turnstone.domain.errors import StoreUnavailable, Unauthenticated
from turnstone.http.errors import error_reply
from turnstone.http.openapi import SIGV4, answers_of, openapi_document
from turnstone.http.routes import FileReply, ModelStreamReply, PiecesReply, Route, TurnStreamReply

EDGE = ROOT / "functions"
STREAMING = {
    "turns.create_turn",
    "turns.resume_turn",
    "turns.get_events",
    "sessions.get_session",
    "agents.list_agents",
    "sessions.list_sessions",
    "inference.chat_completion",
    "inference.create_chat_completion",
    "inference.create_embedding",
    "inference.embed_contents",
    "attachments.get_attachment",
    "turns_2024.create_turn_2024",
    "turns_2024.get_session_2024",
}
ASKING_MODELS = {"Models", "Inference"}
RUNNING_TURNS = {"CreateTurn", "ResumeTurn", "Turns2024", "RunTurn", "Sweeper"}
SENDING_JOBS = {"DeleteAgent", "Agents2024", "DeleteSession", "CleanUp", "Sweeper"}
OPENING_SESSIONS = {"CreateSession", "Agents2024"}
KEY_ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:model-key-AbCdEf"
AUTHS = {
    "api_keys": {"Auth": "api_keys"},
    "AWS_IAM": {"Auth": "AWS_IAM"},
    "jwt": {
        "Auth": "jwt",
        "JwtIssuer": "https://issuer.example",
        "JwtAudience": "turnstone",
        "JwtJwksUrl": "https://issuer.example/keys",
        "JwtClaims": "tenant=org",
    },
}
MODES = {"adapter": {"StreamingMode": "adapter"}, "buffered": {"StreamingMode": "buffered"}}


@dataclass(frozen=True)
class Integration:
    """How the API passes a route on."""

    function: str
    streams: bool = False
    timeout_ms: int | None = None


UNSERVED = {(method, "/{path+}"): "Unserved" for method in ("GET", "POST", "DELETE")}
# a path that is served with another method is not taken by the one for all paths
UNSERVED |= {("GET", f"/v1{within}/chat/completions"): "Unserved" for within in ("", "/openai/v1")}


def gateway_paths(route: Route) -> list[tuple[str, str]]:
    """Return method and path of each resource that leads to the route, as the gateway writes it."""
    paths = (path.removesuffix("}") + "+}" if route.takes_slashes else path for path in route.paths)
    return [(route.method, path) for path in paths]


def modules() -> dict[str, Route]:
    """Return the route of each module that declares one, by the module's name in a Lambda."""
    declared = {}
    for path in sorted(EDGE.glob("*/*.py")):
        if re.search(r"^ROUTE\b", path.read_text(), re.MULTILINE):
            name = f"{path.parent.name}.{path.stem}"
            declared[name] = importlib.import_module(f"functions.{name}").ROUTE
    return declared


def integrations(made: Template) -> dict[tuple[str, str], Integration]:
    """Return where the API sends each method of each path, those of events and those written out."""
    found = {}
    for name, function in made.functions.items():
        for event in function.get("Events", {}).values():
            properties = event["Properties"]
            if name == "CleanUp":
                continue
            if name == "Sweeper":
                assert (event["Type"], properties["Schedule"]) == ("Schedule", "rate(5 minutes)")
                continue
            assert event["Type"] == "Api"
            assert properties["RestApiId"] == {"Ref": "Api"}
            route = properties["Method"], properties["Path"]
            assert route not in found, f"{route} has two functions"
            found[route] = Integration(name)
    for path, methods in made.resources["Api"]["Properties"]["DefinitionBody"]["paths"].items():
        for method, operation in methods.items():
            assert (method.upper(), path) not in found, f"{method} {path} has two functions"
            found[method.upper(), path] = _written_out(operation["x-amazon-apigateway-integration"])
    return found


def _written_out(integration: dict[str, Any]) -> Integration:
    assert (integration["type"], integration["httpMethod"]) == ("aws_proxy", "POST")
    uri = re.fullmatch(r".*:lambda:path/(.+)/functions/\$\{(\w+)\.Arn\}/(.+)", integration["uri"]["Fn::Sub"])
    assert uri is not None
    streams = integration.get("responseTransferMode") == "STREAM"
    streamed, buffered = ("2021-11-15", "response-streaming-invocations"), ("2015-03-31", "invocations")
    assert (uri[1], uri[3]) == (streamed if streams else buffered)
    return Integration(uri[2], streams, integration.get("timeoutInMillis"))


def served_modules(function: dict[str, Any]) -> set[str]:
    """Return the route modules a function serves, whichever way it is started."""
    handler: str = function["Handler"]
    streamed = variables(function).get("TURNSTONE_ROUTE_MODULE", "")
    module = streamed if handler == "stream.sh" else handler.removesuffix(".handler")
    if module.endswith(".family"):
        return {name for name in modules() if name.split(".")[0] == module.split(".")[0]}
    return {module}


@pytest.mark.parametrize("mode", MODES)
def test_every_route_has_one_function_and_no_function_has_another_route(mode: str) -> None:
    made = template(StreamingMode=mode)
    declared = {resource: name for name, route in modules().items() for resource in gateway_paths(route)}
    served = integrations(made)
    assert {resource: served.pop(resource).function for resource in UNSERVED} == UNSERVED
    assert set(declared) == set(served)
    for route, integration in served.items():
        assert declared[route] in served_modules(made.functions[integration.function])


def test_the_api_and_its_document_have_the_same_routes_and_stream_the_same_ones() -> None:
    document = openapi_document(list(modules().values()), SIGV4)
    described = {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    served = integrations(template())
    told = [route for route in LOCAL_ROUTES if route.reply]
    assert set(described) == {(route.method, path) for route in told for path in route.paths}
    assert set(served) - set(UNSERVED) == {resource for route in LOCAL_ROUTES for resource in gateway_paths(route)}
    told_as_stream = {
        route
        for route, operation in described.items()
        if "text/event-stream" in operation["responses"].get("200", {"content": ()})["content"]
    }
    outgrow_a_function = {
        (route.method, path)
        for route in modules().values()
        for path in route.paths
        if {FileReply, PiecesReply, TurnStreamReply, ModelStreamReply} & set(answers_of(route))
    }
    streamed = {route for route, integration in served.items() if integration.streams}
    assert told_as_stream <= streamed
    assert outgrow_a_function == streamed


def test_no_module_of_a_function_hides_one_of_pythons_own() -> None:
    """In a Lambda the folders of `functions/` stand before the standard library's modules and the layer's."""
    on_top = {path.stem for path in EDGE.iterdir() if path.suffix == ".py" or path.is_dir()} - {
        "__init__",
        "__pycache__",
    }
    in_layer = {
        line.split("==")[0].replace("-", "_") for line in (ROOT / "shared/requirements.txt").read_text().splitlines()
    }
    assert not on_top & (sys.stdlib_module_names | in_layer | {"turnstone"})


def test_routes_of_agents_sessions_turns_and_steps_have_a_function_each() -> None:
    made = template()
    for function in made.functions.values():
        served = served_modules(function)
        families = {name.split(".")[0] for name in served}
        several = (
            {"server"},
            {"models"},
            {"tools"},
            {"shields"},
            {"usage"},
            {"inference"},
            {"agents_2024"},
            {"reads_2024"},
            {"turns_2024"},
        )
        assert len(served) == 1 or families in several


@pytest.mark.parametrize("mode", MODES)
def test_what_streams_does_so_by_the_adapter_and_nothing_else_does(mode: str) -> None:
    made = template(StreamingMode=mode)
    for integration in integrations(made).values():
        function = made.functions[integration.function]
        can_stream = served_modules(function) <= STREAMING
        streams = can_stream and mode == "adapter"
        assert streams == integration.streams
        assert (900_000 if streams else None) == integration.timeout_ms
        assert streams == (function["Handler"] == "stream.sh")
        assert streams == any("LambdaAdapterLayer" in str(layer) for layer in function["Layers"])
        assert streams == (variables(function).get("AWS_LAMBDA_EXEC_WRAPPER") == "/opt/bootstrap")
        if streams:
            assert variables(function)["AWS_LWA_INVOKE_MODE"] == "response_stream"
            assert variables(function)["AWS_LWA_READINESS_CHECK_PROTOCOL"] == "tcp"
        assert function["Timeout"] == (900 if can_stream else 30)


def test_the_routes_that_are_written_out_may_be_called_by_the_api_only() -> None:
    made = template()
    written_out = {(route, i.function) for route, i in integrations(made).items() if i.streams}
    others = {path for route in modules().values() for path in route.paths[1:]}
    aliases = {((method, path), name) for (method, path), name in written_out if path in others}
    allowed = set()
    for name, permission in made.of_type("AWS::Lambda::Permission").items():
        if name == "AuthorizePermission":
            continue
        assert permission["Action"] == "lambda:InvokeFunction"
        assert permission["Principal"] == "apigateway.amazonaws.com"
        _, method, path = permission["SourceArn"]["Fn::Sub"].split("${Api}/")[1].split("/", 2)
        allowed.add(((method, f"/{path}"), permission["FunctionName"]["Ref"]))
    stars = {((method, re.sub(r"\{\w+\}", "*", path)), name) for (method, path), name in written_out - aliases}
    # `v1*` stands for a path and its alias
    assert {((method, re.sub("^/v1(/openai/v1)?/", "/v1*/", path)), name) for (method, path), name in stars} == {
        ((method, re.sub("^/v1/", "/v1*/", path)), name) for (method, path), name in allowed
    }
    for name, path in {(name, path) for (_, path), name in allowed if "*" not in path}:
        assert not [alias for alias in others if alias == path], name


@pytest.mark.parametrize("auth", AUTHS)
def test_no_route_is_open(auth: str) -> None:
    made = template(**AUTHS[auth])
    api = made.resources["Api"]["Properties"]
    assert set(api["Auth"]) == {"DefaultAuthorizer", "InvokeRole", "Authorizers"}
    assert (api["Auth"]["DefaultAuthorizer"], api["Auth"]["InvokeRole"]) == (auth, "NONE")
    assert auth in {*api["Auth"]["Authorizers"], "AWS_IAM"}
    assert api["EndpointConfiguration"] == {"Type": "REGIONAL"}
    assert not [key for key in api["DefinitionBody"] if "security" in key]
    for methods in api["DefinitionBody"]["paths"].values():
        assert [set(operation) for operation in methods.values()] == [{"responses", "x-amazon-apigateway-integration"}]
    for function in made.functions.values():
        assert "FunctionUrlConfig" not in function
        assert not [event for event in function.get("Events", {}).values() if "Auth" in event["Properties"]]


def test_every_way_to_prove_who_calls_is_tested_and_leads_to_the_one_authorizer() -> None:
    made = template()
    assert set(made.declared_parameters["Auth"]["AllowedValues"]) == set(AUTHS)
    assert made.parameters["Auth"] == "api_keys"
    authorizers = made.resources["Api"]["Properties"]["Auth"]["Authorizers"]
    assert set(authorizers) == set(AUTHS) - {"AWS_IAM"}
    for authorizer in authorizers.values():
        assert authorizer["FunctionArn"] == {"Fn::GetAtt": ["Authorize", "Arn"]}
        assert authorizer["FunctionPayloadType"] == "REQUEST"
        assert authorizer["Identity"] == {"Headers": ["Authorization"], "ReauthorizeEvery": 60}


@pytest.mark.parametrize("auth", AUTHS)
def test_the_authorizer_is_asked_by_the_api_only_and_only_where_callers_send_bearers(auth: str) -> None:
    permission = template(**AUTHS[auth]).resources.get("AuthorizePermission")
    assert (permission is None) == (auth == "AWS_IAM")
    if permission is not None:
        properties = permission["Properties"]
        assert (properties["Action"], properties["FunctionName"]) == ("lambda:InvokeFunction", {"Ref": "Authorize"})
        assert properties["Principal"] == "apigateway.amazonaws.com"
        assert properties["SourceArn"]["Fn::Sub"].endswith(":${Api}/authorizers/*")


@pytest.mark.parametrize("auth", AUTHS)
def test_the_authorizer_can_start_with_its_settings(auth: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    for name, value in variables(template(**AUTHS[auth]).functions["Authorize"]).items():
        monkeypatch.setenv(name, str(value) if isinstance(value, str | int) else "given")
    settings = load_settings(AuthorizerSettings)
    assert settings.auth == ("jwt" if auth == "jwt" else "api_keys")
    if auth == "jwt":
        assert settings.jwt_claims == {"principal": "sub", "tenant": "org"}
        assert (settings.jwt_issuer, settings.jwt_audience) == ("https://issuer.example", "turnstone")
        assert settings.jwt_jwks_url == "https://issuer.example/keys"


def test_the_gateway_refuses_as_the_functions_do() -> None:
    made = template().resources["Api"]["Properties"]["GatewayResponses"]
    for kind, error in {"UNAUTHORIZED": Unauthenticated("Bearer"), "AUTHORIZER_FAILURE": StoreUnavailable("x")}.items():
        reply = error_reply(error)
        assert made[kind]["StatusCode"] == reply.status
        sent = made[kind]["ResponseParameters"]["Headers"]
        assert {name: value.strip("'") for name, value in sent.items()} == reply.headers
        assert set(json.loads(made[kind]["ResponseTemplates"]["application/json"])) == {"detail"}
    told = json.loads(made["UNAUTHORIZED"]["ResponseTemplates"]["application/json"])
    assert told == json.loads(error_reply(Unauthenticated("Bearer")).body)


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_functions_and_their_layer_are_of_one_kind(architecture: str) -> None:
    made = template(Architecture=architecture)
    ((layer, properties),) = made.of_type("AWS::Serverless::LayerVersion").items()
    assert [architecture] == properties["CompatibleArchitectures"]
    assert made.resources[layer]["Metadata"] == {"BuildMethod": "makefile", "BuildArchitecture": architecture}
    assert f"build-{layer}:" in (ROOT / "shared" / "Makefile").read_text()
    adapter = "LambdaAdapterLayerArm64:" if architecture == "arm64" else "LambdaAdapterLayerX86:"
    for function in made.functions.values():
        assert [architecture] == function["Architectures"]
        assert function["Runtime"] == "python3.13"
        assert function["CodeUri"] == "functions/"
        assert function["Layers"][0] == {"Ref": layer}
        assert all(adapter in str(added) for added in function["Layers"][1:])


@pytest.mark.parametrize("mode", MODES)
def test_every_handler_is_there(mode: str) -> None:
    for function in template(StreamingMode=mode).functions.values():
        handler = function["Handler"]
        if handler == "stream.sh":
            assert os.access(EDGE / handler, os.X_OK)
            continue
        module, name = handler.rsplit(".", 1)
        source = EDGE.joinpath(*module.split(".")).with_suffix(".py").read_text()
        assert re.search(rf"^({name} =|{name}:|def {name}\()", source, re.MULTILINE), f"{handler} is not defined"


def test_variables_that_are_written_out_are_texts() -> None:
    written = (ROOT / "template.yaml").read_text()
    assert re.findall(r"^ +[A-Z_]+: *[0-9.]+ *(?:#.*)?$", written, re.MULTILINE) == []


def test_every_setting_is_known_and_what_is_needed_is_set() -> None:
    for name, function in template(ModelApiKeySecretArn=KEY_ARN).functions.items():
        given = {key.removeprefix(PREFIX).lower() for key in variables(function) if key.startswith(PREFIX)}
        kind = AuthorizerSettings if name == "Authorize" else LambdaSettings
        assert given <= set(kind.model_fields)
        assert {"table", "bucket", "state_machine_arn", "max_infer_iters"} <= given
        asks_model = name in RUNNING_TURNS | ASKING_MODELS | {"Shields", "Tools"}
        assert asks_model == (variables(function).get("TURNSTONE_MODEL_URL") == "offline")
        assert asks_model == (variables(function).get("TURNSTONE_MODEL_API_KEY_SECRET") == KEY_ARN)
        assert (name in RUNNING_TURNS) == ({"context_tokens", "await_seconds"} <= given)
        limits = {"summaries", "max_turn_tokens", "max_turn_seconds", "max_day_tokens"}
        assert (name in RUNNING_TURNS) == (limits <= given)
        assert (name in SENDING_JOBS) == ("jobs_queue_url" in given)
        assert (name in OPENING_SESSIONS) == ("ephemeral_ttl_s" in given)


def test_jobs_are_given_again_only_when_their_function_is_done_and_not_forever() -> None:
    made = template()
    queue, function = made.resources["Jobs"]["Properties"], made.functions["CleanUp"]
    (event,) = function["Events"].values()
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert event["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert event["Properties"]["Queue"] == {"Fn::GetAtt": ["Jobs", "Arn"]}
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": ["FailedJobs", "Arn"]}
    assert function["RecursiveLoop"] == "Allow"


def test_a_model_must_be_named() -> None:
    made = template()
    declared = made.declared_parameters["ModelUrl"]
    assert "Default" not in declared
    accepted = re.compile(declared["AllowedPattern"])
    assert all(accepted.search(url) for url in ("", "offline", "http://model", "https://host/v1"))
    assert not any(accepted.search(url) for url in ("https://", "Offline", "ftp://host", "https://host /v1"))
    (asserted,) = made.rules["SomeModelMustBeNamed"]["Assertions"]
    one_of_them = [{"Fn::Not": [{"Fn::Equals": [{"Ref": name}, ""]}]} for name in ("ModelUrl", "ModelsParameter")]
    assert asserted["Assert"] == {"Fn::Or": one_of_them}


def test_defaults_of_the_template_are_those_of_the_settings() -> None:
    made = template()
    named = {
        "ContextTokens": "context_tokens",
        "AwaitSeconds": "await_seconds",
        "EphemeralTtlSeconds": "ephemeral_ttl_s",
    }
    for parameter, field in named.items():
        assert LambdaSettings.model_fields[field].default == made.parameters[parameter]


def test_the_table_is_the_one_the_store_is_tested_with() -> None:
    ((_, table),) = template().of_type("AWS::DynamoDB::Table").items()
    assert {**table, **TABLE} == table
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["SSESpecification"] == {"SSEEnabled": True}
    assert table["DeletionProtectionEnabled"] is True


def test_the_bucket_is_private() -> None:
    made = template()
    ((_, bucket),) = made.of_type("AWS::S3::Bucket").items()
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    ((_, policy),) = made.of_type("AWS::S3::BucketPolicy").items()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_what_is_kept_outlives_the_stack() -> None:
    for resource in template().resources.values():
        if resource["Type"] in ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::S3::BucketPolicy"):
            assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_the_machine_is_given_what_its_definition_asks_for() -> None:
    made = template()
    ((name, machine),) = made.of_type("AWS::Serverless::StateMachine").items()
    definition = (ROOT / machine["DefinitionUri"]).read_text()
    assert set(re.findall(r"\$\{(\w+)\}", definition)) == set(machine["DefinitionSubstitutions"])
    assert machine["DefinitionSubstitutions"]["RunTurnFunctionArn"] == {"Fn::GetAtt": ["RunTurn", "Arn"]}
    assert machine["DefinitionSubstitutions"]["TableName"] == {"Ref": "Table"}
    assert machine["Type"] == "STANDARD"
    assert machine["Logging"]["IncludeExecutionData"] is False
    assert made.outputs["StateMachineArn"]["Value"] == {"Ref": name}


def test_a_stage_is_deployed_anew_when_only_a_parameter_changes() -> None:
    assert template().resources["Api"]["Properties"]["AlwaysDeploy"] is True
