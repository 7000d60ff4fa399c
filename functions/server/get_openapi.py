"""GET /v1/openapi.json: the API as an OpenAPI document, made from its routes."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_openapi(request: Request) -> Reply:
    from turnstone.edge.documents import Described, document_reply  # it takes longer to load than all that serves

    described = Described(__name__.rpartition(".")[0], request.scheme, request.use_cases.max_infer_iters)
    return document_reply(described)


ROUTE = Route("GET", "/v1/openapi.json", get_openapi, None, is_open=True)
handler = LambdaHandler(__name__, ROUTE)
