"""Translate agents of the Agents API of September 2024 to the current form.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.40; unknown fields are ignored, nulls
stand for the default.
"""

from typing import Literal, Self

from pydantic import model_validator

import turnstone.domain.agents.defined_tools  # noqa: F401 - agents of that time have some
from turnstone.domain.agents.agents import AgentConfig, Greedy, SamplingParams, Strategy, TopK, TopP
from turnstone.domain.values.frozen import Frozen, Many, NullMeansDefault
from turnstone.domain.values.numbers import Number, Whole

StrategyName = Literal["greedy", "top_p", "top_k"]


class SamplingParams2024(NullMeansDefault):
    """Sampling of tokens: with the name of a strategy and its numbers next to it, or as today."""

    strategy: StrategyName | Strategy = Greedy.model_construct()
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Whole | None = None
    max_tokens: Whole = 0
    repetition_penalty: Number = 1.0
    stop: Many[str] | None = None

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.strategy == "top_k" and not self.top_k:
            raise ValueError("top_k: is required with the strategy top_k")
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
        if self.strategy == "greedy" or self.temperature == 0:  # at which only the most likely token is left
            return Greedy()
        return TopP(temperature=self.temperature, **({} if self.top_p is None else {"top_p": self.top_p}))


class AgentConfig2024(AgentConfig):
    """An agent's configuration, with sampling in the form of that time."""

    # the validated value already has the type of the wider class
    sampling_params: SamplingParams2024 = SamplingParams2024.model_construct()  # type: ignore[assignment]

    def to_config(self) -> AgentConfig:
        return AgentConfig.model_construct(
            **{**dict(self), "sampling_params": self.sampling_params.to_sampling_params()}
        )


class CreateAgent2024(Frozen):
    agent_config: AgentConfig2024
