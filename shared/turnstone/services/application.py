"""All use cases of the server, as the edge gets them."""

from dataclasses import dataclass

from turnstone.ports import Inference, ToolRuntime
from turnstone.services.agents import Agents
from turnstone.services.sessions import Sessions
from turnstone.services.turns import Turns


@dataclass(frozen=True, slots=True)
class Application:
    agents: Agents
    sessions: Sessions
    turns: Turns
    inference: Inference
    tools: ToolRuntime
