"""Text that a server on one machine prints once it serves: its address, its access, and requests to try."""

import os

from turnstone.bootstrap.places.local_models import model_to_try
from turnstone.settings.config import OFFLINE, shown_url
from turnstone.settings.local_settings import LocalSettings

GREETING = """Turnstone serves on {url} (process {process}, {provider}).
{access} Try, in another terminal:

  {curl} {url}/v1/agents -d '{{"agent_config": {{"model": "{model}", "instructions": "Be brief."}}}}'
  {curl} {url}/v1/agents/AGENT_ID/session -d '{{"session_name": "first"}}'
  {curl} -N {url}/v1/agents/AGENT_ID/session/SESSION_ID/turn \\
    -d '{{"stream": true, "messages": [{{"role": "user", "content": "hello"}}]}}'

docs/guide/first-turn.md shows a turn that pauses for a tool of yours. Stop with Ctrl-C; the data stays in {data_dir}.
"""


def greeting(settings: LocalSettings, port: int) -> str:
    """Return the text for a server at the port. Raises InvalidSettings for an operator's file that is not valid."""
    host = f"[{settings.host}]" if settings.host.version == 6 else str(settings.host)
    url = f"http://{host}:{port}"
    model, providers, is_of_file = model_to_try(settings)
    source = str(settings.models_file) if is_of_file else shown_url(settings.model_url)
    if providers:
        source += f" (providers {', '.join(providers)})"
    return GREETING.format(
        url=url,
        process=str(os.getpid()) if settings.processes == 1 else f"{os.getpid()}, {settings.processes} that it started",
        provider="offline model" if model == OFFLINE and not is_of_file else f"models of {source}, see {url}/v1/models",
        access=_access(settings, port),
        curl="curl" if settings.auth == "off" else 'curl -H "Authorization: Bearer $KEY"',
        model=model or "MODEL",
        data_dir=settings.data_dir,
    )


def _access(settings: LocalSettings, port: int) -> str:
    """Return sentences about the access to the server."""
    if settings.auth == "api_keys":
        return "Callers need an API key: `turnstone keys create NAME` creates one."
    if settings.auth == "jwt":
        return f"Callers need a token of {settings.jwt_issuer}."
    users = "all users and programs of this machine can use the server, and no other machine"
    if settings.allow_open:
        where = "this machine, and web pages in its browsers," if settings.host.is_loopback else f"port {port}"
        users = f"every client that reaches {where} can use the server and read its data"
    return f"No authentication: {users}. TURNSTONE_AUTH=api_keys requires API keys."
