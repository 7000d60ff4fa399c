"""The routes of this family as one function, which streams: embeddings, too, may outgrow a buffered answer."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "POST /v1/inference/chat-completion": "chat_completion",
    "POST /v1/openai/v1/chat/completions": "create_chat_completion",
    "POST /v1/inference/completion": "infer_completion",
    "POST /v1/openai/v1/completions": "create_completion",
    "POST /v1/openai/v1/embeddings": "create_embedding",
    "POST /v1/inference/embeddings": "embed_contents",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads="inferring")
