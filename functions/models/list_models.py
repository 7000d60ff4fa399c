"""GET /v1/models: the models of the model server, and those registered beside them."""

from turnstone.dialects.llama_stack.models import ModelList
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut, StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import SHARED
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_models(request: Request) -> Reply:
    return reply(ModelList.of(request.use_cases.models.list(request.caller)))


RAISES = (ModelBusy, ModelError, ModelTimedOut, StoreUnavailable)
ROUTE = Route("GET", "/v1/models", list_models, ModelList, raises=RAISES, dialect=SHARED)
handler = LambdaHandler(__name__, ROUTE, loads="models")
