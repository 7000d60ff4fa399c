"""Importing this module imports the modules of servers and other commands, without a thread or another effect."""

import gc
from importlib import import_module
from pkgutil import walk_packages

import turnstone

# numpy, which searches load, starts threads when it is imported, and a fork would lack them
OF_SERVERS = ("bootstrap.services", "dialects", "domain", "engine", "http", "ports", "services", "settings", "store")
ROOTS = (
    "turnstone.adapters.models.routed",
    "turnstone.adapters.models.offline.offline",
    "turnstone.adapters.models.openai.openai_compatible",
    "turnstone.adapters.shields.pattern",
    "turnstone.adapters.tools.mcp.mcp",
    "turnstone.adapters.vectors.configured",
    "turnstone.bootstrap.places.backup",
    "turnstone.bootstrap.places.diagnosis",
    "turnstone.bootstrap.places.local",
    "turnstone.bootstrap.places.operator",
    "turnstone.functions.command.chat.start",
    "turnstone.functions.command.chat.tools",
    "turnstone.functions.command.main",
    "turnstone.functions.command.memory.start",
    "turnstone.functions.command.serve",
    "turnstone.functions.command.webhooks.start",
    "turnstone.functions.local.processes",
    "turnstone.functions.local.server",
    "uvicorn.loops.uvloop",
)


def import_all() -> None:
    for root in ROOTS:
        import_module(root)
    prefix = f"{turnstone.__name__}."
    for module in walk_packages(turnstone.__path__, prefix):
        if module.name.removeprefix(prefix).startswith(OF_SERVERS):
            import_module(module.name)


import_all()
gc.freeze()
