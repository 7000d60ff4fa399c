"""The template has every route and setting that the code needs, and no right too many.

Covers: template.yaml, functions, settings
"""

import importlib
import json
import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from functions.letta import family as LETTA
from functions.local.routes import ROUTES as LOCAL_ROUTES
from functions.responses import family as RESPONSES
from functions.unserved.methods import OTHERS
from functions.unserved.methods import ROUTES as UNSERVED_ROUTES
from functions.vector_stores import family as VECTOR_STORES
from tests.support.aws.cloudformation import FUNCTION, ROOT, Template, template, variables
from tests.support.aws.dynamo_table import TABLE
from tests.support.aws.sam_expansion import load_source, local_path
from tests.support.cases import rest_at_night
from tests.template.definition import ANY_METHOD, gateway_paths, generated
from tests.template.definition import resources_of as template_resources
from turnstone.domain.errors import Forbidden, StoreUnavailable, Unauthenticated
from turnstone.domain.errors.codes import ErrorCode
from turnstone.http.dialects import SHARED
from turnstone.http.document.openapi import SIGV4, answers_of, openapi_document
from turnstone.http.errors import error_reply
from turnstone.http.origins.cross_origin import EXPOSED
from turnstone.http.replies import FileReply, ModelStreamReply, PiecesReply, TurnStreamReply
from turnstone.http.route import Route
from turnstone.settings.auth_settings import AuthorizerSettings
from turnstone.settings.config import PREFIX, LambdaSettings, load_settings

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
    "inference.infer_completion",
    "inference.create_completion",
    "stored_completions.list_chat_completions",
    "stored_completions.get_chat_completion",
    "stored_completions.update_chat_completion",
    "stored_completions.delete_chat_completion",
    "stored_completions.list_chat_completion_messages",
    "inference.create_embedding",
    "inference.embed_contents",
    "attachments.get_attachment",
    *(f"files.{name}" for name in ("create_file", "list_files", "get_file", "delete_file", "get_file_content")),
    *(f"files.{name}" for name in ("create_upload", "add_upload_part", "complete_upload", "cancel_upload")),
    *(f"responses.{name.rpartition('.')[2]}" for name in RESPONSES.TABLE.values()),
    *(f"letta.{name}" for name in LETTA.TABLE.values()),
    *(f"vector_stores.{name.rpartition('.')[2]}" for name in VECTOR_STORES.TABLE.values()),
    "llama_stack_2024.create_turn",
    "llama_stack_2024.get_session",
}
CALLING_MODELS = {"Models", "Inference", "Memory", "Ingest", "VectorStores"}
RUNNING_TURNS = {"CreateTurn", "Responses", "Letta", "ResumeTurn", "Turns2024", "RunTurn", "Sweeper"}
SENDING_JOBS = {
    "DeleteAgent",
    "Agents2024",
    "DeleteSession",
    "StoredCompletions",
    "CleanUp",
    "Sweeper",
    "Memory",
}
SENDING_JOBS |= {"Files", "Ingest", "VectorStores", "Tenant", "CancelTurn", *RUNNING_TURNS}
SENDING_INSERTIONS = {"Sweeper", "Ingest", "VectorStores"}
OPENING_SESSIONS = {"Responses", "Letta", "CreateSession", "Agents2024"}
KEY_ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:model-key-AbCdEf"
AUTHS = {
    "api_keys": {"Auth": "api_keys"},
    "AWS_IAM": {"Auth": "AWS_IAM"},
    "jwt": {
        "Auth": "jwt",
        "JwtIssuer": "https://issuer.example",
        "JwtAudience": "turnstone",
        "JwtJwksUrl": "https://issuer.example/keys",
        "JwtTenantClaim": "org",
    },
}
MODES = {"adapter": {"StreamingMode": "adapter"}, "buffered": {"StreamingMode": "buffered"}}


@dataclass(frozen=True)
class Integration:
    """The integration of a route in the API."""

    function: str
    streams: bool = False
    timeout_ms: int | None = None


UNSERVED = {(method, "/{path+}"): "Unserved" for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")}
ORIGINS = {"CorsOrigins": "https://app.example,http://localhost:5173"}


def resources_of(route: Route) -> list[tuple[str, str]]:
    """Return method and path of each resource that leads to the route, as the gateway writes it."""
    below = LETTA.BELOW if route in LETTA.ROUTES else None
    return [(route.method, path) for path in template_resources(route, below)]


@cache
def modules() -> dict[str, Route]:
    """Return the route of each module that declares one, by the module's name in a Lambda."""
    declared = {}
    for path in sorted(EDGE.glob("*/**/*.py")):
        if re.search(r"^ROUTE\b", path.read_text(), re.MULTILINE):
            name = ".".join(path.relative_to(EDGE).with_suffix("").parts)
            declared[name] = importlib.import_module(f"functions.{name}").ROUTE
    return declared


def integrations(made: Template) -> dict[tuple[str, str], Integration]:
    """Return where the API sends each method of each path."""
    return {
        (method.upper(), path): _integration(operation["x-amazon-apigateway-integration"])
        for path, methods in made.body["paths"].items()
        for method, operation in methods.items()
        if method != ANY_METHOD
    }


def _integration(integration: dict[str, Any]) -> Integration:
    assert (integration["type"], integration["httpMethod"]) == ("aws_proxy", "POST")
    uri = re.fullmatch(r".*:lambda:path/(.+)/functions/\$\{(\w+)\.Arn\}/(.+)", integration["uri"]["Fn::Sub"])
    assert uri is not None
    streams = integration.get("responseTransferMode") == "STREAM"
    streamed, buffered = ("2021-11-15", "response-streaming-invocations"), ("2015-03-31", "invocations")
    assert (uri[1], uri[3]) == (streamed if streams else buffered)
    return Integration(uri[2], streams, integration.get("timeoutInMillis"))


def layers(function: dict[str, Any]) -> list[str]:
    """Return the layers of a function, ours by its logical id."""
    return [layer["Ref"] if isinstance(layer, dict) else layer for layer in function["Layers"]]


def served_modules(function: dict[str, Any]) -> set[str]:
    """Return the route modules a function serves, whichever way it is started."""
    handler: str = function["Handler"]
    streamed = variables(function).get("TURNSTONE_ROUTE_MODULE", "")
    module = streamed if handler == "stream.sh" else handler.removesuffix(".handler")
    family = importlib.import_module(f"functions.{module}")
    served = getattr(family, "ROUTES", ())
    return {name for name, route in modules().items() if route in served} or {module}


@pytest.mark.parametrize("mode", MODES)
def test_every_route_has_one_function_and_no_function_has_another_route(mode: str) -> None:
    made = template(StreamingMode=mode)
    declared: dict[tuple[str, str], set[str]] = {}
    for name, route in modules().items():
        for resource in resources_of(route):
            declared.setdefault(resource, set()).add(name)
    served = integrations(made)
    assert {resource: served.pop(resource).function for resource in UNSERVED} == UNSERVED
    assert set(declared) == set(served)
    for route, integration in served.items():
        assert declared[route] <= served_modules(made.functions[integration.function])


def resource_of(path: str, resources: set[str]) -> str | None:
    """Return the resource that the gateway passes a request to: names go before parameters, those before `{path+}`."""
    parts = path.split("/")
    fitting = [resource for resource in resources if _fits(parts, resource.split("/"))]
    return min(fitting, key=lambda resource: [_rank(part) for part in resource.split("/")], default=None)


def _fits(parts: list[str], resource: list[str]) -> bool:
    if resource[-1].endswith("+}"):
        parts, resource = parts[: len(resource) - 1], resource[:-1]
    return len(parts) == len(resource) and all(
        part == template_part or template_part.startswith("{")
        for part, template_part in zip(parts, resource, strict=True)
    )


def _rank(part: str) -> int:
    return 2 if part.endswith("+}") else 1 if part.startswith("{") else 0


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a/b", "/a/b"), ("/a/x", "/a/{id}"), ("/a/x/y", "/a/{id+}"), ("/b", "/{path+}"), ("/a/b/c", "/a/{id+}")],
)
def test_a_resource_is_chosen_as_the_gateway_does(path: str, expected: str) -> None:
    assert resource_of(path, {"/{path+}", "/a/{id+}", "/a/{id}", "/a/b"}) == expected


def test_every_method_of_a_client_reaches_the_function_that_names_it() -> None:
    made = template()
    served = integrations(made)
    resources = {path for _, path in served}
    for route in UNSERVED_ROUTES:
        resource = resource_of(re.sub(r"{[^}]+}", "some-name", route.path), resources)
        methods = made.body["paths"][resource]
        method = route.method.lower() if (route.method, resource) in served else ANY_METHOD
        integration = _integration(methods[method]["x-amazon-apigateway-integration"])
        assert integration.function == "Unserved", (route.method, route.path, resource)


def test_the_api_and_its_document_have_the_same_routes_and_stream_the_same_ones() -> None:
    document = openapi_document(list(modules().values()), SIGV4)
    described = {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    served = integrations(template())
    documented = [route for route in LOCAL_ROUTES if route.reply]
    assert set(described) == {(route.method, path) for route in documented for path in route.paths}
    assert set(served) - set(UNSERVED) == {resource for route in LOCAL_ROUTES for resource in resources_of(route)}
    documented_as_stream = {
        resource
        for route in documented
        for path, resource in zip(route.paths, resources_of(route), strict=True)
        if "text/event-stream" in described[route.method, path]["responses"].get("200", {"content": ()})["content"]
    }
    outgrow_a_function = {
        resource
        for route in modules().values()
        for resource in resources_of(route)
        if {FileReply, PiecesReply, TurnStreamReply, ModelStreamReply} & set(answers_of(route))
    }
    streamed = {route for route, integration in served.items() if integration.streams}
    assert documented_as_stream <= streamed
    beside_streams = {resource for route in LETTA.ROUTES for resource in resources_of(route)}
    assert outgrow_a_function | beside_streams == streamed


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
            {"tenant"},
            {"inference"},
            {"stored_completions"},
            {"responses"},
            {"memory"},
            {"files"},
            {"letta"},
            {"vector_stores"},
            {"llama_stack_2024"},
        )
        assert len(served) == 1 or families in several


@pytest.mark.parametrize("mode", MODES)
def test_only_streamed_routes_use_the_adapter(mode: str) -> None:
    made = template(StreamingMode=mode)
    for integration in integrations(made).values():
        function = made.functions[integration.function]
        can_stream = served_modules(function) <= STREAMING
        streams = can_stream and mode == "adapter"
        assert streams == integration.streams
        assert (900_000 if streams else None) == integration.timeout_ms
        assert streams == (function["Handler"] == "stream.sh")
        assert streams == any("LambdaAdapterLayer" in layer for layer in layers(function))
        assert streams == (variables(function).get("AWS_LAMBDA_EXEC_WRAPPER") == "/opt/bootstrap")
        if streams:
            assert variables(function)["AWS_LWA_INVOKE_MODE"] == "response_stream"
            assert variables(function)["AWS_LWA_READINESS_CHECK_PROTOCOL"] == "tcp"
        assert function["Timeout"] == (900 if can_stream else 30)


def test_the_api_may_call_the_function_of_each_route_and_no_other() -> None:
    made = template()
    allowed = []
    for name, permission in made.of_type("AWS::Lambda::Permission").items():
        assert permission["Action"] == "lambda:InvokeFunction"
        if name in ("AuthorizePermission", "SweeperSchedulePermission"):
            continue
        assert permission["Principal"] == "apigateway.amazonaws.com"
        assert permission["SourceArn"]["Fn::Sub"] == "arn:aws:execute-api:eu-central-1:123456789012:${Api}/*"
        allowed.append(permission["FunctionName"]["Ref"])
    assert sorted(allowed) == sorted({integration.function for integration in integrations(made).values()})
    assert made.resources["SweeperSchedulePermission"]["Properties"]["FunctionName"] == {"Ref": "Sweeper"}


@pytest.mark.parametrize("auth", AUTHS)
def test_methods_that_a_path_lacks_go_to_the_function_that_refuses_them_for_identified_callers(auth: str) -> None:
    for path, methods in template(**AUTHS[auth]).body["paths"].items():
        assert _integration(methods[ANY_METHOD]["x-amazon-apigateway-integration"]) == Integration("Unserved"), path
        assert methods[ANY_METHOD]["security"] == [{auth: []}], path


def test_the_refusing_function_names_the_methods_that_each_path_has() -> None:
    paths: dict[str, list[Route]] = {}
    for route in LOCAL_ROUTES:
        for path in gateway_paths(route):
            paths.setdefault(path, []).append(route)
    assert {other.path: (other.methods, other.dialect) for other in OTHERS} == {
        path: (tuple(route.method for route in routes), routes[0].dialect) for path, routes in paths.items()
    }


def test_what_is_generated_is_what_the_routes_make() -> None:
    """If this fails: run `make template` and review the changes."""
    for name, text in generated().items():
        assert (ROOT / name).read_text() == text, name


@pytest.mark.parametrize("auth", AUTHS)
def test_the_gateway_lets_unidentified_callers_pass_to_open_routes_only(auth: str) -> None:
    made = template(**AUTHS[auth])
    passed = set()
    for path, methods in made.body["paths"].items():
        for method, operation in methods.items():
            if operation["security"] == [{"NONE": []}]:
                passed.add((method.upper(), path))
            else:
                assert operation["security"] == [{auth: []}], f"{method} {path}"
    assert passed == {(route.method, path) for route in LOCAL_ROUTES if route.is_open for path in route.paths}
    scheme = made.body["components"]["securitySchemes"][auth]
    assert scheme["x-amazon-apigateway-authtype"] == ("awsSigv4" if auth == "AWS_IAM" else "custom")
    ((_, api),) = made.of_type("AWS::ApiGateway::RestApi").items()
    assert api["EndpointConfiguration"] == {"Types": ["REGIONAL"]}
    assert not made.of_type("AWS::Lambda::Url")


def test_every_kind_of_credential_is_tested_and_leads_to_the_one_authorizer() -> None:
    made = template()
    assert set(made.declared_parameters["Auth"]["AllowedValues"]) == set(AUTHS)
    assert made.parameters["Auth"] == "api_keys"
    for auth in ("api_keys", "jwt"):
        authorizer = made.body["components"]["securitySchemes"][auth]["x-amazon-apigateway-authorizer"]
        assert authorizer["authorizerUri"]["Fn::Sub"].endswith("/functions/${Authorize.Arn}/invocations")
        assert authorizer["type"] == "request"
        assert authorizer["identitySource"] == "method.request.header.Authorization"
        assert authorizer["authorizerResultTtlInSeconds"] == 60


@pytest.mark.parametrize("auth", AUTHS)
def test_the_authorizer_is_called_by_the_api_only_and_only_where_callers_send_bearers(auth: str) -> None:
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


def responses(**parameters: str) -> dict[str, Any]:
    found: dict[str, Any] = template(**parameters).body["x-amazon-apigateway-gateway-responses"]
    return found


def headers(response: dict[str, Any]) -> dict[str, str]:
    sent = response.get("responseParameters", {})
    return {name.removeprefix("gatewayresponse.header."): value.strip("'") for name, value in sent.items()}


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("UNAUTHORIZED", Unauthenticated("Bearer")),
        ("ACCESS_DENIED", Forbidden("")),
        ("AUTHORIZER_FAILURE", StoreUnavailable("x")),
        ("AUTHORIZER_CONFIGURATION_ERROR", StoreUnavailable("x")),
        ("INTEGRATION_FAILURE", StoreUnavailable("x")),
    ],
)
def test_the_gateway_refuses_as_the_functions_do(kind: str, error: Exception) -> None:
    reply, response = error_reply(error, SHARED), responses()[kind]
    assert response["statusCode"] == str(reply.status)
    assert headers(response) == reply.headers
    if kind == "UNAUTHORIZED":
        assert json.loads(response["responseTemplates"]["application/json"]) == json.loads(reply.body)


@pytest.mark.parametrize(
    ("kind", "status", "sent"),
    [
        ("THROTTLED", "429", {"retry-after": "1"}),
        ("INTEGRATION_TIMEOUT", "504", {"x-should-retry": "false"}),
        ("REQUEST_TOO_LARGE", "413", {"x-should-retry": "false"}),
        ("MISSING_AUTHENTICATION_TOKEN", "405", {"x-should-retry": "false"}),
        ("DEFAULT_4XX", None, {}),
        ("DEFAULT_5XX", None, {}),
    ],
)
def test_the_gateways_own_answers_have_the_status_and_headers_that_clients_act_on(
    kind: str, status: str, sent: dict[str, str]
) -> None:
    response = responses()[kind]
    assert (response.get("statusCode"), headers(response)) == (status, sent)


@pytest.mark.parametrize("auth", AUTHS)
def test_every_refusal_of_the_gateway_is_in_the_envelope_of_either_api(auth: str) -> None:
    for kind, response in responses(**AUTHS[auth]).items():
        text = response["responseTemplates"]["application/json"]
        # Source: the developer guide of API Gateway: messageString is the message with quotes around it
        body = json.loads(text.replace("$context.error.messageString", '"Forbidden"'))
        assert set(body) == {"detail", "code", "error"}, kind
        status = int(response.get("statusCode") or {"DEFAULT_4XX": 400, "DEFAULT_5XX": 500}[kind])
        assert body == json.loads(SHARED.envelope.refusal(status, body["detail"], ErrorCode(body["code"]))), kind
        assert "$context" not in json.dumps(body)


@pytest.mark.parametrize("auth", AUTHS)
def test_preflights_prove_no_identity_on_any_path_where_origins_are_listed(auth: str) -> None:
    closed, made = template(**AUTHS[auth]), template(**AUTHS[auth], **ORIGINS)
    for path, methods in made.body["paths"].items():
        assert _integration(methods["options"]["x-amazon-apigateway-integration"]) == Integration("Unserved"), path
        assert not any(auth in security for security in methods["options"].get("security", ())), path
        rest = {method: operation["security"] for method, operation in methods.items() if method != "options"}
        before = {m: operation["security"] for m, operation in closed.body["paths"][path].items() if m != "options"}
        assert rest == before, path
    assert closed.body["paths"]["/{path+}"]["options"]["security"] == [{auth: []}]
    assert {path for path, methods in closed.body["paths"].items() if "options" in methods} == {"/{path+}"}
    assert len(made.resources) == len(closed.resources)


def test_every_function_takes_the_origins_in_its_settings() -> None:
    assert all(
        variables(function)["TURNSTONE_CORS_ORIGINS"] == ORIGINS["CorsOrigins"]
        for function in template(**ORIGINS).functions.values()
    )


@pytest.mark.parametrize("auth", AUTHS)
def test_the_gateways_own_answers_can_be_read_by_the_first_origin(auth: str) -> None:
    before, marked = responses(**AUTHS[auth]), responses(**AUTHS[auth], **ORIGINS)
    for kind, response in marked.items():
        assert response["responseParameters"]["gatewayresponse.header.access-control-allow-origin"][0] == "'", kind
        assert headers(response) == {
            **headers(before[kind]),
            "access-control-allow-origin": "https://app.example",
            "access-control-expose-headers": EXPOSED,
            "vary": "Origin",
        }, kind


@pytest.mark.parametrize("text", ["*", "null", "https://app.example/", "https://a.example, https://b.example"])
def test_the_template_takes_exact_origins_only(text: str) -> None:
    assert template(CorsOrigins=text).refusals() == ["CorsOrigins"]
    assert template(**ORIGINS).refusals() == []


def test_an_unsigned_request_is_refused_with_that_reason_where_requests_are_signed() -> None:
    assert responses(Auth="AWS_IAM")["MISSING_AUTHENTICATION_TOKEN"]["statusCode"] == "401"


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_functions_and_their_layer_are_of_one_kind(architecture: str) -> None:
    made = template(Architecture=architecture)
    ((layer, properties),) = made.of_type("AWS::Lambda::LayerVersion").items()
    assert [architecture] == properties["CompatibleArchitectures"]
    assert made.resources[layer]["Metadata"] == {"BuildMethod": "makefile", "BuildArchitecture": architecture}
    assert f"build-{properties['LayerName']}:" in (ROOT / "shared" / "Makefile").read_text()
    adapter = "LambdaAdapterLayerArm64:" if architecture == "arm64" else "LambdaAdapterLayerX86:"
    for function in made.functions.values():
        assert [architecture] == function["Architectures"]
        assert function["Runtime"] == "python3.13"
        assert local_path(function["Code"]) == "functions/"
        assert layers(function)[0] == layer
        assert all(adapter in added for added in layers(function)[1:])


# ---- the Lambda Web Adapter

WITHOUT_THE_ADAPTER = ["cn-north-1", "cn-northwest-1", "me-south-1", "us-gov-east-1", "us-gov-west-1"]


def adapters(made: Template) -> set[str]:
    return {layer for function in made.functions.values() for layer in layers(function)[1:]}


@pytest.mark.parametrize(("architecture", "name"), [("x86_64", "X86"), ("arm64", "Arm64")])
def test_one_version_of_the_adapter_is_taken_wherever_it_is_published(architecture: str, name: str) -> None:
    made = template(Architecture=architecture, region="eu-west-3")
    assert made.refusals() == []
    assert adapters(made) == {f"arn:aws:lambda:eu-west-3:753240598075:layer:LambdaAdapterLayer{name}:30"}


@pytest.mark.parametrize("region", rest_at_night(WITHOUT_THE_ADAPTER, WITHOUT_THE_ADAPTER[:1]))
def test_where_the_adapter_is_not_published_one_must_be_named(region: str) -> None:
    (refusal,) = template(region=region).refusals()
    assert "name it in AdapterLayerArn, or set StreamingMode to buffered" in refusal
    buffered = template(region=region, StreamingMode="buffered")
    assert (buffered.refusals(), adapters(buffered)) == ([], set())
    own = f"arn:aws:lambda:{region}:123456789012:layer:adapter:3"
    named = template(region=region, AdapterLayerArn=own)
    assert (named.refusals(), adapters(named)) == ([], {own})


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
    for name, resource in template().expanded["Resources"].items():
        if resource["Type"] == FUNCTION:
            written = [value for value in variables(resource["Properties"]).values() if not isinstance(value, dict)]
            assert all(isinstance(value, str) for value in written), name


def test_every_setting_exists_and_the_required_ones_are_set() -> None:
    for name, function in template(ModelApiKeySecretArn=KEY_ARN).functions.items():
        given = {key.removeprefix(PREFIX).lower() for key in variables(function) if key.startswith(PREFIX)}
        kind = AuthorizerSettings if name == "Authorize" else LambdaSettings
        assert given <= set(kind.model_fields)
        assert {"table", "bucket", "state_machine_arn", "max_infer_iters"} <= given
        calls_model = name in RUNNING_TURNS | CALLING_MODELS | {"Shields", "Tools"}
        assert ("config" in given) == (variables(function).get("TURNSTONE_MODEL_URL") == "offline")
        assert not calls_model or "config" in given
        assert calls_model == (variables(function).get("TURNSTONE_MODEL_API_KEY_SECRET") == KEY_ARN)
        assert (name in RUNNING_TURNS) == ({"context_tokens", "await_seconds"} <= given)
        limits = {"summaries", "max_turn_tokens", "max_turn_seconds", "max_day_tokens"}
        assert (name in RUNNING_TURNS) == (limits <= given)
        assert (name in SENDING_JOBS) == ("jobs_queue_url" in given)
        assert (name in SENDING_INSERTIONS) == ("ingest_queue_url" in given)
        assert (name in OPENING_SESSIONS) == ("ephemeral_ttl_s" in given)
        assert (name == "Inference") == ("stored_completion_ttl_s" in given)
        assert (name == "Responses") == ("responses_ttl_s" in given)


def sources(made: Template) -> list[dict[str, Any]]:
    return list(made.of_type("AWS::Lambda::EventSourceMapping").values())


def test_insertions_have_a_queue_of_their_own_which_redelivers_like_that_of_jobs() -> None:
    made = template(IngestConcurrency="7")
    queue, function = made.resources["Ingestions"]["Properties"], made.functions["Ingest"]
    (source,) = [each for each in sources(made) if each["FunctionName"] == {"Ref": "Ingest"}]
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["EventSourceArn"] == {"Fn::GetAtt": ["Ingestions", "Arn"]}
    assert (source["BatchSize"], source["ScalingConfig"]) == (1, {"MaximumConcurrency": "7"})
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": ["FailedIngestions", "Arn"]}
    assert function["RecursiveLoop"] == "Allow"
    assert len(sources(made)) == 2


def test_objects_below_uploads_and_no_others_are_passed_to_the_queue_of_insertions() -> None:
    """Through a rule: a notification of the bucket would name its queue before the bucket has a name for rights."""
    made = template()
    (name,) = [key for key, rule in made.of_type("AWS::Events::Rule").items() if "EventPattern" in rule]
    rule = made.resources[name]["Properties"]
    assert rule["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"bucket": {"name": [{"Ref": "Bucket"}]}, "object": {"key": [{"prefix": "uploads/"}]}},
    }
    assert [target["Arn"] for target in rule["Targets"]] == [{"Fn::GetAtt": ["Ingestions", "Arn"]}]
    notifications = made.resources["Bucket"]["Properties"]["NotificationConfiguration"]
    assert notifications == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    ((_, policy),) = made.of_type("AWS::SQS::QueuePolicy").items()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert policy["Queues"] == [{"Ref": "Ingestions"}]
    assert (statement["Principal"], statement["Action"]) == ({"Service": "events.amazonaws.com"}, "sqs:SendMessage")
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": [name, "Arn"]}}}


def test_jobs_are_redelivered_only_when_their_function_is_done_and_not_forever() -> None:
    made = template(CleanUpConcurrency="40")
    queue, function = made.resources["Jobs"]["Properties"], made.functions["CleanUp"]
    (source,) = [each for each in sources(made) if each["FunctionName"] == {"Ref": "CleanUp"}]
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["EventSourceArn"] == {"Fn::GetAtt": ["Jobs", "Arn"]}
    assert source["FunctionName"] == {"Ref": "CleanUp"}
    assert source["ScalingConfig"] == {"MaximumConcurrency": "40"}, "or a backlog takes every function of the account"
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": ["FailedJobs", "Arn"]}
    assert function["RecursiveLoop"] == "Allow"


def test_a_sweep_that_fails_is_not_tried_again_but_made_at_the_next_time() -> None:
    made = template()
    (rule,) = [each for each in made.of_type("AWS::Events::Rule").values() if "ScheduleExpression" in each]
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    assert [target["Arn"] for target in rule["Targets"]] == [{"Fn::GetAtt": ["Sweeper", "Arn"]}]
    ((_, config),) = made.of_type("AWS::Lambda::EventInvokeConfig").items()
    assert config["FunctionName"] == {"Ref": "Sweeper"}
    assert (config["MaximumRetryAttempts"], config["MaximumEventAgeInSeconds"]) == (0, 300)


# ---- parameters


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ({"JwtTenantClaim": "org"}, True),
        ({"JwtTenant": "acme"}, True),
        ({"JwtTenant": "acme", "JwtClaims": "principal=sub,roles=groups"}, True),
        ({}, False),
        ({"JwtTenant": "acme", "JwtTenantClaim": "org"}, False),
        ({"JwtTenant": "acme", "JwtClaims": "tenant=org"}, False),
        ({"JwtTenant": "acme", "JwtClaims": "principal=sub, tenant = org"}, False),
        ({"JwtTenantClaim": "org,roles=groups"}, False),
    ],
)
def test_tokens_name_their_tenant_in_one_way(given: dict[str, str], is_taken: bool) -> None:
    """Another would deploy, and its authorizer refuse every caller with 503."""
    jwt = {name: value for name, value in AUTHS["jwt"].items() if name != "JwtTenantClaim"}
    assert (template(**jwt, **given).refusals() == []) == is_taken


@pytest.mark.parametrize("auth", AUTHS)
def test_the_parameters_of_the_deployment_tests_are_accepted(auth: str) -> None:
    assert template(**AUTHS[auth]).refusals() == []


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("AwaitSeconds", "30000000", "31536000"),  # an execution lives for a year at most
        ("CleanUpConcurrency", "2", "1"),
        ("IngestConcurrency", "2", "1"),
        ("AdapterLayerArn", "arn:aws:lambda:eu-west-1:123456789012:layer:x:1", "x"),
        ("ModelUrl", "https://host/v1", "ftp://host"),
    ],
)
def test_a_parameter_accepts_only_workable_values(name: str, taken: str, refused: str) -> None:
    assert template(**{name: taken}).refusals() == []
    assert template(**{name: refused}).refusals() == [name]


def test_the_throttle_is_described_as_one_of_each_method() -> None:
    made = template(RequestsPerSecond="7", RequestBurst="9")
    ((_, stage),) = made.of_type("AWS::ApiGateway::Stage").items()
    (settings,) = stage["MethodSettings"]
    assert (settings["ResourcePath"], settings["HttpMethod"]) == ("/*", "*")
    assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == ("7", "9")
    for name in ("RequestsPerSecond", "RequestBurst"):
        assert "each method" in made.declared_parameters[name]["Description"]


def test_a_model_must_be_named() -> None:
    made = template()
    declared = made.declared_parameters["ModelUrl"]
    assert "Default" not in declared
    accepted = re.compile(declared["AllowedPattern"])
    assert all(accepted.search(url) for url in ("", "offline", "http://model", "https://host/v1"))
    assert not any(accepted.search(url) for url in ("https://", "Offline", "ftp://host", "https://host /v1"))
    assert template(ModelUrl="").refusals() == ["ModelUrl or ModelsParameter must be named"]
    assert template(ModelUrl="", ModelsParameter="/m").refusals() == []


def test_defaults_of_the_template_are_those_of_the_settings() -> None:
    made = template()
    named = {
        "ContextTokens": "context_tokens",
        "AwaitSeconds": "await_seconds",
        "EphemeralTtlSeconds": "ephemeral_ttl_s",
        "StoredCompletionTtlSeconds": "stored_completion_ttl_s",
        "ResponsesTtlSeconds": "responses_ttl_s",
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


def test_stored_data_outlives_the_stack() -> None:
    for resource in template().resources.values():
        if resource["Type"] in ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::S3::BucketPolicy"):
            assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_the_machine_is_given_every_value_of_its_definition() -> None:
    made = template()
    ((name, machine),) = made.of_type("AWS::StepFunctions::StateMachine").items()
    definition = (ROOT / local_path(machine["DefinitionS3Location"])).read_text()
    assert set(re.findall(r"\$\{(\w+)\}", definition)) == set(machine["DefinitionSubstitutions"])
    assert machine["DefinitionSubstitutions"]["RunTurnFunctionArn"] == {"Fn::GetAtt": ["RunTurn", "Arn"]}
    assert machine["DefinitionSubstitutions"]["TableName"] == {"Ref": "Table"}
    assert machine["StateMachineType"] == "STANDARD"
    assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False
    arn = variables(made.functions["RunTurn"])["TURNSTONE_STATE_MACHINE_ARN"]
    assert arn.endswith(f":stateMachine:{machine['StateMachineName']}")
    assert made.outputs["StateMachineArn"]["Value"] == {"Ref": name}


def test_a_stage_is_deployed_again_when_only_a_parameter_changes() -> None:
    """The transform names a deployment by its content; `AlwaysDeploy` gives each a new name."""
    assert load_source(ROOT / "template.yaml")["Resources"]["Api"]["Properties"]["AlwaysDeploy"] is True


def test_the_transform_leaves_parameters_conditions_mappings_and_rules_as_they_are() -> None:
    """So parameters can be judged without it."""
    source, expanded = load_source(ROOT / "template.yaml"), template().expanded
    for section in ("Parameters", "Mappings", "Rules"):
        assert expanded[section] == source[section]
    assert expanded["Conditions"].items() >= source["Conditions"].items()
