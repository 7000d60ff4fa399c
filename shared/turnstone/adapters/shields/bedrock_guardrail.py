"""Bedrock shields: a guardrail of the account, or checks without a guardrail.

Source: the operations ApplyGuardrail and InvokeGuardrailChecks in botocore's service description.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from turnstone.domain.errors import InvalidRequest, ShieldFailed, StoreUnavailable
from turnstone.domain.messages.messages import CompletionMessage, Message, SystemMessage, UserMessage, message_text
from turnstone.domain.shields.shields import BedrockParams, Checks
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.turns.turns import SafetyViolation, Verdict
from turnstone.domain.values.content import ImageItem, items_of
from turnstone.domain.values.image_files import find_image_kind
from turnstone.ports.shields import RunnableShield

DEFAULT_THRESHOLD = 0.5
DRAFT = "DRAFT"
IMAGE_FORMATS = {"image/png": "png", "image/jpeg": "jpeg"}


def bedrock_shield(client: Callable[[], Any], guardrail: str, params: BedrockParams) -> RunnableShield:
    """Return the guardrail's shield, or the shield of the checks if the definition names any."""
    if params.checks is not None:
        return GuardrailChecksShield(client, params.checks, params.threshold or DEFAULT_THRESHOLD)
    if not guardrail:
        raise InvalidRequest("provider_shield_id: must name a guardrail", ("provider_shield_id",))
    return GuardrailShield(client, guardrail, params.guardrail_version or DRAFT)


class GuardrailShield:
    """Sends texts and images to a guardrail, images by value as PNG or JPEG."""

    def __init__(self, client: Callable[[], Any], guardrail: str, version: str) -> None:
        self._client = client
        self._guardrail = guardrail
        self._version = version

    def judge(self, question: ShieldQuestion) -> Verdict:
        """Return the guardrail's reasons to intervene. Raises ShieldFailed, also for an unsupported image."""
        content = [block for message in question.judged for block in _blocks(message)]
        if not content:
            return Verdict()
        is_output = question.touchpoint in ("assistant-output", "tool-input")
        answer = _requested(
            self._client,
            "apply_guardrail",
            guardrailIdentifier=self._guardrail,
            guardrailVersion=self._version,
            source="OUTPUT" if is_output else "INPUT",
            content=content,
        )
        if answer["action"] != "GUARDRAIL_INTERVENED":
            return Verdict()
        found = list(_interventions(answer.get("assessments", [])))
        only_masked = bool(found) and all(action == "ANONYMIZED" for _, action in found)
        texts = [output["text"] for output in answer.get("outputs", []) if output.get("text")]
        # masking a request does not answer it
        joined = "\n".join(texts) if texts and (is_output or not only_masked) else None
        metadata = {"guardrail": self._guardrail, "found": [name for name, _ in found]}
        return Verdict(violation=SafetyViolation(violation_level="error", user_message=joined, metadata=metadata))


class GuardrailChecksShield:
    """Runs Bedrock's checks on texts only; a score at or over the threshold is a finding."""

    def __init__(self, client: Callable[[], Any], checks: Checks, threshold: float) -> None:
        self._client = client
        self._checks = _checks_config(checks)
        self._threshold = threshold

    def judge(self, question: ShieldQuestion) -> Verdict:
        """Return the findings with their scores. Raises ShieldFailed."""
        spoken = [(_role(message), message_text(message)) for message in question.judged]
        messages = [{"role": role, "content": [{"text": text}]} for role, text in spoken if text]
        if not messages:
            return Verdict()
        answer = _requested(self._client, "invoke_guardrail_checks", messages=messages, checks=self._checks)
        scores: dict[str, float] = {}
        for check, result in answer["results"].items():
            for entry in result.get("results", []):
                name = f"{check}.{entry.get('category') or entry.get('type')}"
                score = entry.get("severityScore", entry.get("confidenceScore", 0.0))
                if score >= self._threshold:
                    scores[name] = max(score, scores.get(name, 0.0))
        return Verdict(
            violation=SafetyViolation(violation_level="error", metadata={"found": scores}) if scores else None
        )


def _requested(client: Callable[[], Any], operation: str, **request: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = getattr(client(), operation)(**request)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown")
        raise ShieldFailed(f"Bedrock refused to judge: {code}") from error
    except BotoCoreError as error:
        raise ShieldFailed(f"Bedrock can't be reached: {type(error).__name__}") from error
    except StoreUnavailable as error:
        raise ShieldFailed(str(error)) from error
    return answer


def _checks_config(checks: Checks) -> dict[str, Any]:
    config: dict[str, dict[str, Any]] = {
        "contentFilter": {"categories": [{"category": name} for name in checks.content_filter]},
        "promptAttack": {"categories": [{"category": name} for name in checks.prompt_attack]},
        "sensitiveInformation": {"entities": [{"type": name} for name in checks.sensitive_information]},
    }
    return {name: check for name, check in config.items() if any(check.values())}


def _role(message: Message) -> str:
    if isinstance(message, CompletionMessage):
        return "assistant"
    return "system" if isinstance(message, SystemMessage) else "user"


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    if text := message_text(message):
        yield {"text": {"text": text}}
    contents = [message.content]
    if isinstance(message, UserMessage) and message.context is not None:
        contents.append(message.context)
    for content in contents:
        yield from (_image_block(item) for item in items_of(content) if isinstance(item, ImageItem))


def _image_block(item: ImageItem) -> dict[str, Any]:
    if item.image.data is None:
        raise ShieldFailed("an image that is given by its URL can't be judged; send it as data")
    try:
        value = b64decode(item.image.data, validate=True)
    except binascii.Error as wrong:
        raise ShieldFailed("an image is not valid base64") from wrong
    kind = find_image_kind(value)
    if kind is None or kind.mime_type not in IMAGE_FORMATS:
        raise ShieldFailed("an image that is neither PNG nor JPEG can't be judged")
    return {"image": {"format": IMAGE_FORMATS[kind.mime_type], "source": {"bytes": value}}}


def _interventions(assessments: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the guardrail's findings and actions, without the matched words."""
    for assessment in assessments:
        for policy, entries in assessment.items():
            if not policy.endswith("Policy"):
                continue
            for found in (entry for entries_of in entries.values() for entry in entries_of):
                action = found.get("action", "NONE")
                if action != "NONE":
                    name = found.get("type") or "custom"
                    named = found.get("name")
                    yield f"{policy}.{name}" + (f".{named}" if named else ""), action
