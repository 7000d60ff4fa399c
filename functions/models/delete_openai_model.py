"""DELETE /v1/openai/v1/models/{model_id}: forget a registered model, as OpenAI's clients delete one."""

from turnstone.dialects.openai.models import OpenAIModelDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_openai_model(request: Request) -> Reply:
    model_id = request.path_params["model_id"]
    request.use_cases.models.unregister(request.caller, model_id)
    return reply(OpenAIModelDeleted(id=model_id))


PATH = "/v1/openai/v1/models/{model_id}"
ROUTE = Route("DELETE", PATH, delete_openai_model, OpenAIModelDeleted, takes_slashes=True, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="models")
