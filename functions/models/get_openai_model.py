"""GET /v1/openai/v1/models/{model_id}: one model, as OpenAI's clients retrieve it."""

from turnstone.dialects.openai.models import OpenAIModel
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_openai_model(request: Request) -> Reply:
    return reply(OpenAIModel.of(request.use_cases.models.get(request.caller, request.path_params["model_id"])))


ROUTE = Route(
    "GET",
    "/v1/openai/v1/models/{model_id}",
    get_openai_model,
    OpenAIModel,
    raises=(ModelBusy, ModelError, ModelTimedOut),
    takes_slashes=True,
    dialect=OPENAI,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="models")
