"""Requests of the Agents API of September 2024, which name what they are about in the body, in today's terms.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.40; unknown fields are ignored, nulls
mean the default.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import model_validator

from turnstone.dialects.llama_stack.lists import only
from turnstone.domain.agents import AgentConfig, Greedy, SamplingParams, Strategy, TopK, TopP
from turnstone.domain.model import Frozen, Many, NullMeansDefault
from turnstone.domain.numbers import Number, Whole
from turnstone.domain.refs import SessionRef, TurnRef

StrategyName = Literal["greedy", "top_p", "top_k"]


class SamplingParams2024(NullMeansDefault):
    """How the model chooses tokens: with a strategy told by its name, and its numbers beside it, or as today."""

    strategy: StrategyName | Strategy = Greedy()
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Whole | None = None
    max_tokens: Whole = 0
    repetition_penalty: Number = 1.0
    stop: Many[str] | None = None

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.strategy == "top_k" and not self.top_k:
            raise ValueError("top_k: the strategy top_k has to be told from how many tokens the model chooses")
        if self.strategy == "top_p" and self.temperature is not None and self.temperature < 0:
            raise ValueError("temperature: must not be below 0")
        return self

    def to_sampling_params(self) -> SamplingParams:
        return SamplingParams(
            strategy=self._strategy(),
            max_tokens=self.max_tokens,
            repetition_penalty=self.repetition_penalty,
            stop=self.stop,
        )

    def _strategy(self) -> Strategy:
        if not isinstance(self.strategy, str):
            return self.strategy
        if self.strategy == "top_k":
            return TopK(top_k=self.top_k or 1)
        if self.strategy == "greedy" or self.temperature == 0:  # at which only the likeliest token is left
            return Greedy()
        return TopP(temperature=self.temperature, **({} if self.top_p is None else {"top_p": self.top_p}))


class AgentConfig2024(AgentConfig):
    """An agent's configuration, with sampling as it was told then."""

    # what it is made into before anybody reads it is what the wider class says
    sampling_params: SamplingParams2024 = SamplingParams2024()  # type: ignore[assignment]

    def to_config(self) -> AgentConfig:
        return AgentConfig.model_construct(
            **{**dict(self), "sampling_params": self.sampling_params.to_sampling_params()}
        )


class CreateAgent2024(Frozen):
    agent_config: AgentConfig2024


class AgentNamed(NullMeansDefault):
    agent_id: str


class CreateSession2024(AgentNamed):
    session_name: str


class SessionNamed(AgentNamed):
    session_id: str

    def ref(self, tenant: str) -> SessionRef:
        return SessionRef(tenant=tenant, agent_id=self.agent_id, session_id=self.session_id)


class SessionWanted(SessionNamed):
    """A session to read, with all its turns or with some of them."""

    turn_ids: Many[str] | None = None


class TurnNamed(AgentNamed):
    """A turn; without its session, which clients of that time did not send, it is looked for in all of the agent's."""

    session_id: str | None = None
    turn_id: str

    def ref(self, tenant: str) -> TurnRef | None:
        """Return which turn it is, None without its session."""
        if self.session_id is None:
            return None
        return TurnRef(tenant=tenant, agent_id=self.agent_id, session_id=self.session_id, turn_id=self.turn_id)


class StepNamed(TurnNamed):
    step_id: str


def query_of(*names: str, optional: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return what the API's document tells of ids in a query."""
    told = {"description": "What is asked for.", "schema": {"type": "string"}}
    return {name: {**told, "required": name not in optional} for name in (*names, *optional)}


def named_in_query(query: Mapping[str, Sequence[str]], *names: str) -> dict[str, str]:
    """Return those of the names that the query has, with their values. Raises InvalidRequest for one told twice."""
    return {name: value for name in names if (value := only(query, name)) is not None}
