"""Direct model requests, outside of any turn: no tool is run, and an answer is stored only on request."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, ModelFailed, Unsupported
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.inference import Continuations, Continued, Question, TextsToContinue, TextsToEmbed
from turnstone.domain.models.local_embeddings import LOCAL_EMBEDDINGS
from turnstone.domain.models.requests import Embedded, EmbeddingRequest, InferenceRequest, Inferred, TextChunk
from turnstone.domain.models.routing import ModelRoute
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.content import text_of
from turnstone.domain.values.lent_threads import waiting_for_a_model
from turnstone.ports.models import Embeddings, Inference
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.agents.refusals import supported_offer
from turnstone.services.models.answer_stream import AnswerStream, Part
from turnstone.services.models.routing import Routing
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.usage.limits import DayLimit

OPENAI = "openai"
ECHO_CHARACTERS = 16 * 1024
Keep = Callable[[str, datetime, Inferred], None]  # takes an answer's id, the time of its request, and the answer


@dataclass(frozen=True, slots=True)
class InferringDeps:
    inference: Inference
    embeddings: Embeddings
    clock: Clock
    ids: IdGenerator
    day_limit: DayLimit


class Inferring:
    """Model requests of any caller that may use this server."""

    def __init__(self, deps: InferringDeps, routing: Routing, executor: TurnExecutor) -> None:
        self._deps = deps
        self._routing = routing
        self._executor = executor

    def chat(
        self, caller: Caller, question: Question, provider_data: ProviderData, keep: Keep | None = None
    ) -> AnswerStream:
        """Start an answer of the model. The stream yields the answer and errors of the model.

        Args:
            keep: stores the whole answer before its end is sent; if it fails, the request fails.

        Raises:
            InvalidRequest: the model can't take the request.
            DayLimitReached: the tenant's turns have spent its tokens of the day.
            Overloaded: every slot for turns and direct requests is taken.
        """
        stop = StopSignal()
        request = self._request(caller, question, provider_data, stop)
        answer_id, now = self._deps.ids.new_id(), self._deps.clock.now()
        kept = partial(keep, answer_id, now) if keep else None
        return self._begun(caller, AnswerStream(answer_id, now, self._parts(request, kept), stop))

    def complete(self, caller: Caller, texts: TextsToContinue, provider_data: ProviderData) -> AnswerStream:
        """Start the continuations of the texts, one after the other, in one slot. Raises as `chat` does."""
        stop = StopSignal()
        question = Question((), texts.config, texts.extras, needed_extras=texts.needed_extras)
        request = self._request(caller, question, provider_data, stop)
        is_free = texts.config.response_format is None
        requests = [
            request._replace(
                messages=(UserMessage(content=prompt),), prompt=prompt if is_free and isinstance(prompt, str) else None
            )
            for prompt in texts.prompts
        ]
        answer_id, now = self._deps.ids.new_id(), self._deps.clock.now()
        return self._begun(caller, AnswerStream(answer_id, now, self._continued(requests, texts.are_echoed), stop))

    def _begun(self, caller: Caller, answering: AnswerStream) -> AnswerStream:
        """Draw the answer in a thread. Raises Overloaded."""
        with self._executor.permit(caller.tenant) as permit:
            permit.start(answering.run, answering.fail)
        return answering

    def _request(
        self, caller: Caller, question: Question, provider_data: ProviderData, stop: StopSignal
    ) -> InferenceRequest:
        """Return the request to the model. Raises InvalidRequest, DayLimitReached."""
        self._deps.day_limit.check(caller.tenant)
        route = self._routing.route_now(caller.tenant, question.config.model)
        config = route.with_prompt_format(question.config)
        offer = supported_offer(config, lambda _: (), partial(self._deps.inference.capabilities, route.targets))
        if route.embedding_dimension is not None:
            raise InvalidRequest(f"model: {config.model!r} makes embeddings only; choose a language model", ("model",))
        self._refuse_elsewhere(question.needed_extras, route)
        return InferenceRequest(
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
            message_extras=question.message_extras,
            tool_extras=question.tool_extras,
            stop=stop,
        )

    def answer(self, caller: Caller, model: str, prompt: str, provider_data: ProviderData) -> str:
        """Return the text of the model's answer to a prompt, waiting for all of it.

        Raises:
            InvalidRequest: the model can't take the request.
            DayLimitReached: the tenant's turns have spent its tokens of the day.
            Overloaded: every slot for turns and direct requests is taken.
            ModelError: the model gave no answer.
        """
        question = Question((UserMessage(content=prompt),), AgentConfig(model=model, instructions=""))
        request = self._request(caller, question, provider_data, StopSignal())
        with self._executor.permit(caller.tenant), waiting_for_a_model(), closing(self._parts(request)) as parts:
            answers = [part for part in parts if isinstance(part, Inferred)]
        return text_of(answers[-1].message.content)

    @contextmanager
    def slot(self, caller: Caller) -> Iterator[None]:
        """Hold a slot for a direct request to a model. Raises DayLimitReached, Overloaded."""
        self._deps.day_limit.check(caller.tenant)
        with self._executor.permit(caller.tenant):
            yield

    def embed(self, caller: Caller, texts: TextsToEmbed, provider_data: ProviderData) -> Embedded:
        """Return the vectors of the texts.

        Raises:
            InvalidRequest: the model can't make such vectors.
            DayLimitReached: the tenant's turns have spent its tokens of the day.
            Overloaded: every slot for turns and direct requests is taken; models of this server need none.
            ModelError: the model gave no answer, or not the expected vectors.
        """
        self._deps.day_limit.check(caller.tenant)
        route = self._routing.route_now(caller.tenant, texts.model)
        if route.targets and all(target.provider_id == LOCAL_EMBEDDINGS for target in route.targets):
            return self._embedded(route, texts, provider_data)
        with self._executor.permit(caller.tenant), waiting_for_a_model():
            return self._embedded(route, texts, provider_data)

    def embed_in_turn(self, caller: Caller, texts: TextsToEmbed, provider_data: ProviderData) -> Embedded:
        """Return the vectors of the texts, in the slot that the caller's turn has. Raises as `embed` does."""
        return self._embedded(self._routing.route(caller.tenant, texts.model), texts, provider_data)

    def _embedded(self, route: ModelRoute, texts: TextsToEmbed, provider_data: ProviderData) -> Embedded:
        request = EmbeddingRequest(
            model=texts.model,
            texts=texts.texts_within(route.context_tokens),
            dimensions=texts.dimensions,
            purpose=texts.purpose,
            extras=texts.extras,
            targets=route.targets,
            provider_data=provider_data,
        )
        embedded = self._deps.embeddings.embed(request)
        expected = texts.dimensions or route.embedding_dimension
        found = {len(vector) for vector in embedded.vectors}
        if expected is None or found <= {expected}:
            return embedded
        problem = f"model {texts.model!r} makes vectors of {', '.join(map(str, sorted(found)))} dimensions"
        if texts.dimensions is None:
            raise ModelFailed(f"{problem}, not the {expected} it is registered with")
        field = texts.dimensions_field
        raise Unsupported(f"{field}: {problem}, not {expected}; leave it out", (field,))

    def _parts(
        self, request: InferenceRequest, kept: Callable[[Inferred], None] | None = None
    ) -> Generator[str | TextChunk | Inferred, None, None]:
        answer = self._deps.inference.stream(request)
        with closing(answer):  # type: ignore[type-var] # the adapters' are generators all
            for item in answer:
                if isinstance(item, TextChunk):
                    yield item if item.logprobs else item.text
                elif isinstance(item, Inferred):
                    if kept is not None:
                        kept(item)
                    yield item._replace(reasoning="")

    def _continued(self, requests: Sequence[InferenceRequest], are_echoed: bool) -> Generator[Part, None, None]:
        answers = []
        for request in requests:
            with closing(self._parts(request)) as parts:
                for number, part in enumerate(parts):
                    if are_echoed and number == 0:  # not before the model answers, so that a refusal is a status
                        yield from _echo(request)
                    if isinstance(part, Inferred):
                        answers.append(part)
                        yield Continued(part)
                    else:
                        yield part
        yield Continuations(tuple(answers))

    def _refuse_elsewhere(self, needed: tuple[str, ...], route: ModelRoute) -> None:
        """Raise Unsupported, naming a needed field, if the route has a provider other than OpenAI's servers."""
        if needed and self._routing.kinds(route) != {OPENAI}:
            raise Unsupported(
                f"{needed[0]}: the provider of {route.model_id!r} does not take it; leave it out", (needed[0],)
            )


def _echo(request: InferenceRequest) -> Iterator[str]:
    """Yield the text to continue in parts of at most `ECHO_CHARACTERS`."""
    (message,) = request.messages
    text = text_of(message.content)
    for begin in range(0, len(text), ECHO_CHARACTERS):
        yield text[begin : begin + ECHO_CHARACTERS]
