"""The agent that a chat makes for itself: later chats of the same caller that want the same one use it again."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlencode

from pydantic import ValidationError

from turnstone.domain.agents.agents import AgentConfig

from .client import ChatError, Client, Refused
from .machine_secret import machine_secret
from .session import open_session
from .wire import Json

SHOWN_MODELS = 20
MOST_PAGES = 50  # of a list of agents, each of which the server reads a thousand entries for
USUAL = {"instructions": "You are a helpful assistant.", "enable_session_persistence": True}
NEXT_WAY = (404, 409)  # the agent has been deleted; the key belongs to a request of another form


class OwnSession(NamedTuple):
    """A new session of a chat's own agent."""

    agent_id: str
    session_id: str
    model: str


def open_own_session(client: Client, model: str | None, config: Json) -> OwnSession:
    """Return a new session of an agent of this configuration, found by its name, or else made.

    Chats that start at the same moment make one agent, because the name is also the key of the request. Without a
    model it is the one that the server has. Raises ChatError.
    """
    model = model or _only_model(client)
    wanted = {**USUAL, **config, "model": model}
    name = _name(wanted, identity_of(client.api_key))
    wanted["name"] = name
    ways: tuple[Callable[[], str | None], ...] = (
        lambda: _found(client, wanted),
        lambda: _made(client, wanted, name),
        lambda: _made(client, wanted, None),  # where the one that the key stands for has been deleted
    )
    for agent_of in ways:
        try:
            if (agent_id := agent_of()) is not None:
                return OwnSession(agent_id, open_session(client, agent_id), model)
        except Refused as refusal:
            if refusal.status not in NEXT_WAY or agent_of is ways[-1]:
                raise
    raise ChatError("an agent for this chat can't be made.")


def identity_of(api_key: str | None) -> str:
    """Return what stays the same of a caller, and that nobody else knows.

    It is the key; or, of a token, each of which is used once, issuer and subject with a secret of this machine: who
    knows those two must not be able to make the agent in which the caller's chats would then be.
    """
    parts = (api_key or "").split(".")
    with suppress(ValueError, RecursionError, IndexError):
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        if isinstance(claims, dict) and "sub" in claims:
            return json.dumps([claims.get("iss"), claims["sub"], machine_secret()])
    return api_key or ""


def _name(config: Json, identity: str) -> str:
    """Return a name that tells this caller's agent of this configuration from all others, and nothing of either.

    Callers of a tenant have agents of their own: whoever made an agent may delete it with everybody's sessions.
    """
    told = json.dumps([identity, config], sort_keys=True)
    return f"chat-{sha256(told.encode()).hexdigest()[:16]}"


def _found(client: Client, wanted: Json) -> str | None:
    """Return the oldest agent of this name whose configuration is the same in every field, if there is one."""
    try:
        config = AgentConfig.model_validate(wanted)
    except ValidationError:  # for the server to refuse, in its words
        return None
    for agent in _agents_named(client, wanted["name"]):
        with suppress(ValidationError):
            if AgentConfig.model_validate(agent["agent_config"]) == config:
                return str(agent["agent_id"])
    return None


def _agents_named(client: Client, name: str) -> Iterator[Json]:
    query = {"name": name, "limit": "20"}
    for _ in range(MOST_PAGES):
        page = client.get(f"/agents?{urlencode(query)}")[0]
        yield from page.get("data") or ()  # none where what answers is no server of agents
        if not page.get("has_more") or not page.get("cursor"):
            return
        query["cursor"] = page["cursor"]


def _made(client: Client, wanted: Json, key: str | None) -> str:
    return str(client.post("/agents", {"agent_config": wanted}, key)["agent_id"])


def _only_model(client: Client) -> str:
    """Return the one model that answers. Raises ChatError if there is none, or a choice."""
    found = client.get("/models")[0]["data"]
    names = [str(model["identifier"]) for model in found if model["model_type"] == "llm"]
    if len(names) == 1:
        return names[0]
    if not names:
        raise ChatError("the server has no model that answers; its log may say why. Name one with --model.")
    told = ", ".join(names[:SHOWN_MODELS]) + (", …" if len(names) > SHOWN_MODELS else "")
    raise ChatError(f"the server has several models; name one with --model: {told}")
