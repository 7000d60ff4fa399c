"""GET /v1/models/{model_id}: a model that is registered, or that the model server lists."""

from turnstone.dialects.llama_stack.models import ListedModel
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import SHARED
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_model(request: Request) -> Reply:
    return reply(ListedModel.of(request.use_cases.models.get(request.caller, request.path_params["model_id"])))


RAISES = (ModelBusy, ModelError, ModelTimedOut)
PATH = "/v1/models/{model_id}"
ROUTE = Route("GET", PATH, get_model, ListedModel, raises=RAISES, takes_slashes=True, dialect=SHARED)
handler = LambdaHandler(__name__, ROUTE, loads="models")
