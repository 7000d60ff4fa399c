"""POST /v1/models: register a model with its provider and metadata."""

from turnstone.dialects.llama_stack.models import ListedModel, RegisterModel
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def register_model(request: Request) -> Reply:
    body = parse(request, RegisterModel)
    models = request.use_cases.models
    return reply(ListedModel.of(models.register(request.caller, body.to_model(), request.attempt, body.given)))


ROUTE = Route("POST", "/v1/models", register_model, ListedModel, RegisterModel)
handler = LambdaHandler(__name__, ROUTE, loads="models")
