"""Who calls: API Gateway's authorizer, which knows callers by the tokens in their `Authorization` headers."""

from turnstone.edge.authorizer import Authorizer

handler = Authorizer(__name__)
