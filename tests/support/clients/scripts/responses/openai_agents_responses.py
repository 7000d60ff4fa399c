"""OpenAI's Agents SDK, unmodified, over responses: tools, a handoff, a guardrail, streams, sessions; stored and not.

Arguments: base URL up to and including /v1.
"""

import asyncio
import sys

import openai
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    ModelSettings,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    input_guardrail,
    set_tracing_disabled,
)
from reporting import report

set_tracing_disabled(True)


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@input_guardrail
async def no_secrets(context, agent, given) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="secret" in str(given))


def agents_of(model: OpenAIResponsesModel, settings: ModelSettings) -> Agent:
    other = Agent(name="other", instructions="Be other.", model=model, tools=[add], model_settings=settings)
    return Agent(name="first", instructions="Be first.", model=model, handoffs=[other], model_settings=settings)


async def streamed(agent: Agent, given: object, **more: object) -> object:
    running = Runner.run_streamed(agent, given, **more)
    async for _ in running.stream_events():
        pass
    return running


async def handoffs(model: OpenAIResponsesModel, name: str, settings: ModelSettings) -> None:
    first = agents_of(model, settings)
    for run in (Runner.run, streamed):
        ended = await run(first, "add 3 and 4")
        again = await run(first, [*ended.to_input_list(), {"role": "user", "content": "once more"}])
        seen = [
            [each.final_output, each.last_agent.name, [item.type for item in each.new_items]] for each in (ended, again)
        ]
        report(**{f"{name}_{run.__name__}": seen})


async def sessions(model: OpenAIResponsesModel, client: openai.AsyncOpenAI) -> None:
    session = OpenAIConversationsSession(openai_client=client)
    first = agents_of(model, ModelSettings())
    ended = await Runner.run(first, "add 3 and 4", session=session)
    kinds = [item["type"] for item in await session.get_items()]
    popped = await session.pop_item()
    left = await session.get_items()
    again = await streamed(first, "and now?", session=session)
    total = len(await session.get_items())
    newest = [item["type"] for item in await session.get_items(limit=2)]
    session_id = session.session_id
    await session.clear_session()
    try:
        await client.conversations.retrieve(session_id)
    except openai.NotFoundError as gone:
        report(cleared=gone.status_code)
    report(
        session=[ended.final_output, kinds, popped["content"][0]["text"], len(left), again.final_output, total, newest]
    )


async def conversations(model: OpenAIResponsesModel, client: openai.AsyncOpenAI) -> None:
    made = await client.conversations.create()
    ended = await Runner.run(agents_of(model, ModelSettings()), "add 3 and 4", conversation_id=made.id)
    items = [item.type async for item in client.conversations.items.list(made.id, order="asc")]
    report(conversation=[ended.final_output, items])


async def main(base_url: str) -> None:
    client = openai.AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0)
    model = OpenAIResponsesModel(model="scripted", openai_client=client)
    await handoffs(model, "stored", ModelSettings())
    await handoffs(model, "unstored", ModelSettings(store=False))
    guarded = Agent(name="first", instructions="Be other.", model=model, input_guardrails=[no_secrets])
    try:
        await Runner.run(guarded, "a secret")
    except InputGuardrailTripwireTriggered:
        report(guarded=True)
    await sessions(model, client)
    await conversations(model, client)
    listed = await client.get("/responses?limit=100", cast_to=object)
    report(listed=sorted({each["store"] for each in listed["data"]}))


asyncio.run(main(*sys.argv[1:]))
