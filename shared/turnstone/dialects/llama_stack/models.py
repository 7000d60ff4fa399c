"""Models and providers on the Llama Stack wire: requests and replies.

Source: the types of `llama-stack-client` 0.2.12, and OpenAI's API reference; of requests, unknown fields are ignored,
nulls stand for the default.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field

from turnstone.dialects.llama_stack.requests import given_fields
from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.domain.registry.providers import Provider
from turnstone.domain.registry.registry import Identifier, Model
from turnstone.domain.values.frozen import Frozen, JsonObject, NullMeansDefault

GIVEN = {
    "provider_model_id": "provider_resource_id",
    "provider_id": "provider_id",
    "metadata": "metadata",
    "model_type": "model_type",
}
Resource = Annotated[str, Field(min_length=1, max_length=2_048)]


class RegisterModel(NullMeansDefault):
    model_id: Identifier
    provider_model_id: Resource | None = None
    provider_id: str = DEFAULT_PROVIDER
    metadata: JsonObject = {}
    model_type: Literal["llm", "embedding"] = "llm"

    @property
    def given(self) -> frozenset[str]:
        """The fields of a model in the body."""
        return given_fields(self, GIVEN)

    def to_model(self) -> Model:
        return Model(
            identifier=self.model_id,
            provider_resource_id=self.provider_model_id or self.model_id,
            provider_id=self.provider_id,
            model_type=self.model_type,
            metadata=self.metadata,
        )


class ListedModel(Model):
    """A model for clients of both APIs: OpenAI's fields next to those of Llama Stack."""

    id: str
    object: Literal["model"] = "model"
    created: Literal[0] = 0
    owned_by: str

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(**dict(model), id=model.identifier, owned_by=model.provider_id)


class ModelList(Frozen):
    object: Literal["list"] = "list"
    data: tuple[ListedModel, ...]

    @classmethod
    def of(cls, models: Iterable[Model]) -> Self:
        return cls(data=tuple(map(ListedModel.of, models)))


class ProviderList(Frozen):
    data: tuple[Provider, ...]
