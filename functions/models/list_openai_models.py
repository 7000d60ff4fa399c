"""GET /v1/openai/v1/models: the models of this server, as OpenAI's clients list them."""

from turnstone.dialects.openai.models import OpenAIModelList
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut, StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_openai_models(request: Request) -> Reply:
    return reply(OpenAIModelList.of(request.use_cases.models.list(request.caller)))


ROUTE = Route(
    "GET",
    "/v1/openai/v1/models",
    list_openai_models,
    OpenAIModelList,
    raises=(ModelBusy, ModelError, ModelTimedOut, StoreUnavailable),
    dialect=OPENAI,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="models")
