"""Letta's own client, unmodified: tools of Python from their creation to their deletion, in turns and outside of them.

Arguments: base URL up to and including /letta.
"""

import sys

from letta_client import CreateBlock, EmbeddingConfig, InitToolRule, Letta, LlmConfig, MessageCreate, TerminalToolRule
from letta_client.core.api_error import ApiError
from reporting import report

LLM = LlmConfig(
    model="words", model_endpoint_type="openai", model_endpoint="http://127.0.0.1:1/v1", context_window=8192
)
EMBEDDING = EmbeddingConfig(
    embedding_model="none", embedding_endpoint_type="openai", embedding_endpoint="http://127.0.0.1:1", embedding_dim=8
)
ROLL = '''
import os

def roll(sides: int, agent_state: "AgentState") -> str:
    """
    Roll a die.

    Args:
        sides (int): number of sides
    """
    print("rolling")
    return f"{sides} {agent_state.memory.get_block('human').value} {len(os.environ['API_KEY'])}"
'''
FAIL = '''
def fail(text: str = __import__("os").environ.get("API_KEY") or __import__("os").abort()):
    """Fail.

    Args:
        text: what it says
    """
    raise ValueError(text)
'''
ADD = '''
import os

def add(a: int, b: list):
    """Add."""
    print(os.environ["K"])
    return a + sum(b)
'''
LONG = 'def long():\n    """Write much."""\n    return "x" * 1000\n'


def status_of(act: object) -> int:
    try:
        act()
    except ApiError as error:
        return error.status_code
    raise AssertionError("nothing was raised")


def of_registry(client: Letta) -> None:
    tools = client.tools
    made = tools.create(source_code=ROLL, tags=["dice"])
    again = tools.upsert(source_code=ROLL.replace("Roll a die", "Roll it"), return_char_limit=50)
    changed = tools.update(made.id, tags=["new"], description="Mine.")
    report(
        made=[made.name, made.description, made.tool_type, made.source_type, made.tags, made.return_char_limit],
        schema=made.json_schema["parameters"],
        again=[again.id == made.id, again.description, again.tags, again.return_char_limit],
        changed=[changed.description, changed.tags, changed.return_char_limit],
        read=[tools.get(made.id).source_code == again.source_code, tools.get_by_name("roll") == made.id],
        listed=[tool.name for tool in tools.list()],
        later=[tool.name for tool in tools.list(cursor=tools.list(limit=8)[-1].id, limit=2)],
        refused=[
            status_of(lambda: tools.create(source_code=ROLL)),
            status_of(lambda: tools.create(source_code=LONG.replace("long", "send_message"))),
            status_of(lambda: tools.create(source_code="def f(:")),
            status_of(lambda: tools.create(source_code="def f(x): pass")),
            status_of(lambda: tools.update(tools.get_by_name("send_message"), tags=[])),
            status_of(lambda: tools.get("tool-58c2e88e-4449-464b-9f6e-1b5426324b01")),
            status_of(lambda: tools.delete("tool-58c2e88e-4449-464b-9f6e-1b5426324b01")),
        ],
    )


def of_turns(client: Letta) -> None:
    failing = client.tools.create(source_code=FAIL)
    human = [CreateBlock(label="human", value="Bob")]
    agent = client.agents.create(
        name="Sam",
        llm_config=LLM,
        embedding_config=EMBEDDING,
        memory_blocks=human,
        tools=["roll"],
        tool_ids=[failing.id],
        tool_exec_environment_variables={"API_KEY": "hush-4711"},
        tool_rules=[
            InitToolRule(tool_name="roll", type="InitToolRule"),
            TerminalToolRule(tool_name="send_message", type="TerminalToolRule"),
        ],
    )
    (variable,) = agent.tool_exec_environment_variables
    report(
        tools=sorted(tool.name for tool in agent.tools if tool.tool_type == "custom"),
        variable=[variable.key, variable.value, variable.agent_id == agent.id],
    )
    answer = client.agents.messages.send(agent_id=agent.id, messages=[MessageCreate(role="user", text="go")])
    returned = [message for message in answer.messages if message.message_type == "tool_return_message"]
    report(
        types=[message.message_type for message in answer.messages],
        returned=[[each.status, each.tool_return, each.stdout] for each in returned],
        last_error=returned[-1].stderr[0].splitlines()[-1] if returned[-1].stderr else "",
    )
    offered = [each.function.name for each in client.agents.context.get(agent.id).functions_definitions]
    client.tools.delete(failing.id)
    kept = client.agents.update(agent.id, tool_exec_environment_variables={})
    report(
        offered=sorted(offered),
        left=sorted(tool.name for tool in client.agents.tools.list(agent.id) if tool.tool_type == "custom"),
        cleared=len(kept.tool_exec_environment_variables),
        gone=status_of(lambda: client.tools.get(failing.id)),
    )


def of_runs(client: Letta) -> None:
    run = client.tools.run_tool_from_source
    done = run(source_code=LONG.replace('"x" * 1000', "'done'"), args={})
    typed = run(
        source_code=ADD,
        args={"a": "3", "b": "[4, 5]"},
        env_vars={"K": "v"},
    )
    failed = run(source_code=FAIL, args={"text": "no"}, env_vars={"API_KEY": "x"}, name="fail")
    report(
        runs=[[each.status, each.tool_return, each.stdout] for each in (done, typed, failed)],
        ids=[done.id, done.tool_call_id],
    )


def main(base_url: str, act: str) -> None:
    client = Letta(base_url=base_url)
    of_registry(client)
    if act == "on":
        of_turns(client)
    of_runs(client)


main(*sys.argv[1:])
