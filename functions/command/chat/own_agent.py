"""The agent that a chat creates for itself; later chats of the same caller and configuration use it again."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlencode

from pydantic import ValidationError

from turnstone.domain.agents.agents import AgentConfig

from ..client import Client, CommandFailed, Refused
from ..wire import Json
from .machine_secret import machine_secret
from .session import open_session

SHOWN_MODELS = 20
MOST_PAGES = 50  # of a list of agents; the server reads a thousand entries for each
USUAL = {"instructions": "You are a helpful assistant.", "enable_session_persistence": True}
NEXT_WAY = (404, 409)  # the agent has been deleted; the key belongs to a request of another form


class OwnSession(NamedTuple):
    """A new session of a chat's own agent."""

    agent_id: str
    session_id: str
    model: str


def open_own_session(client: Client, model: str | None, config: Json) -> OwnSession:
    """Return a new session of an agent of this configuration, found by its name or created.

    Chats that start at the same moment create one agent, because the name is also the idempotency key. Without `model`
    it is the only model of the server. Raises CommandFailed.
    """
    model = model or _only_model(client)
    expected = {**USUAL, **config, "model": model}
    name = _name(expected, identity_of(client.api_key))
    expected["name"] = name
    ways: tuple[Callable[[], str | None], ...] = (
        lambda: _found(client, expected),
        lambda: _made(client, expected, name),
        lambda: _made(client, expected, None),  # if the agent of that key was deleted
    )
    for agent_of in ways:
        try:
            if (agent_id := agent_of()) is not None:
                return OwnSession(agent_id, open_session(client, agent_id), model)
        except Refused as refusal:
            if refusal.status not in NEXT_WAY or agent_of is ways[-1]:
                raise
    raise CommandFailed("an agent for this chat can't be created.")


def identity_of(api_key: str | None) -> str:
    """Return a lasting and secret identity of a caller.

    It is the API key; of a short-lived token, issuer and subject with a secret of this machine. Without the secret,
    another caller with those two could create the agent of this caller's chats.
    """
    parts = (api_key or "").split(".")
    with suppress(ValueError, RecursionError, IndexError):
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        if isinstance(claims, dict) and "sub" in claims:
            return json.dumps([claims.get("iss"), claims["sub"], machine_secret()])
    return api_key or ""


def _name(config: Json, identity: str) -> str:
    """Return the unique name of this caller's agent of this configuration; it reveals nothing of either.

    Callers of a tenant have agents of their own: the creator of an agent may delete it with all sessions.
    """
    text = json.dumps([identity, config], sort_keys=True)
    return f"chat-{sha256(text.encode()).hexdigest()[:16]}"


def _found(client: Client, expected: Json) -> str | None:
    """Return the oldest agent of this name with exactly this configuration, None if there is none."""
    try:
        config = AgentConfig.model_validate(expected)
    except ValidationError:  # the server refuses it, with its own message
        return None
    for agent in _agents_named(client, expected["name"]):
        with suppress(ValidationError):
            if AgentConfig.model_validate(agent["agent_config"]) == config:
                return str(agent["agent_id"])
    return None


def _agents_named(client: Client, name: str) -> Iterator[Json]:
    query = {"name": name, "limit": "20"}
    for _ in range(MOST_PAGES):
        page = client.get(f"/agents?{urlencode(query)}")[0]
        yield from page.get("data") or ()  # missing in the response of another kind of server
        if not page.get("has_more") or not page.get("cursor"):
            return
        query["cursor"] = page["cursor"]


def _made(client: Client, expected: Json, key: str | None) -> str:
    return str(client.post("/agents", {"agent_config": expected}, key)["agent_id"])


def _only_model(client: Client) -> str:
    """Return the only model of the server. Raises CommandFailed if there is none, or several."""
    found = client.get("/models")[0]["data"]
    names = [str(model["identifier"]) for model in found if model["model_type"] == "llm"]
    if len(names) == 1:
        return names[0]
    if not names:
        raise CommandFailed("the server has no model; its log may have the reason. Name one with --model.")
    listed = ", ".join(names[:SHOWN_MODELS]) + (", …" if len(names) > SHOWN_MODELS else "")
    raise CommandFailed(f"the server has several models; name one with --model: {listed}")
