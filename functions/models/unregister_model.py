"""DELETE /v1/models/{model_id}: forget a registered model; what the model server lists stays."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request
from turnstone.http.route import Null, Route


def unregister_model(request: Request) -> Reply:
    request.use_cases.models.unregister(request.caller, request.path_params["model_id"])
    return null()


ROUTE = Route("DELETE", "/v1/models/{model_id}", unregister_model, Null, takes_slashes=True)
handler = LambdaHandler(__name__, ROUTE, loads="models")
