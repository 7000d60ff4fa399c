"""The routes of this family as one function: they are asked for rarely, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler

from . import health, version  # relative: in a function this family is a package of its own, here a part of functions

handler = LambdaHandler(__name__, health.ROUTE, version.ROUTE)
