"""The routes of this folder, each of which is a function of its own."""

from . import create_agent, delete_agent, get_agent, list_agents

ROUTES = (create_agent.ROUTE, get_agent.ROUTE, list_agents.ROUTE, delete_agent.ROUTE)
