"""POST /v1/models: register a model, with what is to be known of it."""

from turnstone.dialects.llama_stack.models import ListedModel, RegisterModel
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, parse, reply


def register_model(request: Request) -> Reply:
    model = parse(request, RegisterModel).to_model()
    return reply(ListedModel.of(request.application.models.register(request.caller, model, request.attempt)))


ROUTE = Route("POST", "/v1/models", register_model, ListedModel, RegisterModel)
handler = LambdaHandler(__name__, ROUTE, loads="models")
