"""Queries to memory: joined from messages, written by a model, or returned by a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnstone.domain.agents.agents import SamplingParams
from turnstone.domain.errors import MemoryUnusable
from turnstone.domain.memory.memory_query import MemoryQuery
from turnstone.domain.memory.query_templates import TooMuchWork, parsed_template
from turnstone.domain.memory.questions import LONGEST_QUESTION
from turnstone.domain.memory.texts.chunking import first_tokens
from turnstone.domain.messages.messages import Message, UserMessage
from turnstone.domain.models.requests import InferenceRequest, Inferred
from turnstone.domain.models.routing import ModelRoute
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.tools.memory_tools import CalledQuery, JoinedQuery, QueryGenerator, WrittenQuery
from turnstone.domain.turns.retrieval import QuerySource
from turnstone.domain.values.content import text_of
from turnstone.engine.measuring import measured
from turnstone.ports.models import Inference

LONGEST_QUERY = 4_096  # tokens
SHOWN_CHARACTERS = 24_000  # of the newest messages, to a template
WRITTEN_TOKENS = 512


@dataclass(frozen=True, slots=True)
class QueryMakingDeps:
    """Dependencies of queries. `route` finds a model by tenant and name."""

    inference: Inference
    route: Callable[[str, str], ModelRoute]


class QueryMaking:
    def __init__(self, deps: QueryMakingDeps) -> None:
        self._deps = deps

    def refuse_unknown(self, tenant: str, generator: QueryGenerator) -> None:
        """Raise InvalidRequest if the generator's model is not there."""
        if isinstance(generator, WrittenQuery):
            self._deps.route(tenant, generator.model)

    def query(
        self,
        tenant: str,
        generator: QueryGenerator,
        source: QuerySource,
        call: Callable[[str, Mapping[str, Any]], str],
        provider_data: ProviderData,
    ) -> MemoryQuery:
        """Return the query.

        Args:
            call: returns the answer of a tool, by its name and values.

        Raises:
            ModelError: the model gave no query.
            ToolgroupUnavailable: the tool gave none.
            MemoryUnusable: the template makes too much of the messages.
        """
        match generator:
            case JoinedQuery(sep=separator):
                return MemoryQuery(text=joined(source.messages, separator))
            case WrittenQuery():
                return self._written(tenant, generator, source, provider_data)
            case CalledQuery(tool=name):
                values = {"query": joined(source.messages), "messages": shown_messages(source)}
                return MemoryQuery(text=_cut(call(name, values)))

    def _written(
        self, tenant: str, generator: WrittenQuery, source: QuerySource, provider_data: ProviderData
    ) -> MemoryQuery:
        values = {"messages": shown_messages(source), "question": joined(source.messages)}
        try:
            prompt = parsed_template(generator.template).rendered(values)
        except TooMuchWork as problem:
            message = f"query_generator_config.template: {problem}; write a shorter one"
            raise MemoryUnusable(message, ("query_generator_config", "template")) from None
        request = InferenceRequest(
            model=generator.model,
            messages=(UserMessage(content=prompt),),
            tool_choice="none",
            sampling=SamplingParams(max_tokens=WRITTEN_TOKENS),
            targets=self._deps.route(tenant, generator.model).targets,
            provider_data=provider_data,
            stop=source.stop,
            about=source.about,
        )
        answer: Inferred | None = None
        for chunk in self._deps.inference.stream(request):
            if isinstance(chunk, Inferred):
                answer = chunk
        assert answer is not None, "an Inference ends with Inferred"  # noqa: S101 - the port's promise
        text = _cut(text_of(answer.message.content))
        usage = measured(request, answer)
        return MemoryQuery(text=text or joined(source.messages), usage=usage, model=generator.model)


def joined(messages: Sequence[Message], separator: str = " ") -> str:
    """Return the texts of the messages as one."""
    return _cut(separator.join(text_of(message.content) for message in messages))


def _cut(text: str) -> str:
    """Return the beginning of the text, as long as a question may be."""
    return first_tokens(text.strip()[:LONGEST_QUESTION].rstrip(), LONGEST_QUERY)


def shown_messages(source: QuerySource) -> list[dict[str, Any]]:
    """Return role and text of the newest messages, as many as a template is shown; the last one is cut if too long."""
    shown: list[dict[str, Any]] = []
    left = SHOWN_CHARACTERS
    for message in reversed((*source.history, *source.messages)):
        text = text_of(message.content)
        if shown and len(text) > left:
            break
        shown.append({"role": message.role, "content": text[:left]})
        left -= len(text)
    return shown[::-1]
