"""GET /v1/models/{model_id}: a model that is registered, or that the model server lists."""

from turnstone.domain.errors import ModelError, ModelTimedOut
from turnstone.domain.registry import Model
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def get_model(request: Request) -> Reply:
    return reply(request.application.models.get(request.caller, request.path_params["model_id"]))


RAISES = (ModelError, ModelTimedOut)
ROUTE = Route("GET", "/v1/models/{model_id}", get_model, Model, raises=RAISES, takes_slashes=True)
handler = LambdaHandler(__name__, ROUTE, loads="models")
