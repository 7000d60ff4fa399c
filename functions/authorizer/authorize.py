"""API Gateway's authorizer, which identifies callers by the tokens in their `Authorization` headers."""

from turnstone.edge.authorizer import Authorizer

handler = Authorizer(__name__)
