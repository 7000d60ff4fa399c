"""Models on OpenAI's wire.

Source: the OpenAI API reference. The creation time of a model is not available here, so `created` is 0.
"""

from collections.abc import Iterable
from typing import Literal, Self

from turnstone.domain.registry.registry import Model
from turnstone.domain.values.frozen import Frozen


class OpenAIModel(Frozen):
    id: str
    object: Literal["model"] = "model"
    created: Literal[0] = 0
    owned_by: str

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(id=model.identifier, owned_by=model.provider_id)


class OpenAIModelDeleted(Frozen):
    """The registered model is gone."""

    id: str
    object: Literal["model"] = "model"
    deleted: Literal[True] = True


class OpenAIModelList(Frozen):
    object: Literal["list"] = "list"
    data: tuple[OpenAIModel, ...]

    @classmethod
    def of(cls, models: Iterable[Model]) -> Self:
        return cls(data=tuple(map(OpenAIModel.of, models)))
