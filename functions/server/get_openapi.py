"""GET /v1/openapi.json: the API as an OpenAPI document, made from its routes."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route


def get_openapi(request: Request) -> Reply:
    from turnstone.edge.documents import document_reply  # it takes longer to load than all that serves

    return document_reply(__name__.rpartition(".")[0], request.scheme, request.application.max_infer_iters)


ROUTE = Route("GET", "/v1/openapi.json", get_openapi, None)
handler = LambdaHandler(__name__, ROUTE)
