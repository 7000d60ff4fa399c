"""Embedding models of Amazon Bedrock, through InvokeModel: Titan's and Cohere's.

Source: the inference parameters of these models in Bedrock's user guide.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from turnstone.adapters.aws.bedrock_errors import FAILURES, BedrockCall, refusal_of
from turnstone.adapters.models.bedrock.bedrock_embedding_bodies import EmbeddingBodies, bodies_of, shortened
from turnstone.adapters.models.openai.model_responses import jittered
from turnstone.adapters.outgoing.connections import Line, cuttable_by
from turnstone.adapters.outgoing.failed_attempt import FailedAttempt
from turnstone.adapters.outgoing.quoting import quoted
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import Embedded, EmbeddingRequest
from turnstone.domain.usage.usage import reported_count

MAX_ANSWER_BYTES = 16_000_000
COUNTED = "x-amzn-bedrock-input-token-count"
RETRIES = 2
FIRST_BACKOFF_S = 0.2


class _Answer(NamedTuple):
    body: bytes
    tokens: int | None


class BedrockEmbeddings:
    """The embedding models of one region."""

    def __init__(self, client: Callable[[], Any]) -> None:
        """Create the models without connecting. Takes what returns a client from `build_bedrock_client`."""
        self._client = client

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return a vector for each text; a model with a limit of texts is called several times.

        Retries each call at most twice, as `BedrockInference` does.

        Raises:
            Unsupported: no such embedding model is supported.
            ModelFailed: Bedrock is unreachable or refuses, or its answer holds no vectors.
            ModelTimedOut: Bedrock sent nothing within the timeout.
        """
        bodies = bodies_of(request)
        parts, counts = shortened(request.texts, bodies.longest)
        vectors: list[tuple[float, ...]] = []
        tokens = 0
        line = Line()
        with cuttable_by(line):
            for begin in range(0, len(parts), bodies.most):
                some = parts[begin : begin + bodies.most]
                answer = self._answer(request.model, bodies, some, line)
                made, counted = bodies.vectors(answer.body, len(some))
                vectors += made
                tokens += counted or answer.tokens or 0
        return Embedded(_joined(vectors, parts, counts), tokens or None)

    def _answer(self, model: str, bodies: EmbeddingBodies, texts: Sequence[str], line: Line) -> _Answer:
        attempts_left = RETRIES
        backoff_s = FIRST_BACKOFF_S
        while True:
            answer = self._attempt(model, bodies, texts)
            if isinstance(answer, _Answer):
                return answer
            if answer.wait_s is None or not attempts_left:
                raise answer.error from answer.cause
            if line.wait_for_cut(max(answer.wait_s, jittered(backoff_s))):
                raise answer.error from answer.cause
            attempts_left -= 1
            backoff_s *= 2

    def _attempt(self, model: str, bodies: EmbeddingBodies, texts: Sequence[str]) -> _Answer | FailedAttempt:
        client = self._client()
        try:
            answer = client.invoke_model(
                modelId=model,
                contentType="application/json",
                accept="application/json",
                body=json.dumps(bodies.body(texts)).encode(),
            )
            body: Any = answer["body"]
            try:
                content: bytes = body.read(MAX_ANSWER_BYTES + 1)
            finally:
                body.close()
        except FAILURES as failure:
            quote = partial(quoted, messages=tuple(UserMessage(content=text) for text in texts))
            return refusal_of(failure, BedrockCall(model, client.meta.region_name, quote))
        if len(content) > MAX_ANSWER_BYTES:
            raise ModelFailed(f"the answer of the embedding model is over the limit of {MAX_ANSWER_BYTES} bytes")
        headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        count = str(headers.get(COUNTED, ""))
        return _Answer(content, reported_count(int(count)) if count.isdecimal() else None)


def _joined(
    vectors: Sequence[tuple[float, ...]], parts: Sequence[str], counts: Sequence[int]
) -> tuple[tuple[float, ...], ...]:
    """Return the vector of each text: the mean of the vectors of its parts, by their lengths."""
    joined, begin = [], 0
    for count in counts:
        own, lengths = vectors[begin : begin + count], [len(part) for part in parts[begin : begin + count]]
        begin += count
        if count == 1:
            joined.append(own[0])
            continue
        columns = zip(*own, strict=True)
        total = sum(lengths)
        joined.append(tuple(sum(map(float.__mul__, column, map(float, lengths))) / total for column in columns))
    return tuple(joined)
