"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "DELETE /v1/openai/v1/models/{model_id+}": "delete_openai_model",
    "GET /v1/models/{model_id+}": "get_model",
    "GET /v1/openai/v1/models/{model_id+}": "get_openai_model",
    "GET /v1/providers/{provider_id}": "get_provider",
    "GET /v1/models": "list_models",
    "GET /v1/openai/v1/models": "list_openai_models",
    "GET /v1/providers": "list_providers",
    "POST /v1/models": "register_model",
    "DELETE /v1/models/{model_id+}": "unregister_model",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads="models")
