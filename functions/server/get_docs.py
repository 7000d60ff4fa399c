"""GET /v1/docs: the API as a page to read and to try."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_docs(request: Request) -> Reply:
    from turnstone.dialects.llama_stack.unserved import unserved
    from turnstone.edge.documents import Described, page_reply  # it takes longer to load than all that serves

    described = Described(__name__.rpartition(".")[0], request.scheme, request.use_cases.max_infer_iters)
    return page_reply(described, tuple(sorted(unserved())), request.base)


ROUTE = Route("GET", "/v1/docs", get_docs, None, is_open=True)
handler = LambdaHandler(__name__, ROUTE)
