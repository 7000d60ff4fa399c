"""GET /v1/models: the models of the model server, and those registered beside them."""

from turnstone.dialects.llama_stack.models import ModelList
from turnstone.domain.errors import ModelError, ModelTimedOut, StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def list_models(request: Request) -> Reply:
    return reply(ModelList(data=request.application.models.list(request.caller)))


ROUTE = Route("GET", "/v1/models", list_models, ModelList, raises=(ModelError, ModelTimedOut, StoreUnavailable))
handler = LambdaHandler(__name__, ROUTE, loads="models")
