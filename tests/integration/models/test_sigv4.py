"""Requests to Bedrock's OpenAI endpoint are signed, each by itself, and not by a key.

Covers: adapters/aws/sigv4, adapters/models/openai/model_access
"""

from __future__ import annotations

import re

import botocore.session
import pytest

from tests.fakes.models.openai_server import ModelServer
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.aws.sigv4 import SigV4
from turnstone.adapters.models.openai.model_access import ModelAccess
from turnstone.adapters.models.openai.openai_compatible import OpenAICompatibleInference
from turnstone.adapters.models.prompted.prompted_tools import PromptedTools
from turnstone.bootstrap.models import ProviderDeps, build_inference
from turnstone.domain.errors import ModelFailed, StoreUnavailable
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import InferenceRequest, Inferred
from turnstone.domain.registry.catalogue import Catalogue

SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/eu-west-1/bedrock/aws4_request, "
    r"SignedHeaders=(?P<headers>[a-z0-9;-]+), Signature=[0-9a-f]{64}"
)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-session")


def test_each_request_is_signed_for_its_service_and_region(credentials: None) -> None:
    with ModelServer() as server:
        entry = {"type": "openai", "auth": "sigv4", "region": "eu-west-1", "url": server.url}
        catalogue = Catalogue.model_validate({"providers": {"p": entry}, "default_provider": "p"})
        inference = build_inference(catalogue, ProviderDeps(10, lambda name, entry: None, AwsClients))
        request = InferenceRequest("instant", (UserMessage(content="hi"),))
        for _ in range(2):
            *_, last = inference.stream(request)
            assert isinstance(last, Inferred)
        first, second = server.headers
    for headers in (first, second):
        signed = SIGNED.fullmatch(headers["authorization"])
        assert signed is not None, headers["authorization"]
        assert {"host", "x-amz-date", "x-amz-security-token", "content-type"} <= set(signed["headers"].split(";"))
        assert (headers["x-amz-security-token"], "secret" in str(headers.values())) == ("of-the-session", False)


def test_without_an_address_bedrocks_own_is_called(credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    catalogue = Catalogue.model_validate({"providers": {"p": {"type": "openai", "auth": "sigv4"}}})
    provider = build_inference(catalogue, ProviderDeps(10, lambda name, entry: None, AwsClients)).provider("p")
    assert isinstance(provider, PromptedTools)
    assert isinstance(provider._inference, OpenAICompatibleInference)
    assert provider._inference._base_url == "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(StoreUnavailable, match="no region"):
        build_inference(catalogue, ProviderDeps(10, lambda name, entry: None, AwsClients)).provider("p")


def test_without_credentials_the_model_can_not_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    session = botocore.session.Session()
    access = ModelAccess(sign=SigV4(session, "bedrock", "eu-west-1"))
    inference = OpenAICompatibleInference("http://127.0.0.1:1/v1", access)
    with pytest.raises(ModelFailed, match="no AWS credentials"):
        next(inference.stream(InferenceRequest("m", (UserMessage(content="hi"),))))
