"""Asking a model directly, outside of any turn: nothing is stored, no tool is run."""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from turnstone.domain.caller import Caller
from turnstone.domain.errors import InvalidRequest, ModelFailed, Unsupported
from turnstone.domain.inference import Embedded, EmbeddingRequest, ModelAnswer, Question, TextsToEmbed
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.routing import ModelRoute
from turnstone.domain.stopping import StopSignal
from turnstone.ports import Clock, Embeddings, IdGenerator, Inference, InferenceRequest, Inferred
from turnstone.services.answering import Answering, Part
from turnstone.services.executor import TurnExecutor
from turnstone.services.limits import DayLimit
from turnstone.services.refusals import supported_offer
from turnstone.services.routing import Routing

OPENAI = "openai"
SAID_IN_COMMON = ("max_completion_tokens", "response_format")  # extras that other fields of a question say, too


@dataclass(frozen=True, slots=True)
class InferringDeps:
    inference: Inference
    embeddings: Embeddings
    clock: Clock
    ids: IdGenerator
    day_limit: DayLimit


class Inferring:
    """Questions to models, of whoever may call this server."""

    def __init__(self, deps: InferringDeps, routing: Routing, executor: TurnExecutor) -> None:
        self._deps = deps
        self._routing = routing
        self._executor = executor

    def chat(self, caller: Caller, question: Question, provider_data: ProviderData) -> Answering:
        """Have the model answer. What it says is heard from what is returned, errors of the model too.

        Raises:
            InvalidRequest: the question can't be put to this model.
            DayLimitReached: the tenant's turns have spent its tokens of the day.
            Overloaded: as many answers are given as this server takes, in turns and out of them.
        """
        config = question.config
        self._deps.day_limit.check(caller.tenant)
        route = self._routing.route_now(caller.tenant, config.model)
        offer = supported_offer(config, lambda _: (), partial(self._deps.inference.capabilities, route.targets))
        if route.embedding_dimension is not None:
            raise InvalidRequest(f"model: {config.model!r} makes embeddings and can't be talked to", ("model",))
        self._refuse_extras(question.extras, route)
        stop = StopSignal()
        request = InferenceRequest(
            model=config.model,
            messages=question.messages,
            tools=offer.definitions,
            tool_choice=config.tool_config.tool_choice,
            sampling=config.sampling_params,
            response_format=config.response_format,
            tool_prompt_format=config.tool_config.tool_prompt_format,
            system_message_behavior=config.tool_config.system_message_behavior,
            targets=route.targets,
            provider_data=provider_data,
            extras=question.extras,
            stop=stop,
        )
        answering = Answering(self._deps.ids.new_id(), self._deps.clock.now(), self._parts(request), stop)
        with self._executor.place(caller.tenant) as place:
            place.start(answering.run, answering.fail)
        return answering

    def embed(self, caller: Caller, wanted: TextsToEmbed, provider_data: ProviderData) -> Embedded:
        """Return the vectors of the texts.

        Raises:
            InvalidRequest: the model can't make such vectors.
            DayLimitReached: the tenant's turns have spent its tokens of the day.
            Overloaded: as many answers are given as this server takes, in turns and out of them.
            ModelError: it did not answer, or not with what it should.
        """
        self._deps.day_limit.check(caller.tenant)
        route = self._routing.route_now(caller.tenant, wanted.model)
        self._refuse_extras(wanted.extras, route)
        request = EmbeddingRequest(
            model=wanted.model,
            texts=wanted.texts_within(route.context_tokens),
            dimensions=wanted.dimensions,
            extras=wanted.extras,
            targets=route.targets,
            provider_data=provider_data,
        )
        with self._executor.place(caller.tenant):
            embedded = self._deps.embeddings.embed(request)
        expected = wanted.dimensions or route.embedding_dimension
        found = {len(vector) for vector in embedded.vectors}
        if expected is None or found <= {expected}:
            return embedded
        told = f"model {wanted.model!r} makes vectors of {', '.join(map(str, sorted(found)))} dimensions"
        if wanted.dimensions is None:
            raise ModelFailed(f"{told}, it is known with {expected}")
        field = wanted.dimensions_field
        raise Unsupported(f"{field}: {told}, not of {expected}; leave it out", (field,))

    def _parts(self, request: InferenceRequest) -> Generator[Part, None, None]:
        answer = self._deps.inference.stream(request)
        with closing(answer):  # type: ignore[type-var] # the adapters' are generators all
            for item in answer:
                yield ModelAnswer(item.message, item.usage) if isinstance(item, Inferred) else item.text

    def _refuse_extras(self, extras: Mapping[str, Any], route: ModelRoute) -> None:
        """Raise Unsupported, naming a field that none but servers of OpenAI's API take, where others may be asked."""
        alone = [name for name in extras if name not in SAID_IN_COMMON]
        if alone and self._routing.kinds(route) != {OPENAI}:
            raise Unsupported(f"{alone[0]}: the provider of {route.model_id!r} does not take it", (alone[0],))
