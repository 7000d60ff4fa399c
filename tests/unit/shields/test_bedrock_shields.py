"""Bedrock's guardrails and checks, through botocore's own serializers and parsers.

Covers: adapters/aws/aws_clients, adapters/shields/bedrock_guardrail
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectTimeoutError

from turnstone.adapters.aws.aws_clients import DescriptionFiles, OurServices
from turnstone.adapters.shields.bedrock_guardrail import bedrock_shield
from turnstone.domain.errors import InvalidRequest, ShieldFailed, StoreUnavailable
from turnstone.domain.messages.messages import CompletionMessage, Message, SystemMessage, UserMessage
from turnstone.domain.shields.shields import BedrockParams
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.turns.turns import Verdict
from turnstone.domain.values.content import Image, ImageItem, TextItem, Url

PNG = b"\x89PNG\r\n\x1a\n rest"
USAGE = dict.fromkeys(
    (
        "topicPolicyUnits",
        "contentPolicyUnits",
        "wordPolicyUnits",
        "sensitiveInformationPolicyUnits",
        "sensitiveInformationPolicyFreeUnits",
        "contextualGroundingPolicyUnits",
    ),
    0,
)
NOTHING = {"usage": USAGE, "action": "NONE", "outputs": [], "assessments": []}
HATE = {"category": "HATE", "severityScore": 0.7}


class Wire:
    """Answers a client's requests with scripted bodies, before anything is sent, and records them in `requests`."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[tuple[str, Any]] = []
        session = botocore.session.Session()
        session.register_component("data_loader", OurServices(file_loader=DescriptionFiles()))
        session.set_credentials("testing", "testing")
        config = botocore.config.Config(retries={"total_max_attempts": 1})
        self.client = session.create_client("bedrock-runtime", region_name="eu-central-1", config=config)
        self.client.meta.events.register("before-send.bedrock-runtime", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        self.requests.append((request.url.split("amazonaws.com")[1], json.loads(request.body)))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        headers = {"content-type": "application/json", "x-amzn-errortype": body.pop("errortype", "")}
        return AWSResponse(request.url, status, headers, Raw(json.dumps(body).encode()))


class Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body


def judged(
    *answers: Any, sent: Message | tuple[Message, ...] | str = "hello", output: bool = False, **params: Any
) -> Any:
    wire = Wire(*answers)
    messages = (UserMessage(content=sent),) if isinstance(sent, str) else sent if isinstance(sent, tuple) else (sent,)
    shield = bedrock_shield(lambda: wire.client, "abc123", BedrockParams(**params))
    touchpoint: Any = "assistant-output" if output else "user-input"
    return shield.judge(ShieldQuestion(judged=messages, touchpoint=touchpoint)), wire


def intervened(text: str = "Sorry.", **assessment: Any) -> dict[str, Any]:
    return {"usage": USAGE, "action": "GUARDRAIL_INTERVENED", "outputs": [{"text": text}], "assessments": [assessment]}


def test_a_guardrail_judges_questions_and_answers_in_its_version() -> None:
    verdict, wire = judged(NOTHING, sent=UserMessage(content="hello", context="background"), guardrail_version="3")
    assert verdict == Verdict()
    body = {"source": "INPUT", "content": [{"text": {"text": "hello\nbackground"}}]}
    assert wire.requests == [("/guardrail/abc123/version/3/apply", body)]
    _, wire = judged(NOTHING, sent=CompletionMessage(content="hi", stop_reason="end_of_turn"), output=True)
    body = {"source": "OUTPUT", "content": [{"text": {"text": "hi"}}]}
    assert wire.requests == [("/guardrail/abc123/version/DRAFT/apply", body)]


def test_an_intervention_has_its_words_and_its_reasons_without_the_text_that_it_judged() -> None:
    answer = intervened(
        topicPolicy={"topics": [{"name": "Investment", "type": "DENY", "action": "BLOCKED"}]},
        contentPolicy={
            "filters": [
                {"type": "HATE", "confidence": "LOW", "action": "NONE"},
                {"type": "INSULTS", "confidence": "HIGH", "action": "BLOCKED"},
            ]
        },
        wordPolicy={"customWords": [{"match": "gold", "action": "BLOCKED"}], "managedWordLists": []},
        automatedReasoningPolicy={"findings": [{"tooComplex": {}}]},
        invocationMetrics={"guardrailProcessingLatency": 5},
    )
    verdict, _ = judged(answer)
    assert (verdict.violation.violation_level, verdict.violation.user_message) == ("error", "Sorry.")
    found = ["topicPolicy.DENY.Investment", "contentPolicy.INSULTS", "wordPolicy.custom"]
    assert verdict.violation.metadata == {"guardrail": "abc123", "found": found}


@pytest.mark.parametrize(("output", "user_message"), [(True, "call {PHONE}"), (False, None)])
def test_a_masked_answer_replaces_the_answer_and_a_masked_question_does_not(
    output: bool, user_message: str | None
) -> None:
    masked = {"piiEntities": [{"match": "12345", "type": "PHONE", "action": "ANONYMIZED"}], "regexes": []}
    verdict, _ = judged(intervened("call {PHONE}", sensitiveInformationPolicy=masked), output=output)
    assert verdict.violation.user_message == user_message
    assert verdict.violation.metadata["found"] == ["sensitiveInformationPolicy.PHONE"]


def test_images_are_shown_to_a_guardrail_by_value() -> None:
    image = ImageItem(image=Image(data=base64.b64encode(PNG).decode()))
    jpeg = ImageItem(image=Image(data=base64.b64encode(b"\xff\xd8\xff rest").decode()))
    _, wire = judged(NOTHING, sent=UserMessage(content=(TextItem(text="look"), image), context=jpeg))
    _, first, second = wire.requests[0][1]["content"]
    assert first == {"image": {"format": "png", "source": {"bytes": base64.b64encode(PNG).decode()}}}
    assert second["image"]["format"] == "jpeg"


@pytest.mark.parametrize(
    "image", [Image(url=Url(uri="https://example.com/a.png")), Image(data="!"), Image(data="R0lGODlh"), Image()]
)
def test_an_image_that_a_guardrail_can_not_be_shown_is_not_let_through(image: Image) -> None:
    with pytest.raises(ShieldFailed, match="image"):
        judged(sent=UserMessage(content=ImageItem(image=image)))


def test_an_empty_text_is_not_judged() -> None:
    for params in ({}, {"checks": {"content_filter": ["HATE"]}}):
        verdict, wire = judged(sent="", **params)
        assert (verdict, wire.requests) == (Verdict(), [])


def test_checks_need_no_guardrail_and_count_from_their_threshold_on() -> None:
    checks = {
        "content_filter": ["HATE", "VIOLENCE"],
        "prompt_attack": ["JAILBREAK"],
        "sensitive_information": ["EMAIL"],
    }
    email = {"type": "EMAIL", "beginOffset": 0, "endOffset": 3, "messageIndex": 0, "contentIndex": 0}
    answer = {
        "results": {
            "contentFilter": {"results": [HATE, {"category": "VIOLENCE", "severityScore": 0.69}]},
            "promptAttack": {"results": [{"category": "JAILBREAK", "severityScore": 0}]},
            "sensitiveInformation": {
                "results": [{**email, "confidenceScore": 0.8}, {**email, "confidenceScore": 0.9}],
                "truncated": False,
            },
        },
        "usage": {},
    }
    sent = (
        SystemMessage(content="Be kind."),
        UserMessage(content="a@b"),
        CompletionMessage(content="hi", stop_reason="end_of_turn"),
    )
    verdict, wire = judged(answer, sent=sent, checks=checks, threshold=0.7)
    assert verdict.violation.metadata == {"found": {"contentFilter.HATE": 0.7, "sensitiveInformation.EMAIL": 0.9}}
    ((path, body),) = wire.requests
    assert path == "/guardrail-checks/invoke"
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("system", [{"text": "Be kind."}]),
        ("user", [{"text": "a@b"}]),
        ("assistant", [{"text": "hi"}]),
    ]
    assert body["checks"] == {
        "contentFilter": {"categories": [{"category": "HATE"}, {"category": "VIOLENCE"}]},
        "promptAttack": {"categories": [{"category": "JAILBREAK"}]},
        "sensitiveInformation": {"entities": [{"type": "EMAIL"}]},
    }


def test_checks_that_find_little_find_nothing() -> None:
    answer = {"results": {"contentFilter": {"results": [{**HATE, "severityScore": 0.49}]}}, "usage": {}}
    verdict, wire = judged(answer, checks={"content_filter": ["HATE"]})
    assert verdict == Verdict()
    assert list(wire.requests[0][1]["checks"]) == ["contentFilter"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((400, {"errortype": "ValidationException", "message": "what you said: hello"}), "ValidationException"),
        ((403, {"errortype": "AccessDeniedException"}), "AccessDeniedException"),
        (ConnectTimeoutError(endpoint_url="https://bedrock"), "ConnectTimeoutError"),
    ],
)
def test_a_failure_of_bedrock_fails_the_shield_and_quotes_no_message(answer: Any, message: str) -> None:
    with pytest.raises(ShieldFailed, match=message) as failed:
        judged(answer)
    assert "hello" not in str(failed.value)


def test_without_a_region_the_shield_fails() -> None:
    def nowhere() -> Any:
        raise StoreUnavailable("AWS can't be used: no region")

    with pytest.raises(ShieldFailed, match="no region"):
        bedrock_shield(nowhere, "abc", BedrockParams()).judge(
            ShieldQuestion(judged=(UserMessage(content="x"),), touchpoint="user-input")
        )


def test_a_guardrail_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="provider_shield_id"):
        bedrock_shield(lambda: None, "", BedrockParams())
