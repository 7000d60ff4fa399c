"""GET /letta/v1/models: the models that agents may name."""

from turnstone.dialects.letta.server.models import LettaModels, models_of
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut, StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_letta_models(request: Request) -> Reply:
    return reply(models_of(request.use_cases.models.list(request.caller)))


RAISES = (ModelBusy, ModelError, ModelTimedOut, StoreUnavailable)
ROUTE = Route("GET", "/letta/v1/models", list_letta_models, LettaModels, raises=RAISES, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="models")
