"""GET /v1/docs: the API as a page to read."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route


def get_docs(request: Request) -> Reply:
    from turnstone.edge.documents import page_reply  # it takes longer to load than all that serves

    return page_reply(__name__.rpartition(".")[0], request.scheme, request.application.max_infer_iters)


ROUTE = Route("GET", "/v1/docs", get_docs, None)
handler = LambdaHandler(__name__, ROUTE)
