"""OpenAI's own clients, unmodified: an MCP server of a response, with approvals.

Arguments: base URL, the server's URL and token, the URL of a server that is not there.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import openai
from reporting import report

ECHO = "call echo {}"


def streamed(client: openai.OpenAI, **request: Any) -> tuple[Any, dict[str, Any]]:
    """Return the response, and how its stream went."""
    kinds, numbers = [], []
    with client.responses.stream(model="stub-llm", **request) as stream:
        for event in stream:
            kinds.append(event.type)
            numbers.append(event.sequence_number)
        final = stream.get_final_response()
    items = [item.to_dict() for item in client.responses.retrieve(final.id).output]
    shown = [{name: each for name, each in item.to_dict().items() if name != "parsed"} for item in final.output]
    for item in shown:
        for part in item.get("content") or ():
            part.pop("parsed", None)
    is_whole = numbers == list(range(len(numbers)))
    return final, {"kinds": kinds, "is_whole": is_whole, "is_same": shown == items}


def main(base_url: str, server_url: str, token: str, gone_url: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    tool = {"type": "mcp", "server_label": "birds", "server_url": server_url, "authorization": token}
    free = client.responses.create(model="stub-llm", input=ECHO, tools=[{**tool, "require_approval": "never"}])
    report(free=[[item.type for item in free.output], free.output_text], echo=[each.to_dict() for each in free.tools])
    requested, report_of = streamed(client, input=ECHO, tools=[tool])
    report(requested=[requested.status, [item.type for item in requested.output]], requesting=report_of)
    decision = {"type": "mcp_approval_response", "approval_request_id": requested.output[-1].id, "approve": True}
    request = {"input": [decision], "previous_response_id": requested.id}
    answer, report_of = streamed(client, **request, tools=[tool])
    report(answer=[[item.type for item in answer.output], answer.output_text], answering=report_of)
    report(linked=answer.output[0].approval_request_id == requested.output[-1].id)
    refused = []
    for wrong in (
        {**request, "tools": [tool]},
        {**request, "tools": []},
        {"input": ECHO, "tools": [{**tool, "server_url": "http://10.0.0.1/mcp"}]},
        {"input": ECHO, "tools": [{**tool, "headers": {"Host": "x"}}]},
        {"input": ECHO, "tools": [{**tool, "connector_id": "connector_gmail"}]},
    ):
        try:
            client.responses.create(model="stub-llm", **wrong)
        except openai.APIStatusError as error:
            refused.append([error.status_code, error.param])
    report(refused=refused)
    of_llama_stack = openai.OpenAI(base_url=base_url.replace("/v1", "/v1/openai/v1"), api_key="any", max_retries=0)
    for name, more in (("unnamed", {}), ("named", {"require_approval": "always"})):
        answer = of_llama_stack.responses.create(model="stub-llm", input=ECHO, tools=[{**tool, **more}])
        report(**{name: [[item.type for item in answer.output], answer.tools[0].require_approval]})
    gone = {**tool, "server_url": gone_url}
    events = list(client.responses.create(model="stub-llm", input=ECHO, tools=[gone], stream=True))
    failed = events[-1].response
    report(failed=[failed.status, [[item.type, bool(item.error)] for item in failed.output]])
    is_whole = [event.sequence_number for event in events] == list(range(len(events)))
    is_same = client.responses.retrieve(failed.id).to_dict() == failed.to_dict()
    report(failing={"kinds": [event.type for event in events], "is_whole": is_whole, "is_same": is_same})
    try:
        client.responses.create(model="stub-llm", input=ECHO, tools=[gone])
    except openai.InternalServerError as error:
        report(unstreamed=[error.status_code, error.code])


async def run_agent(base_url: str, server_url: str, token: str, _: str) -> None:
    from agents import Agent, HostedMCPTool, OpenAIResponsesModel, Runner, set_tracing_disabled

    set_tracing_disabled(True)
    decided: list[str] = []

    def decide(request: Any) -> dict[str, Any]:
        decided.append(request.data.name)
        return {"approve": True}

    config = {"type": "mcp", "server_label": "birds", "server_url": server_url, "require_approval": "always"}
    tool = HostedMCPTool(tool_config={**config, "authorization": token}, on_approval_request=decide)
    async with openai.AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        model = OpenAIResponsesModel(model="stub-llm", openai_client=client)
        agent = Agent(name="counter", model=model, tools=[tool])
        result = await Runner.run(agent, ECHO)
    report(agent=[result.final_output, decided])


if __name__ == "__main__":
    main(*sys.argv[1:])
    asyncio.run(run_agent(*sys.argv[1:]))
