"""GET /v1/models: the models that agents can name."""

from turnstone.dialects.llama_stack.registry_replies import Model, ModelList
from turnstone.domain.errors import ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def list_models(request: Request) -> Reply:
    ids = request.application.inference.models()
    return reply(ModelList(data=tuple(Model(identifier=name, provider_resource_id=name) for name in ids)))


ROUTE = Route("GET", "/v1/models", list_models, ModelList, raises=(ModelError, ModelTimedOut))
handler = LambdaHandler(__name__, ROUTE, loads="inference")
